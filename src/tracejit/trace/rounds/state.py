"""The state that Python is in when it reads a tensor: what it will go on with, to be compared with an earlier state.

Two states are alike if they differ in nothing but which tensors they hold. From like states Python does the same until
a tensor tells it otherwise, for there is nothing else that it could go by. The state of a frame is where it stands and
what its live local variables hold; containers, functions and their cells are looked into. What was there before the
recorded run is known by identity: its contents are checked as Python state in any case.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

from ...bytecode import Unfollowed
from ...device import device
from ...dtypes import DType
from ...frames import variables_of
from ...layout import layout_of
from ...tensor import Tensor
from .code import driver_of, flow_of, leaves_stack_alone, live_names

#: Frames that are looked at, from the innermost one on.
MAX_FRAMES = 6
#: Things in a state.
MAX_THINGS = 2000

_PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
_FIXED = (CodeType, DType, device)
#: Modules whose functions keep nothing of their own.
_LIBRARIES = frozenset({"tracejit", "numpy", "math", "operator", "builtins"})
_HEAP_TYPE = 1 << 9
#: What autograd leaves at a leaf: nothing that Python goes on with.
_KEPT = frozenset({"_accumulate", "_unplaced"})
#: What a view has of its own, which only autograd asks for.
_OF_VIEWS = frozenset({"_steps", "_history", "_seen"})
_SUSPENDED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


@dataclass(frozen=True, eq=False)
class FrameState:
    """One frame: the instruction it is at, its live local variables, and whether all of that can be followed."""

    frame: FrameType
    place: tuple[CodeType, int]
    names: dict[str, Any]
    tensors: dict[str, list[Tensor]]
    integers: dict[str, int]  # all local variables that are whole numbers
    own: dict[str, Any]  # numbers and tensors among the variables that only this frame can set
    followed: bool


class Describer:
    """Makes things comparable: tensors are taken out, in order."""

    def __init__(self, known: Collection[int]) -> None:
        self.known = known  # by identity: what was there before the run
        self.tensors: list[Tensor] = []
        self.memo: dict[int, int] = {}
        self.kept: list[Any] = []
        self.count = 0

    def of(self, x: Any) -> Any:
        """A value; raises :class:`Unfollowed`."""
        self.count += 1
        if self.count > MAX_THINGS:
            raise Unfollowed
        kind = type(x)
        if kind in _PLAIN:
            return kind, x
        if kind is float:
            return kind, x.hex()
        if isinstance(x, Tensor):
            return self._tensor(x)
        if isinstance(x, _FIXED) or id(x) in self.known or _unchanging(x):
            return self._same(x)
        if id(x) in self.memo:
            return "again", self.memo[id(x)]
        self.memo[id(x)] = len(self.memo)
        self.kept.append(x)
        return self._inside(x, kind)

    def _tensor(self, x: Tensor) -> Any:
        kept = _KEPT if x._flows else _KEPT | _OF_VIEWS
        if not kept.issuperset(getattr(x, "__dict__", ())):
            raise Unfollowed
        self.tensors.append(x)
        kind, layout = x.spec, layout_of(x)
        grad = (x._flows, x._grad_fn is None, x._grad is None, x._base is None, x._inference)
        version = x._writes.value if x._flows else 0  # which autograd alone asks for
        return type(x), kind.dtype, kind.shape, layout, version, grad

    def _same(self, x: Any) -> Any:
        if hasattr(type(x), "__next__"):
            raise Unfollowed
        kinds = (*_FIXED, FunctionType, MethodType, ModuleType, type, BuiltinFunctionType)
        if not isinstance(x, kinds) and not _of_python(type(x)):
            raise Unfollowed
        self.kept.append(x)
        return "object", id(x)

    def _inside(self, x: Any, kind: type) -> Any:
        if kind in (tuple, list):
            return kind, [self.of(part) for part in x]
        if kind is dict:
            return kind, [(self.of(key), self.of(part)) for key, part in x.items()]
        if kind is FunctionType:
            return (
                kind,
                x.__code__,
                *map(self.of, (x.__defaults__, x.__kwdefaults__)),
                self._cells(x),
            )
        if kind is MethodType:
            return kind, self.of(x.__func__), self.of(x.__self__)
        if kind is CellType:
            return kind, self._content(x)
        if kind is BuiltinFunctionType:  # a method of an object that may change
            return kind, x.__name__, self.of(x.__self__)
        raise Unfollowed

    def _cells(self, x: FunctionType) -> Any:
        if x.__dict__:
            raise Unfollowed
        return [self.of(cell) for cell in x.__closure__ or ()]

    def _content(self, cell: CellType) -> Any:
        try:
            return self.of(cell.cell_contents)
        except ValueError:
            return "empty"


def _unchanging(x: Any) -> bool:
    """Is this a class, a module or a function of a library that holds no state of the user's?"""
    if isinstance(x, type):
        return not x.__flags__ & _HEAP_TYPE or x.__module__.split(".")[0] in _LIBRARIES
    if isinstance(x, ModuleType):
        return x.__name__.split(".")[0] in _LIBRARIES
    if isinstance(x, BuiltinFunctionType):
        return x.__self__ is None or isinstance(x.__self__, ModuleType)
    return False


