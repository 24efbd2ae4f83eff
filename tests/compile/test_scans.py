"""``associative_scan``: values of a plain loop, gradients, nested values and refusals."""

from __future__ import annotations

import importlib

import pytest

import tracejit as tj

associative_scan = importlib.import_module("tracejit._higher_order_ops").associative_scan


def affine(a, b):
    """One step of a linear recurrence after another: ``(A, B)`` stands for ``h -> A h + B``."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def by_loop(decay, drive):
    h, found = tj.zeros_like(drive[:, 0]), []
    for t in range(drive.shape[1]):
        h = decay[:, t] * h + drive[:, t]
        found.append(h)
    return tj.stack(found, 1)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 13])
@pytest.mark.parametrize("compiled", [False, True])
def test_recurrences(count: int, compiled: bool) -> None:
    def loss(decay, drive):
        return (associative_scan(affine, (decay, drive), 1)[1] ** 2).sum()

    run = tj.compile(loss) if compiled else loss
    for seed in range(3):
        tj.manual_seed(seed)
        decay, drive = (
            tj.rand(2, count, 3, dtype=tj.float64),
            tj.randn(2, count, 3, dtype=tj.float64),
        )
        ours = [x.clone().requires_grad_() for x in (decay, drive)]
        plain = [x.clone().requires_grad_() for x in (decay, drive)]
        run(*ours).backward()
        (by_loop(*plain) ** 2).sum().backward()
        for a, b in zip(ours, plain, strict=True):
            grad = (
                tj.zeros_like(a) if a.grad is None else a.grad
            )  # one step alone does not read its factor
            tj.testing.assert_close(grad, b.grad)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums(dim: int, reverse: bool) -> None:
    x = tj.arange(30.0).reshape(2, 3, 5)
    expected = x.flip(dim).cumsum(dim).flip(dim) if reverse else x.cumsum(dim)
    assert associative_scan(tj.add, x, dim, reverse=reverse).tolist() == expected.tolist()
    named = associative_scan(lambda a, b: {"s": a["s"] + b["s"]}, {"s": x}, dim, reverse=reverse)
    assert named["s"].tolist() == expected.tolist()


def test_refusals() -> None:
    x = tj.ones(3)
    for wrong in (
        lambda: associative_scan(None, x, 0),
        lambda: associative_scan(tj.add, [1], 0),
        lambda: associative_scan(tj.add, [], 0),
        lambda: associative_scan(lambda a, b: a, (x, tj.ones(4)), 0),
        lambda: associative_scan(lambda a, b: (a, b), x, 0),
        lambda: associative_scan(tj.add, x, 0, combine_mode="other"),
        lambda: associative_scan(tj.add, tj.tensor(1.0), 0),
    ):
        with pytest.raises(RuntimeError):
            wrong()
