"""Products of groups of rows, columns and sums with one matrix for each group."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj

grouped_mm = tj.nn.functional.grouped_mm
SHAPES = {
    "rows": ((6, 3), (3, 3, 4)),
    "columns": ((3, 4, 3), (3, 6)),
    "sums": ((2, 6), (6, 4)),
}


def numbers(*shape: int) -> Any:
    return (tj.arange(tj.Size(shape).numel()) * 0.7).sin().reshape(shape)


def piece_by_piece(a: Any, b: Any, ends: list[int]) -> Any:
    spans = list(zip([0, *ends], ends, strict=False))
    if a.ndim == b.ndim:
        return tj.stack([a[:, i:j] @ b[i:j] for i, j in spans])
    if a.ndim == 2:
        return tj.cat([a[i:j] @ b[g] for g, (i, j) in enumerate(spans)])
    return tj.cat([a[g] @ b[:, i:j] for g, (i, j) in enumerate(spans)], 1)


@pytest.mark.parametrize("kind", SHAPES)
def test_values_and_gradients_whatever_the_groups(kind: str) -> None:
    compiled = tj.compile(lambda a, b, offs: grouped_mm(a, b, offs=offs))
    a, b = (numbers(*shape).requires_grad_() for shape in SHAPES[kind])
    for ends in ([2, 3, 6], [2, 3, 6], [1, 4, 6], [0, 6, 6], [2, 3, 6]):
        expected = piece_by_piece(a, b, ends)
        gradients = tj.autograd.grad(expected.square().sum(), (a, b))
        offs = tj.tensor(ends, dtype=tj.int32)
        for found in (grouped_mm(a, b, offs=offs), compiled(a, b, offs)):
            assert found.shape == expected.shape
            assert tj.allclose(found, expected)
            for one, other in zip(
                tj.autograd.grad(found.square().sum(), (a, b)), gradients, strict=True
            ):
                assert tj.allclose(one, other)


def test_stacks_are_batches_and_nothing_lies_behind_the_last_group() -> None:
    a, b = numbers(3, 2, 4), numbers(3, 4, 5)
    assert grouped_mm(a, b).tolist() == tj.bmm(a, b).tolist()
    offs = tj.tensor([1, 2, 3], dtype=tj.int32)
    assert tj._grouped_mm(tj.ones(5, 4), b, offs=offs)[3:].tolist() == [[0.0] * 5] * 2
    halves = grouped_mm(tj.ones(3, 4).bfloat16(), b.bfloat16(), offs=offs, out_dtype=tj.bfloat16)
    assert halves.dtype is tj.bfloat16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b, o: grouped_mm(a, b), "Have to provide offsets"),
        (lambda a, b, o: grouped_mm(b, b.mT, offs=o), "Have to provide offsets"),
        (lambda a, b, o: grouped_mm(a, b.mT, offs=o), "contraction dimension"),
        (lambda a, b, o: grouped_mm(a, b, offs=o.long()), "Offsets have to be int32"),
        (lambda a, b, o: grouped_mm(a, b, offs=o[:2]), "matrix batch sizes"),
        (lambda a, b, o: grouped_mm(b.mT, b[:2]), "batched dimension has to match"),
        (lambda a, b, o: grouped_mm(a[0], b, offs=o), "mat_a has to be 2 or 3d"),
        (lambda a, b, o: grouped_mm(a.double(), b.double(), offs=o), "Expected mat_a to be"),
        (lambda a, b, o: grouped_mm(a.half(), b, offs=o), "same dtype"),
        (lambda a, b, o: grouped_mm(a, b, offs=o, bias=a), "Bias not supported"),
        (lambda a, b, o: grouped_mm(a, b, offs=o, out_dtype=tj.float16), "output dtype"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    a, b, offs = numbers(6, 3), numbers(3, 3, 4), tj.tensor([2, 3, 6], dtype=tj.int32)
    with pytest.raises(RuntimeError, match=message):
        call(a, b, offs)
