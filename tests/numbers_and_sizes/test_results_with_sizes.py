"""Results that show sizes of calls whose extents vary: lists, dicts and objects in them are those of eager code."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import tracejit as tj
from tracejit.extents import Extent

KEPT: dict[str, Any] = {}
ITEMS = [1]


@dataclass
class Output:
    """A result with fields."""

    count: Any
    rest: Any


class Pair(NamedTuple):
    """A result that is a tuple."""

    first: Any
    second: Any


def _in_an_object(x: tj.Tensor, options: dict[str, Any]) -> Any:
    made = SimpleNamespace(options=options, shape=x.shape)
    made.itself = made
    return made


def _left_in_the_argument(x: tj.Tensor, options: dict[str, Any]) -> Any:
    options["n"] = x.shape[0]
    return options, x * 2


def _left_in_a_global(x: tj.Tensor, options: dict[str, Any]) -> Any:
    KEPT["n"] = x.shape[0]
    return KEPT, x + 1


def _kept_and_returned(x: tj.Tensor, options: dict[str, Any]) -> Any:
    KEPT["last"] = made = {"n": x.shape[0], "y": x * 2}
    return made


PROGRAMS: list[Callable[..., Any]] = [
    _in_an_object,
    _left_in_the_argument,
    _left_in_a_global,
    _kept_and_returned,
    lambda x, options: {"options": options, "n": x.shape[0], "y": x + 1},
    lambda x, options: [options, options, x.numel(), x + 1],
    lambda x, options: (Pair(ITEMS, x.shape[0]), x * 2),
    lambda x, options: (Output(x.shape[0], options), x * 2),
]


def _seen(value: Any, known: dict[int, Any]) -> Any:
    """What a result is made of, with the names of the objects that were known before."""
    if isinstance(value, tj.Tensor):
        return "tensor", tuple(value.shape), value.sum().item()
    if id(value) in known:
        return "known", known[id(value)]
    if isinstance(value, (list, tuple)):
        known[id(value)] = len(known)
        return type(value), [_seen(x, known) for x in value]
    parts = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if parts is None:
        return type(value), value
    known[id(value)] = len(known)
    return type(value), {key: _seen(x, known) for key, x in parts.items()}


def _outcomes(function: Callable[..., Any]) -> list[Any]:
    KEPT.clear()
    KEPT.update(n=0, last=None)
    options: dict[str, Any] = {"k": 1}
    found = []
    for n in (3, 4, 5, 6, 7, 7, 6):
        result = function(tj.arange(2.0 * n).reshape(n, 2), options)
        known = {id(options): "argument", id(KEPT): "global", id(ITEMS): "items"}
        is_last = result is KEPT["last"]
        found.append((_seen(result, known), is_last, _seen({**options}, {}), _seen({**KEPT}, {})))
        options["k"] += 1
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_objects_that_were_there_are_handed_out(program: Callable[..., Any]) -> None:
    assert _outcomes(tj.compile(program)) == _outcomes(program)


class Special:
    """Objects that end with a notice, so that none is made from what another shows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __del__(self) -> None:
        pass


def _closure(n: int) -> Any:
    return lambda: n


@pytest.mark.parametrize(
    ("make", "look"),
    [
        (lambda n: {n}, lambda made: next(iter(made))),
        (lambda n: frozenset([n]), lambda made: next(iter(made))),
        (lambda n: deque([n]), lambda made: made[0]),
        (lambda n: defaultdict(list, {"a": [n]}), lambda made: made["a"][0]),
        (lambda n: Counter({"a": n}), lambda made: made["a"]),
        (_closure, lambda made: made()),
        (lambda n: lambda value=n: value, lambda made: made()),
        (lambda n: partial(max, n, key=abs), lambda made: made.args[0]),
        (lambda n: ValueError(n), lambda made: made.args[0]),
        (lambda n: Special(n), lambda made: made.count),
        (lambda n: iter([n]), next),
        (lambda n: Special(n).__repr__, lambda made: made.__self__.count),
    ],
)
def test_sizes_in_objects_of_any_kind_are_plain_ints(make: Any, look: Any) -> None:
    compiled = tj.compile(lambda x: (make(x.shape[0]), x * 2))
    for n in (3, 4, 5, 5, 6):
        found = look(compiled(tj.ones(n, 2))[0])
        assert type(found) is int
        assert found == n


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_numbers_as_keys_of_results(kind: Any) -> None:
    @tj.compile
    def f(x: tj.Tensor, rate: float) -> Any:
        return kind([("a", x), (rate * 2, rate), ("b", x * rate)])

    for rate in (0.5, 1.5, 2.5, 2.5):
        made = f(tj.ones(2), rate)
        assert list(made) == ["a", rate * 2, "b"]
        assert [type(key) for key in made] == [str, float, str]
        assert made[rate * 2] == rate


def test_nothing_of_a_recording_is_an_extent() -> None:
    compiled = tj.compile(lambda x: SimpleNamespace(n=[x.shape[0]] * 2, m={x.shape[0]: x.shape}))
    for n in (3, 4, 5, 6):
        made = compiled(tj.ones(n, 2))
        shown = [*made.n, *made.m, *made.m[n]]
        assert not any(type(x) is Extent for x in shown)
