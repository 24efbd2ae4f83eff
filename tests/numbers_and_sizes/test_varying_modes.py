"""What holds for a call, and what views are, in recordings that serve every extent: autocast, pieces, diagonals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

F = tj.nn.functional
#: Rows of the calls: the third signature is recorded for all others.
ROWS = (4, 5, 5, 6, 3, 3, 7, 2, 9)


def values(rows: int) -> Any:
    drawn = np.random.default_rng(rows).standard_normal((rows, 4))
    return tj.tensor(drawn.tolist(), requires_grad=True)


def seen(function: Callable[..., Any], rows: int) -> list[Any]:
    """Dtypes, values and gradients, or the error."""
    x = values(rows)
    try:
        found = function(x)
        results = found if isinstance(found, tuple) else (found,)
        sum((y.float() ** 2).sum() for y in results).backward()
    except RuntimeError as error:
        return [type(error).__name__, str(error).splitlines()[0]]
    return [(y.dtype, y.detach().float().tolist()) for y in (*results, x.grad)]


def check(function: Callable[..., Any], tolerance: float = 1e-6) -> Any:
    compiled = tj.compile(function)
    for rows in ROWS:
        for one, other in zip(seen(compiled, rows), seen(function, rows), strict=True):
            if isinstance(one, str):
                assert one == other
            else:
                assert one[0] is other[0]
                np.testing.assert_allclose(one[1], other[1], tolerance, tolerance)
    return compiled.stats


# --- autocast -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [tj.bfloat16, tj.float16])
def test_products_take_half_precision(dtype: Any) -> None:
    weight = tj.linspace(-1, 1, 16).reshape(4, 4)

    def program(x: Any) -> Any:
        with tj.autocast("cpu", dtype=dtype):
            y = F.linear(x, weight)
            z = (x @ weight).softmax(-1) @ weight
            with tj.autocast("cpu", enabled=False):
                w = y.float() @ weight
        return y, z, w, x @ weight

    assert check(program, 2e-2).recordings <= 4


def test_autocast_around_the_call() -> None:
    weight = tj.linspace(-1, 1, 16).reshape(4, 4)
    compiled = tj.compile(lambda x: x @ weight)
    for rows in ROWS:
        with tj.autocast("cpu", dtype=tj.bfloat16):
            assert compiled(values(rows)).dtype is tj.bfloat16
        assert compiled(values(rows)).dtype is tj.float32


# --- pieces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [
        lambda x: x.chunk(2),
        lambda x: x.split(2),
        lambda x: x.unbind(1),
    ],
    ids=["chunk", "split", "unbind"],
)
@pytest.mark.parametrize("of_the_whole", [False, True], ids=["piece", "whole"])
def test_writes_to_one_of_several_views_are_refused(
    pieces: Callable[..., Any], of_the_whole: bool
) -> None:
    def program(x: Any) -> Any:
        whole = x * 1.5
        first, *_ = pieces(whole)
        (whole if of_the_whole else first).add_(1)
        return first * 2

    assert isinstance(seen(program, 4)[0], str), "eager code refuses it"
    check(program)


# --- diagonals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
def test_diagonals_are_as_long_as_the_shorter_side(offset: int) -> None:
    """Their length is a smaller one of two, decided by comparing; a plan for other sizes decides otherwise."""

    def program(x: Any) -> Any:
        return x.diagonal(offset).clone(), x.diagonal(offset) * 2, (x @ x.t()).diagonal(offset)

    assert check(program).compiled_calls >= 2


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [(-3, 1), (1, -3), (-2, -2), (-1, -1)])
def test_no_more_is_cut_off_than_there_is(mode: str, widths: tuple[int, int]) -> None:
    """Rows of which there are too few are refused, in recordings made for more rows, too."""

    def program(x: Any) -> Any:
        return F.pad(x.t()[None], widths, mode) * 2

    refused = min(widths) < -1 or mode in ("reflect", "replicate")
    assert isinstance(seen(program, 2)[0], str) == refused
    assert not isinstance(seen(program, 9)[0], str)
    check(program)
