"""compile(): lists and dicts that the program resets between calls, and that a call fills where they lie."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn

CASES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[], Any], bool]] = {}
CALLS = 12


def case(new: Callable[[], Any], compiles: bool = True) -> Callable[..., Any]:
    """A function of an object and a tensor, what is put in the object's ``kept`` before calls, and is it compiled?"""

    def add(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        CASES[f.__name__] = f, new, compiles
        return f

    return add


def two() -> list[Any]:
    return [None, None]


@case(two)
def shifted(s: Any, x: Any) -> Any:
    """As schedulers of several steps do."""
    for i in range(3):
        s.kept[0] = s.kept[1]
        s.kept[1] = x * i
    return s.kept[0] + s.kept[1]


@case(list)
def appended(s: Any, x: Any) -> Any:
    for i in range(3):
        s.kept.append(x * i)
    return sum(s.kept)


@case(lambda: [tj.zeros(3)])
def window(s: Any, x: Any) -> Any:
    s.kept.append(x)
    if len(s.kept) > 2:
        s.kept.pop(0)
    return tj.stack(s.kept).sum(0)


@case(two)
def one_tensor_twice(s: Any, x: Any) -> Any:
    y = x * 2
    s.kept[0] = s.kept[1] = y
    return y


@case(two)
def histories(s: Any, x: Any) -> Any:
    s.kept[0] = x * s.w
    s.kept[1] = s.kept[0].sin()
    return s.kept[1].sum()


@case(two)
def arguments(s: Any, x: Any) -> Any:
    s.kept[:] = [x, x * 2]
    return s.kept[0] * 2


@case(two)
def cleared(s: Any, x: Any) -> Any:
    found = s.kept[0] if s.kept and s.kept[0] is not None else x
    s.kept.clear()
    s.kept.append(x + 1)
    return found


@case(two)
def written_into(s: Any, x: Any) -> Any:
    if s.kept[0] is None:
        s.kept[0] = tj.zeros(3)
    s.kept[0].add_(x)
    s.kept[1] = s.kept[0] * 2
    return s.kept[1]


@case(dict)
def by_name(s: Any, x: Any) -> Any:
    s.kept["a"] = x * 2
    for name in ("p", "q"):
        s.kept[name] = x * len(s.kept)
    return sum(s.kept.values())


@case(two)
def on_one_way(s: Any, x: Any) -> Any:
    if x.sum() > 0:
        s.kept[0] = x * 2
    else:
        s.kept[1] = x * 3
    return x + 1


@case(two, compiles=False)
def handed_out(s: Any, x: Any) -> Any:
    s.kept[0] = x * 2
    return s.kept


@case(two, compiles=False)
def by_two_names(s: Any, x: Any) -> Any:
    s.other = s.kept
    s.other[0] = x * 3
    return s.kept[0] + 1


@case(lambda: [[], None], compiles=False)
def in_another_list(s: Any, x: Any) -> Any:
    s.kept[0].append(x * 2)
    s.kept[1] = x
    return x


@case(list, compiles=False)
def replaced_after(s: Any, x: Any) -> Any:
    s.kept.append(x * 2)
    found = s.kept[-1] + 1
    s.kept = s.kept[-1:]
    return found


@case(two, compiles=False)
def an_error(s: Any, x: Any) -> Any:
    s.kept[0] = x * 2
    if x.sum() > 1:
        raise ValueError("large")
    s.kept[1] = x
    return x


class Plain:
    def __init__(self) -> None:
        self.w = tj.ones(3, requires_grad=True)
        self.kept: Any = None


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(tj.ones(3))
        self.kept: Any = None


def shown(value: Any) -> Any:
    if isinstance(value, tj.Tensor):
        return [value.tolist(), value.requires_grad]
    if isinstance(value, dict):
        return {name: shown(x) for name, x in value.items()}
    return [shown(x) for x in value] if isinstance(value, list) else value


def close(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return list(a) == list(b) and close(list(a.values()), list(b.values()))
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(close, a, b))
    return b == pytest.approx(a, rel=1e-4, abs=1e-5) if isinstance(a, float) else bool(a == b)


def played(name: str, kind: Any, resets: float, compiled: bool) -> tuple[list[Any], Any]:
    """What calls return and leave, also in lists that the program knows from before."""
    function, new, _ = CASES[name]
    tj.manual_seed(0)
    chance, s = random.Random(1), kind()
    s.kept = new()
    outer = [s.kept]

    def call(x: Any) -> Any:
        return function(s, x)

    f = tj.compile(call) if compiled else call
    found = []
    for _ in range(CALLS):
        if chance.random() < resets:
            s.kept = new()
        if chance.random() < 0.3:
            outer.append(s.kept)
        if chance.random() < 0.1:
            s.kept = outer[0]
        before = s.kept
        try:
            made = f(tj.randn(3))
        except ValueError as error:
            made = str(error).partition("\n")[0]
        same = [s.kept is before, made is s.kept, *(x is made for x in s.kept)]
        found.append([shown(made), shown(s.kept), same, [shown(x) for x in outer]])
        if isinstance(made, tj.Tensor) and made.requires_grad:
            made.backward()
            found.append(s.w.grad.tolist())
    return found, f


@pytest.mark.sampled(6)
@pytest.mark.parametrize("resets", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("kind", [Plain, Module])
@pytest.mark.parametrize("name", CASES)
def test_lists_are_filled_where_they_lie(name: str, kind: Any, resets: float) -> None:
    expected, _ = played(name, kind, resets, False)
    found, f = played(name, kind, resets, True)
    assert close(expected, found)
    if CASES[name][2] and resets == 1.0:
        assert f.stats.compiled_calls >= 4, f.explain()


def test_a_list_that_is_reset_is_filled_by_compiled_code() -> None:
    s = Plain()
    f = tj.compile(lambda x: shifted(s, x))
    for k in range(10):
        s.kept = two()
        f(tj.full((3,), float(k)))
        assert [x.tolist() for x in s.kept] == [[k] * 3, [2 * k] * 3]
    assert f.stats.recordings <= 4
    assert f.stats.compiled_calls >= 6
