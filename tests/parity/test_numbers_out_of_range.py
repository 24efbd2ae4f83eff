"""Numbers that a dtype cannot hold are refused, or wrap, as in PyTorch, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj

torch = pytest.importorskip("torch")

NUMBERS = (
    0.5,
    -0.5,
    1,
    -1,
    300,
    -200,
    1.5,
    -1.5,
    255.5,
    float("inf"),
    float("nan"),
    1e6,
    1e39,
    1 << 40,
)
ENDLESS = 1e39
DTYPES = (
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "bool",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


def _set(index: Any) -> Callable[[Any, Any, Any], Any]:
    def written(package: Any, x: Any, number: Any) -> Any:
        y = x.clone()
        y[index(package)] = number
        return y

    return written


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "full": lambda t, x, n: t.full((2,), n, dtype=x.dtype),
    "full_like": lambda t, x, n: t.full_like(x, n),
    "new_full": lambda t, x, n: x.new_full((1,), n),
    "full of one": lambda t, x, n: t.full((1,), n, dtype=x.dtype),
    "new_full of two": lambda t, x, n: x.new_full((2,), n),
    "fill_ of one": lambda t, x, n: x[:1].clone().fill_(n),
    "fill": lambda t, x, n: t.fill(x, n),
    "fill_": lambda t, x, n: x.clone().fill_(n),
    "masked_fill": lambda t, x, n: x.masked_fill(t.tensor([True, False]), n),
    "index_fill": lambda t, x, n: x.index_fill(0, t.tensor([0]), n),
    "scatter": lambda t, x, n: x.scatter(0, t.tensor([0]), n),
    "clamp": lambda t, x, n: x.clamp(max=n),
    "clamp_min": lambda t, x, n: x.clamp_min(n),
    "pad": lambda t, x, n: t.nn.functional.pad(x.short(), (1, 0), value=n),
    "add": lambda t, x, n: x.add(x, alpha=n),
    "setitem": _set(lambda t: 0),
    "setitem by a mask": _set(lambda t: t.tensor([True, False])),
    "setitem by places": _set(lambda t: t.tensor([1])),
    "sum": lambda t, x, n: x + n,
    "comparison": lambda t, x, n: x == n,
}


def outcome(package: Any, function: Any, dtype: str, number: Any) -> Any:
    """Dtype and values, or that it is refused."""
    try:
        found = function(package.tensor([1, 0]).to(getattr(package, dtype)), number)
    except (RuntimeError, NotImplementedError):
        return "refused"
    return str(found.dtype).rpartition(".")[2], repr(found.tolist())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_that_do_not_fit(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    compiled = tj.compile(lambda x, number: function(tj, x, number))
    for number in NUMBERS:
        expected = outcome(torch, lambda x, n: function(torch, x, n), dtype, number)
        assert outcome(tj, lambda x, n: function(tj, x, n), dtype, number) == expected, number
        if number != ENDLESS:  # which compiled code, given several, takes for infinity
            assert outcome(tj, compiled, dtype, number) == expected, number


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "float16"])
def test_tensors_made_of_numbers_that_do_not_fit(dtype: str) -> None:
    for number in NUMBERS:
        expected = outcome(torch, lambda x, n: torch.tensor([n, 1], dtype=x.dtype), dtype, number)
        found = outcome(tj, lambda x, n: tj.tensor([n, 1], dtype=x.dtype), dtype, number)
        assert found == expected, number
