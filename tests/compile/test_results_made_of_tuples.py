"""compile(): results that are shapes, slices, and tuples of classes of their own, made anew at every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj


class Pair(tuple):
    """A class that asks for its parts one by one, with an attribute besides them."""

    def __new__(cls, a: Any, b: Any) -> Pair:
        return tuple.__new__(cls, (a, b))

    @property
    def first(self) -> Any:
        return self[0]


class Noted(tuple):
    note: Any


def noted(parts: tuple[Any, ...], note: Any) -> Noted:
    made = Noted(parts)
    made.note = note
    return made


RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "a shape": lambda x, n: tj.Size((n, 2 * n)),
    "a shape that is broadcast": lambda x, n: tj.broadcast_shapes((n, 1), (1, 4)),
    "a shape in a dict": lambda x, n: {"shape": tj.Size((n,)), "x": x * 2},
    "a slice of numbers": lambda x, n: slice(n, n + 2),
    "a slice beside a tensor": lambda x, n: (x * 2, slice(None, n)),
    "a slice of a tensor": lambda x, n: slice(x * 2, n),
    "a class of tuples": lambda x, n: Pair(x * 2, n),
    "a class of tuples without numbers": lambda x, n: Pair(x * 2, x + 1),
    "a class of tuples in a list": lambda x, n: [Pair(n, n), x * 3],
    "a class of tuples with an attribute": lambda x, n: noted((x * 2,), x + n),
    "a set": lambda x, n: frozenset([x * 2]),
}


def seen(result: Any) -> Any:
    """A result in words that can be compared, with all classes in it."""
    kind = type(result)
    if isinstance(result, tj.Tensor):
        return result.tolist()
    if isinstance(result, slice):
        return kind, *map(seen, (result.start, result.stop, result.step))
    if isinstance(result, dict):
        return kind, {key: seen(x) for key, x in result.items()}
    if isinstance(result, (tuple, list, frozenset)):
        return kind, seen(getattr(result, "note", None)), *map(seen, result)
    return kind, result


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_those_of_the_call(name: str) -> None:
    function = RESULTS[name]
    compiled = tj.compile(function)
    for n in (3, 4, 5, 6, 7):
        x = tj.ones(2) * n
        assert seen(compiled(x, n)) == seen(function(x, n))
    assert compiled.stats.compiled_calls == 3 or name in ("a set", "a slice of a tensor")