def _of_python(kind: type) -> bool:
    """Is this a class written in Python, or a container that is looked after elsewhere?"""
    return bool(kind.__flags__ & _HEAP_TYPE) or kind in (dict, list, tuple, set, frozenset)


def frames_of(end: CodeType) -> list[FrameType] | None:
    """The frames from the one that ``end`` called to the user's innermost one; None where there is no such way."""
    from ...errors import user_frame

    found: list[FrameType] = []
    frame: FrameType | None = user_frame()
    while frame is not None and frame.f_code is not end:
        found.append(frame)
        frame = frame.f_back
    found.reverse()
    return found if frame is not None else None


def describe(frames: list[FrameType], known: Collection[int]) -> list[FrameState]:
    """The states of the innermost frames; things that several hold are described with the innermost one."""
    describer = Describer(known)
    found = [_describe_frame(f, describer) for f in reversed(frames[-MAX_FRAMES:])]
    return found[::-1]


def _describe_frame(frame: FrameType, describer: Describer) -> FrameState:
    code, flow = frame.f_code, flow_of(frame.f_code)
    names: dict[str, Any] = {}
    tensors: dict[str, list[Tensor]] = {}
    if flow is None or code.co_flags & _SUSPENDED:
        return FrameState(frame, (code, -1), names, tensors, {}, {}, False)
    number = flow.at(frame.f_lasti)
    live = live_names(code, number) or frozenset()
    followed = True
    variables = variables_of(frame)
    try:
        for name, value in sorted(variables.items()):
            if name in live:
                describer.tensors = tensors[name] = []
                names[name] = describer.of(value)
    except Unfollowed:
        followed = False
    integers = {name: x for name, x in variables.items() if type(x) is int}
    shared = {*code.co_cellvars, *code.co_freevars}
    own = {
        name: x
        for name, x in variables.items()
        if name not in shared and (type(x) in (int, float) or isinstance(x, Tensor))
    }
    return FrameState(frame, (code, number), names, tensors, integers, own, followed)


def came_around(x: FrameState, y: FrameState) -> bool:
    """Did a frame's own code come back to the instruction it is at?

    An instruction that calls may read many truths at once: what it calls can be a loop in C, whose state is hidden
    (``list(takewhile(...))``). Then no variable of the frame is set between them.
    """
    code, number = y.place
    flow = flow_of(code)
    if flow is not None and flow.steps[number].takes_truth:
        return True
    return any(x.own.get(name) is not value for name, value in y.own.items())


def same_depth(states: list[FrameState], others: list[FrameState]) -> int:
    """The number of the frame in which a loop comes around, from the innermost one: the last that both have."""
    found = -1
    for number, (a, b) in enumerate(zip(states, others, strict=False)):
        if a.frame is b.frame:
            found = number
    return found


def driver(states: list[FrameState], loop: int) -> int | None:
    """What a round changes that cannot be seen: nothing (-1), or the iterator of an instruction; None if unknown."""
    if not all(leaves_stack_alone(*state.place) for state in states[loop + 1 :]):
        return None
    return driver_of(*states[loop].place)


Reader = Callable[[str, str], Any]


def reader(state: FrameState) -> Reader:
    """Reads a variable of a frame."""

    def read(kind: str, name: str) -> Any:
        if kind == "local":
            return state.integers.get(name)
        if name in state.frame.f_globals:
            return state.frame.f_globals[name]
        return getattr(sys.modules["builtins"], name, None)

    return read
