"""What a recorded run can have reached besides its tensors: outputs it may hand out again, arguments it knew.

Replaying makes new lists, dicts and dataclass instances and hands out recorded objects as they are. Both are right only
for containers made inside the run and objects made outside of it.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterator, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ...device import device
from ...dtypes import DType
from ...tensor import Tensor
from ..numbers.places import StillNumber
from ..signature import HANDED_IN, Static, containers
from ..state.checks import Item
from ..state.state import StateGuard
from ..state.tensors import TensorFacts, names_kept
from ..state.values import MISSING, added_to, items_of, token
from .gradients_inside import Repeated
from .results import is_made_of_objects, parts_of

if TYPE_CHECKING:
    from .recorded_run import Given
    from .recorder import Recorder

_LASTING = (type, ModuleType, BuiltinFunctionType, enum.Enum, DType)


def known_objects(guard: StateGuard) -> Iterator[Any]:
    """Every object that the guarded code can read."""
    for check in guard.checks:
        yield check.holder
        yield getattr(check, "expected", None)
        yield from getattr(check, "objects", ())
        for snapshot in getattr(check, "snapshots", ()):
            yield snapshot.module
            for _, value in snapshot.members.values():
                yield value


def with_facts(guard: StateGuard, captured: Sequence[tuple[str, Tensor]]) -> StateGuard:
    """``guard`` with the facts of tensors that a run reached in other ways than by names in its code."""
    groups = (c.objects for c in guard.checks if isinstance(c, TensorFacts))
    known = {id(tensor) for group in groups for tensor in group}
    rest = [(name, tensor) for name, tensor in captured if id(tensor) not in known]
    if not rest:
        return guard
    wider = guard.wider([TensorFacts.of(rest)])
    wider.places, wider.tools, wider.codes = guard.places, guard.tools, guard.codes
    return wider


def seen_outside(guard: StateGuard, statics: Sequence[Any]) -> set[int]:
    """The identities of the objects that were there before a call."""
    return {id(x) for x in known_objects(guard)} | {id(x) for x in statics} | {*guard.reached}


def _set_at_end(
    guard: StateGuard, calls: Sequence[Repeated], foreseen: Container[Any]
) -> str | None:
    """A number, or a list of some, that the code can read and ``calls`` set when everything else has run.

    Not counted are those that are ``foreseen``.
    """
    spaces = {id(space): names for call in calls for space, names in call.namespaces()}
    for check in guard.checks if spaces else ():
        read = check.place.check if isinstance(check, StillNumber) else check
        if not isinstance(read, Item) or id(read.holder) not in spaces or read.key == "params":
            continue
        if (id(read.holder), read.key) in foreseen:
            continue
        names = spaces[id(read.holder)]
        if names is not None and read.key not in names and not isinstance(read.expected, list):
            continue
        if isinstance(read.expected, (int, float, list, tuple)):
            return read.name
    return None


def unrepeatable(
    result: Any,
    structure: Any,
    leaves: Sequence[Any],
    call: Given,
    guard: StateGuard,
    recorder: Recorder,
) -> str | None:
    """Why the result of a ``call`` cannot be made again from its structure and ``leaves``, or hangs on what is set at
    the end.
    """
    read = _set_at_end(guard, recorder.calls, recorder.foreseen)
    if read is not None:
        return f"it reads {read}, which a schedule sets in the same call"
    outside = seen_outside(guard, call.statics)
    given = HANDED_IN.containers
    before = {id(x) for x in (*given, *containers((call.held, call.lying), []))} | outside
    seen: set[int] = set()
    parts = is_made_of_objects(structure)
    for made in parts_of(result, lambda: outside, given) if parts else containers(result, []):
        if id(made) in before:
            return f"it returns a {type(made).__name__} that was there before the call"
        if id(made) in seen:
            return f"it returns one {type(made).__name__} twice"
        seen.add(id(made))
    for value in _objects(structure):
        known = value is MISSING or isinstance(value, _LASTING)
        if id(value) not in outside and not known:
            return f"it returns a {type(value).__name__} that was made inside"
    return _named_by_the_user(leaves, {*map(id, call.tensors), *outside})


def _named_by_the_user(leaves: Sequence[Any], outside: Container[int]) -> str | None:
    """Why a tensor of the result cannot be made again: code has put an attribute on it."""
    for tensor in leaves:
        if type(tensor) is Tensor and id(tensor) not in outside:
            for name in vars(tensor).keys() - names_kept(tensor):
                return f"it returns a tensor on which it has put an attribute: {name!r}"
    return None


def _objects(structure: Any) -> Iterator[Any]:
    """The objects among the leaves of a structure."""
    if isinstance(structure, Static):
        yield from _objects_in(structure.value)
    elif isinstance(structure, tuple):
        for child in structure[1]:
            pair = (
                isinstance(child, tuple) and len(child) == 2 and isinstance(child[0], (Static, str))
            )
            yield from _objects(child[1] if pair else child)


def _objects_in(value: Any) -> Iterator[Any]:
    """The value, or what it is made of, as far as that is equal to itself only."""
    parts: Any = ()
    if isinstance(value, (tuple, frozenset)):
        parts = (*items_of(value), *(added_to(value).values() if isinstance(value, tuple) else ()))
    elif isinstance(value, slice):
        parts = value.start, value.stop, value.step
    elif token(value)[0] is None and type(value) is not device:
        yield value
    for part in parts:
        yield from _objects_in(part)


def overlaps_itself(tensor: Tensor) -> bool:
    """May two elements lie in one place? (Writing all of them would undo a write to one.)"""
    if not tensor.array.size:
        return False
    end = 0
    pairs = zip(tensor.array.strides, tensor.shape, strict=True)
    for step, count in sorted((abs(step), count) for step, count in pairs if count > 1):
        if step < end + tensor.array.itemsize:
            return True
        end += step * (count - 1)
    return False
