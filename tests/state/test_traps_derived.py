"""Classes derived from tuples, sets and deques: what they add, and what they do when they are asked for their items."""

from collections import deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj


class Tagged(tuple):
    """A tuple with attributes."""


class Hidden(tuple):
    """A tuple that shows no items to those who go through it."""

    def __iter__(self) -> Any:
        return iter(())


class Unmeasured(tuple):
    """A tuple that refuses to tell its length."""

    def __len__(self) -> int:
        raise NotImplementedError


class HiddenSet(set):
    """The same for sets."""

    def __iter__(self) -> Any:
        return iter(())


class HiddenDeque(deque):
    """The same for deques."""

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


class Record(namedtuple("Fields", "first")):
    """A named tuple with attributes."""


class HiddenRecord(namedtuple("Fields", "first")):
    """A named tuple that shows no items."""

    def __iter__(self) -> Any:
        return iter(())


class Box:
    """An object with a number."""

    def __init__(self, value: float) -> None:
        self.value = value


def tagged(made: Any, tag: Any) -> Any:
    """What was made, with an attribute."""
    made.tag = tag
    return made


def filled(made: Any, name: str, *items: Any) -> Any:
    """What was made, emptied, and filled by the method of this name."""
    made.clear()
    for item in items:
        getattr(made, name)(item)
    return made


def boxed(box: Box) -> Box:
    """The box, with another number."""
    box.value = 3.0
    return box


def kept(container: Any, _: Any) -> Any:
    """The container itself, of which something was changed."""
    return container


#: How each is made, what it is replaced by or how it is changed, and the number it stands for: first 2, then 3.
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], float]]] = {
    "an attribute, another tuple": (
        lambda: tagged(Tagged((1,)), 2.0),
        lambda _: tagged(Tagged((1,)), 3.0),
        lambda c: c.tag,
    ),
    "an attribute, set again": (
        lambda: tagged(Tagged((1,)), 2.0),
        lambda c: tagged(c, 3.0),
        lambda c: c.tag,
    ),
    "an attribute that decides": (
        lambda: tagged(Tagged((1,)), "a"),
        lambda _: tagged(Tagged((1,)), "b"),
        lambda c: 2.0 if c.tag == "a" else 3.0,
    ),
    "an object in an attribute": (
        lambda: tagged(Tagged((1,)), Box(2.0)),
        lambda c: kept(c, boxed(c.tag)),
        lambda c: c.tag.value,
    ),
    "an object among the items": (
        lambda: Tagged((Box(2.0),)),
        lambda c: kept(c, boxed(c[0])),
        lambda c: c[0].value,
    ),
    "an object among few": (
        lambda: frozenset((Box(2.0),)),
        lambda c: kept(c, [boxed(x) for x in c]),
        lambda c: max(x.value for x in c),
    ),
    "an object in a slice": (
        lambda: slice(Box(2.0), None),
        lambda c: kept(c, boxed(c.start)),
        lambda c: c.start.value,
    ),
    "hidden items": (lambda: Hidden((2.0,)), lambda _: Hidden((3.0,)), lambda c: c[0]),
    "a hidden object": (
        lambda: Hidden((Box(2.0),)),
        lambda c: kept(c, boxed(c[0])),
        lambda c: c[0].value,
    ),
    "a length that raises": (
        lambda: Unmeasured("a"),
        lambda _: Unmeasured("b"),
        lambda c: 2.0 if c[0] == "a" else 3.0,
    ),
    "a set": (
        lambda: HiddenSet("a"),
        lambda c: filled(c, "add", "b"),
        lambda c: 2.0 if "a" in c else 3.0,
    ),
    "a deque": (
        lambda: HiddenDeque("a"),
        lambda c: filled(c, "append", "b"),
        lambda c: 2.0 if c[0] == "a" else 3.0,
    ),
    "a named tuple": (
        lambda: tagged(Record(1), 2.0),
        lambda _: tagged(Record(1), 3.0),
        lambda c: c.tag,
    ),
    "a named tuple, set again": (
        lambda: tagged(Record(1), 2.0),
        lambda c: tagged(c, 3.0),
        lambda c: c.tag,
    ),
    "a named tuple with hidden items": (
        lambda: HiddenRecord(2.0),
        lambda _: HiddenRecord(3.0),
        lambda c: c.first,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("where", ["argument", "attribute"])
def test_what_containers_hold_and_show(where: str, case: str) -> None:
    """Replacing them, and changing what they hold, is seen, wherever they are."""
    make, change, number = CASES[case]
    holder = tj.nn.Module()
    holder.held = make()
    if where == "argument":
        scaled = tj.compile(lambda x, held: x * number(held))
    else:
        scaled = tj.compile(lambda x, held: x * number(holder.held))
    before = [scaled(tj.ones(1), holder.held).item() for _ in range(4)]
    holder.held = change(holder.held)
    after = [scaled(tj.ones(1), holder.held).item() for _ in range(4)]
    assert before == [2.0] * 4
    assert after == [3.0] * 4
    assert scaled.stats.compiled_calls >= 4


def test_tuples_that_lead_to_themselves() -> None:
    """What a tuple has as an attribute may hold the tuple."""
    scaled = tj.compile(lambda x, held: x * held.tag[0][0])
    first, other = Tagged((2.0,)), Tagged((3.0,))
    for held in (first, other):
        tagged(held, (held,))
    found = [scaled(tj.ones(1), held).item() for held in (first, first, first, other, other)]
    assert found == [2.0, 2.0, 2.0, 3.0, 3.0]


def test_results_keep_their_attributes() -> None:
    """A named tuple that is returned comes with what was put on it."""

    @tj.compile
    def measured(x: Any, unit: float) -> Any:
        return tagged(Record(x * 2), x + unit)

    found = [measured(tj.ones(1), float(i)) for i in range(5)]
    assert [r.tag.item() for r in found] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [r.first.item() for r in found] == [2.0] * 5
    assert all(type(r) is Record for r in found)
    assert measured.stats.compiled_calls == 3
