"""What running ``backward`` once more could change in Python: looked for before, put back after.

Code that may do more than compute (output, clocks, random numbers of others, iterators) is found by the walk from its
text, and is not run. Lists, dictionaries, sets, attributes and variables that it can reach are compared afterwards.
"""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from ...device import device
from ...dtypes import DType
from ...extents import is_symbolic
from ...tensor import Tensor
from ...varying import is_varying
from ..state import reads
from ..state.checks import Attribute, Check, Item
from ..state.reach import Walk
from ..state.state import StateGuard
from ..state.values import MISSING

#: Of these there is nothing to be changed, or nothing that stays.
_STILL = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    enum.Enum,
    np.generic,
    np.dtype,
    CodeType,
    ModuleType,
    BuiltinFunctionType,
    WrapperDescriptorType,  # methods and attributes of built-in classes, as these have them
    MethodWrapperType,
    MethodDescriptorType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MappingProxyType,
    tuple,
    frozenset,
    property,
    staticmethod,
    classmethod,
    MethodType,
    slice,
    range,
    DType,
    device,
    EllipsisType,
    Tensor,
    type(namedtuple("_Fields", "first").first),  # type: ignore[attr-defined]  # how named tuples read a field
)


def suspicion(function: Callable[..., Any], watched: bool = False) -> str | None:
    """Why code may do more than compute, or None; what its calls do is found out where these are ``watched``.

    >>> suspicion(lambda g: g * 2), suspicion(lambda g: print(g))
    (None, 'its backward may do more than compute')
    """
    walk = _walk(function)
    if (walk.suspect and not watched) or walk.generators:
        return "its backward may do more than compute"
    return next((f"its backward: {limit}" for limit in walk.limits), None)


def _walk(function: Any, values: Iterable[Any] = ()) -> Walk:
    walk = Walk()
    function = getattr(function, "__func__", function)
    while isinstance(function, FunctionType) and reads.is_library_function(function):
        if not hasattr(function, "__wrapped__"):
            break
        function = function.__wrapped__
    if isinstance(function, FunctionType):
        walk.enter_code(function)
    else:
        walk.reach(function, "backward")
    for value in values:
        walk.reach(value, "ctx")
    walk.finish()
    return walk


def _looked_up(owner: type, name: str) -> Iterator[Check]:
    """That a class has what it has under a name; where that is a class method, by the classes it is looked for in."""
    found, label = getattr(owner, name), f"{owner.__name__}.{name}"
    if not isinstance(found, MethodType):  # which is another object at each look
        yield Attribute(owner, label, name, found)
        return
    for cls in owner.__mro__:
        names = vars(cls)
        yield Item(names, label, name, names.get(name, MISSING))
        if name in names:
            return


class Held:
    """Contents of containers, attributes and variables as they are now; ``checks`` compare what code reads of them."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self.checks = checks
        self.lists: list[tuple[list[Any], list[Any]]] = []
        self.maps: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self.sets: list[tuple[set[Any], set[Any]]] = []
        self.cells: list[tuple[CellType, Any]] = []
        self.classes: list[tuple[type, dict[str, Any]]] = []

    def add(self, value: Any) -> str | None:
        """Remember what ``value`` holds; what it is if that is not known."""
        if isinstance(value, list):
            self.lists.append((value, value.copy()))
        elif isinstance(value, dict):
            self.maps.append((value, dict(value)))
        elif isinstance(value, set):
            self.sets.append((value, value.copy()))
        elif isinstance(value, CellType):
            self.cells.append((value, _content(value)))
        elif isinstance(value, FunctionType):
            if not reads.is_library_function(value):
                self.maps.append((value.__globals__, dict(value.__globals__)))
                self.cells += [(cell, _content(cell)) for cell in value.__closure__ or ()]
        elif isinstance(value, type):
            if not reads.is_library_class(value):
                self.classes.append((value, dict(vars(value))))
        elif not isinstance(value, _STILL):
            return self._object(value)
        return None

    def _object(self, value: Any) -> str | None:
        attributes = getattr(value, "__dict__", None)
        cls = type(value)
        if not isinstance(attributes, dict) or any(
            "__slots__" in vars(c) for c in cls.__mro__[:-1]
        ):
            return cls.__qualname__
        self.maps.append((attributes, dict(attributes)))
        return None

    def found_in(self, owner: type) -> None:
        """The function is a rule that every backward pass looks up in a class."""
        found = (check for name in ("backward", "vjp") for check in _looked_up(owner, name))
        self.checks = [*self.checks, *found]

    def state(self) -> StateGuard | str:
        """A guard on the state that is read; or why a call does not settle what it will be in the backward pass."""
        for check in self.checks:
            known = getattr(check, "expected", None)
            if is_varying(known) or is_symbolic(known):
                return f"its backward reads a number that varies ({check.name})"
        return StateGuard(self.checks)

    def put_back(self) -> str | None:
        """Make everything what it was; what had changed, in words."""
        changed = None
        for values, before in self.lists:
            if [*map(id, values)] != [*map(id, before)]:
                values[:] = before
                changed = "a list"
        for mapping, held in self.maps:
            if not _same(mapping, held):
                for key in [key for key in mapping if key not in held]:
                    del mapping[key]
                mapping.update(held)
                changed = "attributes, variables or a dictionary"
        for members, had in self.sets:
            if members != had:
                members.clear()
                members.update(had)
                changed = "a set"
        for cell, content in self.cells:
            if _content(cell) is not content:
                cell.cell_contents = content
                changed = "a variable"
        for cls, names in self.classes:
            changed = _put_back_class(cls, names) or changed
        return changed


def _put_back_class(cls: type, names: Mapping[str, Any]) -> str | None:
    if _same(vars(cls), names):
        return None
    for name in {*vars(cls)} - {*names}:
        delattr(cls, name)
    for name, value in names.items():
        if vars(cls).get(name, MISSING) is not value:
            setattr(cls, name, value)
    return f"class {cls.__qualname__}"


def _same(mapping: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    if len(mapping) != len(before):
        return False
    return all(
        key == other and value is held
        for (key, value), (other, held) in zip(mapping.items(), before.items(), strict=True)
    )


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put there yet
        return MISSING


def reachable(function: Any, context: Mapping[str, Any]) -> Held | str:
    """What ``function`` can reach, also by way of the attributes in ``context``; or why that cannot be told.

    >>> calls = []
    >>> held = reachable(lambda g: calls.append(g), {})
    >>> calls.append(1)
    >>> held.put_back() is None, calls
    (False, [])

    >>> scale = 2.0
    >>> guard = reachable(lambda g: g * scale, {}).state()
    >>> scale = 3.0
    >>> guard.difference()
    "global 'scale' was 2.0 and is 3.0"
    """
    own = [x for name, x in context.items() if name not in _OF_NODES]
    walk = _walk(function, own)
    held = Held(walk.checks)
    for value in walk.reached.values():
        unknown = held.add(value)
        if unknown is not None:
            return f"its backward can reach an object ({unknown}) that may change"
    return held


#: Attributes of every node, which backward does not change.
_OF_NODES = frozenset(
    {
        "edges",
        "sequence",
        "needs_input_grad",
        "silent",
        "_to_save",
        "_saved",
        "_dirty",
        "_constant",
        "_materialize",
        "_input_types",
        "_output_types",
        "_output_kinds",
        "n_outputs",
    }
)
