"""Rows of a few narrow numbers: every width and step for which vectors are taken apart makes code, and right code."""

from __future__ import annotations

import pytest

import tracejit as tj

DTYPES = (tj.int8, tj.uint8, tj.int16, tj.float16, tj.bfloat16, tj.bool)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("width", range(2, 10))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_narrow_numbers(dtype: tj.dtype, width: int) -> None:
    def program(x: tj.Tensor) -> tuple[tj.Tensor, ...]:
        return x.all(-1), x.amax(-1), x.sum(-1), x[:, :-1] * 2, x[:, 1:].sum(-1)

    f = tj.compile(program)
    x = (tj.arange(150 * width) % 5 - (0 if dtype is tj.uint8 else 2)).reshape(150, width).to(dtype)
    expected = program(x)
    for _ in range(3):
        for a, b in zip(expected, f(x), strict=True):
            assert a.dtype is b.dtype
            assert a.tolist() == b.tolist()
    assert f.stats.compiled_calls == 2


@pytest.mark.sampled(4)
@pytest.mark.parametrize("width", range(2, 13))
@pytest.mark.parametrize("dtype", [*DTYPES, tj.float32, tj.int64], ids=str)
def test_truth_values_of_narrow_rows(dtype: tj.dtype, width: int) -> None:
    def program(x: tj.Tensor) -> tuple[tj.Tensor, ...]:
        y = x != 0
        first, last = y[:, :1], y[:, -1:]
        return (
            tj.cat([y[:, 1:], x[:, :1] == 0], 1),
            tj.stack([y[:, 0], y[:, 1]], 1),
            y[:, 1:] & y[:, :-1],
            x == x[:, :1],
            y.flip(1),
            tj.where(first, y, last),
        )

    f = tj.compile(program)
    x = (tj.arange(150 * width) % 5 - (0 if dtype is tj.uint8 else 2)).reshape(150, width).to(dtype)
    expected = [y.tolist() for y in program(x)]
    for _ in range(3):
        assert [y.tolist() for y in f(x)] == expected
    assert f.stats.compiled_calls == 2


def test_steps_of_seven_between_narrow_numbers() -> None:
    x = (tj.arange(700) % 11 - 5).reshape(100, 7).to(tj.int16)
    f = tj.compile(lambda x: tj.cat([x[:, 1:] * 2, x[:, :1] + 1], 1).flip(1))
    for _ in range(3):
        assert f(x).tolist() == [[r[0] + 1, *(v * 2 for v in r[:0:-1])] for r in x.tolist()]
