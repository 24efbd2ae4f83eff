"""How visits and rounds are alike, and the loops that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...tensor import Tensor
from .counters import ENDLESS, Loop, driven_name, ends_for_good, rounds_of_counter
from .rounds import Event, Ran, Rounds, Visit, Wrote
from .state import FrameState, came_around, driver, reader, same_depth

#: A loop that may have fewer rounds is none.
FEWEST = 2


@dataclass(eq=False)
class Relation:
    """How two visits in a row are alike: ``pairs`` of tensors that take each other's place, and for how many rounds."""

    pairs: list[tuple[Tensor, Tensor]]
    fixed: list[Tensor]
    most: int


def relate(a: Visit, b: Visit) -> Relation | None:
    """How the state at ``b`` is that at ``a`` with other tensors; None where it is not."""
    if not a.states or a.depth != b.depth or len(a.states) != len(b.states):
        return None
    if a.modes != b.modes:
        return None
    loop = same_depth(a.states, b.states)
    changes = driver(b.states, loop) if loop >= 0 else None
    if changes is None or not came_around(a.states[loop], b.states[loop]):
        return None
    most, first, second = ENDLESS, list[Tensor](), list[Tensor]()
    for number in range(loop, len(a.states)):
        x, y = a.states[number], b.states[number]
        if x.place != y.place or not (x.followed and y.followed):
            return None
        if x.names.keys() != y.names.keys():
            return None
        other = [name for name in x.names if x.names[name] != y.names[name]]
        if number == loop:
            most = _counted(x, y, other, changes)
        elif other:
            return None
        if not most:
            return None
        for name in x.tensors:
            first += x.tensors[name]
            second += y.tensors[name]
    return _paired(first, second, most)


def _counted(x: FrameState, y: FrameState, names: list[str], changes: int) -> int:
    """For how many rounds the local variables that are not the same do nothing but count; 0 if they do more."""
    loop = Loop(*x.place, changes, reader(y), names)
    counters = dict.fromkeys(names)
    if changes >= 0:
        name = driven_name(loop)
        if name is None:
            return 0
        counters[name] = None
    if counters and not ends_for_good(loop, counters):
        return 0
    most = ENDLESS
    for name in counters:
        before, now = x.integers.get(name), y.integers.get(name)
        rounds = None
        if before is not None and now is not None and before != now:
            rounds = rounds_of_counter(loop, name, (before, now))
        most = min(most, rounds or 0)
    return most


def _paired(first: list[Tensor], second: list[Tensor], most: int) -> Relation | None:
    """Tensors that were the same one before are the same one now, and the other way round."""
    if len(first) != len(second):
        return None
    forth: dict[int, int] = {}
    back: dict[int, int] = {}
    found = Relation([], [], most)
    for x, y in zip(first, second, strict=True):
        if forth.setdefault(id(x), id(y)) != id(y) or back.setdefault(id(y), id(x)) != id(x):
            return None
    for x, y in {id(x): (x, y) for x, y in zip(first, second, strict=True)}.values():
        if x is y:
            found.fixed.append(x)
        else:
            found.pairs.append((x, y))
    return found


def alike(events: Sequence[Event], others: Sequence[Event], place: dict[int, int]) -> bool:
    """Did the same ops run in two rounds, on tensors that take each other's ``place``? It learns the new ones."""
    if len(events) != len(others):
        return False
    return all(map(_happen_alike, events, others, [place] * len(events)))


def _happen_alike(a: Event, b: Event, place: dict[int, int]) -> bool:
    """Is one thing that happened like another?"""
    if isinstance(a, Wrote) and isinstance(b, Wrote):
        pairs = (a.tensor, b.tensor), (a.origin, b.origin), (a.new, b.new)
        return a.line == b.line and all(place.get(id(x), id(x)) == id(y) for x, y in pairs)
    if not (isinstance(a, Ran) and isinstance(b, Ran)):
        return False
    if a.op is not b.op or len(a.operands) != len(b.operands) or a.line != b.line:
        return False
    if a.grad is not b.grad or a.shown is not b.shown:
        return False
    if not takes_alike(a.operands, b.operands, place):
        return False
    if repr(a.attributes) != repr(b.attributes):
        return False
    place[id(a.out)] = id(b.out)
    return True


def takes_alike(operands: Sequence[Any], others: Sequence[Any], place: Mapping[int, int]) -> bool:
    """Are operands the same numbers, and tensors that take each other's ``place``?"""
    for x, y in zip(operands, others, strict=True):
        if isinstance(x, Tensor):
            if place.get(id(x), id(x)) != id(y):
                return False
        elif not numbers_alike(x, y):
            return False
    return True


def numbers_alike(x: Any, y: Any) -> bool:
    """Are operands that are no tensors the same?

    >>> numbers_alike(1, 1), numbers_alike(1, 1.0), numbers_alike(0.0, -0.0)
    (True, False, False)
    """
    return type(x) is type(y) and repr(x) == repr(y)


@dataclass(eq=False)
class Found:
    """Visits ``first`` to ``last`` are rounds of one loop, ``most`` of which are certain."""

    first: int
    last: int
    relations: list[Relation]
    most: int


#: May a loop begin with a round? Asked with the number of the event from which on all rounds were like it.
Begins = Callable[[Relation, int], bool]


def find_loops(rounds: Rounds, begins: Begins) -> list[Found]:
    """The loops of a run, in order; those that cannot be told apart from other control flow are left out."""
    found: list[Found] = []
    at = alike_from = 0
    visits = rounds.visits
    while at + 1 < len(visits):
        relation = relate(visits[at], visits[at + 1])
        if relation is not None and begins(relation, visits[alike_from].at):
            loop = _loop_at(rounds, at)
            if loop is not None:
                found.append(loop)
                at = alike_from = loop.last + 1
                continue
        at += 1
        if relation is None:
            alike_from = at
    return found


def _loop_at(rounds: Rounds, first: int) -> Found | None:
    """The loop that begins with a visit."""
    visits, relations = rounds.visits, list[Relation]()
    stay, number = visits[first].outcome, first
    most = ENDLESS
    begin = visits[first].number
    while number + 1 < len(visits) and visits[number].outcome is stay:
        if visits[number].number - begin >= most:
            break
        if relations and visits[number + 1].after is not None:
            relations.append(visits[number + 1].after)
            number += 1
            continue
        relation = relate(visits[number], visits[number + 1])
        if relation is None:
            break
        if not relations:
            most = relation.most
        elif not goes_on(rounds, first, number, relations[0], relation):
            return None
        relations.append(relation)
        number += 1
    if most < FEWEST or not relations:
        return None
    if visits[number].outcome is stay and visits[number].number - begin < most:
        return None
    return Found(first, number, relations, most)


def goes_on(rounds: Rounds, first: int, number: int, before: Relation, now: Relation) -> bool:
    """Is a later round like the first one?"""
    visits, events = rounds.visits, rounds.events
    if len(before.pairs) != len(now.pairs):
        return False
    place = {id(x): id(y) for (x, _), (y, _) in zip(before.pairs, now.pairs, strict=True)}
    own = events[visits[first].at + 1 : visits[first + 1].at]
    other = events[visits[number].at + 1 : visits[number + 1].at]
    if not alike(own, other, place):
        return False
    ends = [(x, y) for (_, x), (_, y) in zip(before.pairs, now.pairs, strict=True)]
    ends.append((visits[first + 1].tensor, visits[number + 1].tensor))
    return all(place.get(id(x), id(x)) == id(y) for x, y in ends)
