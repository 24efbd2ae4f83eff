"""What a function does with an array that it is given, as its bytecode says: are tensors all that it makes of it?

The array is followed from the parameter on, under all names that it is given, into functions and methods that it is
handed to. Its dtype and shape may be asked for, and of what class it is: these are part of the signature. Anything
else, and whatever is not understood, may look at the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...autograd.grad_mode import decorating_codes
from ...bytecode import Step, keywords_at
from ...interop import from_numpy
from ...tensor import Tensor
from ...tensor_kinds import TensorKind
from ...tensor_make import as_tensor, asarray, tensor
from ..rounds.code import Flow, flow_of
from ..state.modules import calls_forward, is_module
from ..state.values import MISSING, cell_content

#: An argument: its position, or its name.
Place = int | str

#: Functions that make a tensor of their first argument, and look at nothing else of it.
_MAKERS: tuple[Any, ...] = (from_numpy, tensor, as_tensor, asarray)
#: What is part of the signature, and what hangs on the shape.
_FORM, _SHAPE = frozenset({"dtype", "itemsize", "ndim"}), frozenset({"nbytes", "shape", "size"})
#: Functions that an array is followed into from one another.
MAX_DEPTH = 8
_RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR

_UNKNOWN: Any = object()
#: How many values steps take from the stack; a step that is not here is not understood.
_TAKES: Mapping[str, int] = {
    **dict.fromkeys(
        ("LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL", "NOP", "PUSH_NULL"), 0
    ),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "POP_TOP", "RETURN_VALUE", "STORE_FAST"), 1),
    **dict.fromkeys(("UNARY_INVERT", "UNARY_NEGATIVE", "UNARY_NOT", "TO_BOOL"), 1),
    **{f"POP_JUMP_IF_{what}": 1 for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")},
    **dict.fromkeys(("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "CONTAINS_OP", "IS_OP"), 2),
}
_COLLECT = frozenset({"BUILD_LIST", "BUILD_TUPLE"})


class UnseenError(Exception):
    """The array is used in a way that may look at the numbers in it."""


def arrays_made_tensors(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[Place, bool]:
    """The arguments that are arrays of which the function makes tensors, and whether it asks for their shapes.

    >>> def act(seen, scale):
    ...     return tj.from_numpy(seen).float() * scale[0]
    >>> arrays_made_tensors(act, (np.ones(2), np.ones(2)), {})
    {0: False}
    """
    found: dict[Place, bool] = {}
    places: list[tuple[Place, Any]] = [*enumerate(args), *kwargs.items()]
    for place, value in places:
        if type(value) is np.ndarray:
            reader = _Reader()
            try:
                reader.enter(function, args, place, 0)
            except UnseenError:
                continue
            found[place] = reader.reads_shape
    return found


class _Reader:
    """Follows one array through code."""

    def __init__(self) -> None:
        self.reads_shape = False
        self.seen: set[Any] = set()

    def enter(self, function: Any, args: Sequence[Any], place: Place, depth: int) -> None:
        """The array is the argument at ``place`` of a call; of other arguments only the first may be known."""
        called, bound = code_of(function)
        code: CodeType = called.__code__
        name, args = parameter_at(code, bound, args, place)
        flow = flow_of(code)
        if name is None or flow is None or flow.hides or code.co_flags & _RESUMED:
            raise UnseenError
        if name in code.co_cellvars or depth > MAX_DEPTH:
            raise UnseenError
        own = {code.co_varnames[0]: args[0]} if args and code.co_varnames[0] != name else {}
        key = code, name, tuple([id(x) for x in own.values()])
        if key not in self.seen:
            self.seen.add(key)
            Frame(self, called, flow, own, depth).follow(name, 0)


class Frame:
    """The code of one function, in which the array has a name."""

    def __init__(
        self, reader: _Reader, function: FunctionType, flow: Flow, own: dict[str, Any], depth: int
    ) -> None:
        self.reader, self.function, self.flow, self.depth = reader, function, flow, depth
        steady = [name for name in own if len(flow.mentions(name)) == len(loads_of(flow, name))]
        self.own = {name: own[name] for name in steady}
        self.names: set[tuple[str, int]] = set()

    def follow(self, name: str, start: int) -> None:
        """The array is held by a local variable from a step on, until something else is stored there."""
        if (name, start) in self.names:
            return
        self.names.add((name, start))
        leads: dict[int, int] = {}  # where tests lead whose outcome is known of an array
        seen: set[int] = set()
        waiting = [start]
        while waiting:
            number = waiting.pop()
            for target, _ in self.flow.next[number]:
                if target in seen or leads.get(number, target) != target:
                    continue
                seen.add(target)
                step = self.flow.steps[target]
                if step.names_local(name) and step.name != "LOAD_FAST":
                    if step.name not in ("STORE_FAST", "DELETE_FAST"):
                        raise UnseenError
                    continue
                if step.names_local(name):
                    self.use(target, leads)
                waiting.append(target)

    def use(self, number: int, leads: dict[int, int]) -> None:
        """What becomes of the array that a step puts on the stack."""
        place = self.flow.depth.get(number)
        taker = None if place is None else self.taker(number + 1, place)
        if taker is None or place is None:
            raise UnseenError
        step, before = self.flow.steps[taker], self.flow.steps[taker - 1]
        if step.name == "STORE_FAST":
            self.follow(step.value, taker)
        elif step.name in ("LOAD_ATTR", "LOAD_METHOD") and step.value in _FORM | _SHAPE:
            self.reader.reads_shape |= step.value in _SHAPE
        elif step.name in ("CALL", "CALL_KW"):
            self.called(taker, place, leads)
        elif step.name in ("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"):
            leads[taker] = self.way(taker, step.name == "POP_JUMP_IF_NOT_NONE")
        elif step.name == "IS_OP" and before.name == "LOAD_CONST" and before.value is None:
            self.decided(taker, bool(step.argument), leads)
        elif step.name != "POP_TOP":
            raise UnseenError

    def taker(self, number: int, place: int) -> int | None:
        """The step from here on that takes what lies at a place on the stack; None where that cannot be told."""
        steps, depth = self.flow.steps, self.flow.depth
        while number in depth:
            step = steps[number]
            takes = _taken(step)
            if takes is None:
                return None
            if depth[number] - takes <= place:
                return number
            if step.jump is not None or step.onward is None:
                return None
            number += 1
        return None

    def called(self, number: int, place: int, leads: dict[int, int]) -> None:
        """The array is an argument of a call."""
        step, flow = self.flow.steps[number], self.flow
        base = flow.depth[number] - taken_by_call(step)
        where = self.argument(number, place - base - 2)
        function = self.callee(number, base)
        if function in _MAKERS if isinstance(function, FunctionType) else _is_kind(function):
            if where not in (0, "data", "obj"):
                raise UnseenError
        elif function is isinstance and where == 0:
            self.asked_class(number, leads)
        elif function is type and step.argument == 1:
            pass
        elif function is len and where == 0:
            self.reader.reads_shape = True
        else:
            self.reader.enter(function, (), where, self.depth + 1)

    def argument(self, number: int, position: int) -> Place:
        """Which argument of the function that a step calls lies so far above it."""
        if position < 0:
            raise UnseenError
        step = self.flow.steps[number]
        names = keywords_at(self.flow.code, step)
        first = step.argument - len(names)
        return position if position < first else names[position - first]

    def callee(self, number: int, base: int) -> Any:
        """The object that a call step calls, which lies at ``base`` on the stack or above."""
        flow = self.flow
        begin = next(n for n in range(number - 1, -1, -1) if flow.depth.get(n, base) <= base)
        return self.value(begin, base + 2)

    def value(self, number: int, height: int) -> Any:
        """What the steps from one on leave below ``height``: a name, and attributes of what that holds."""
        flow, found = self.flow, _UNKNOWN
        for step in flow.steps[number:]:
            depth = flow.depth.get(number, height)
            reads = step.name in ("LOAD_ATTR", "LOAD_METHOD")
            if depth >= height and not (reads and depth == height and found is not _UNKNOWN):
                return found
            if reads:
                found = _attribute(found, step.value)
            elif step.name != "PUSH_NULL":
                found = self.named(step)
            if found is _UNKNOWN and step.name != "PUSH_NULL":
                raise UnseenError
            number += 1
        raise UnseenError

    def named(self, step: Step) -> Any:
        """What a step loads; unknown where it is no name, or one of something that changes."""
        function, name = self.function, step.value
        if step.name == "LOAD_FAST":
            return self.own.get(name, _UNKNOWN)
        if step.name == "LOAD_GLOBAL":
            builtin = getattr(function, "__builtins__", {}).get(name, _UNKNOWN)
            return function.__globals__.get(name, builtin)
        return _shared(function, name) if step.name == "LOAD_DEREF" else _UNKNOWN

    # --- tests whose outcome is known ---------------------------------------------------------------------------

    def asked_class(self, number: int, leads: dict[int, int]) -> None:
        """A step asks whether the array is an instance of a class."""
        flow = self.flow
        last = flow.steps[number - 1]
        begin = number - 1
        while flow.steps[begin].name == "LOAD_ATTR":
            begin -= 1
        kind = _UNKNOWN
        if last.name in ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_DEREF"):
            kind = self.class_named(begin, number)
        if kind is Tensor or kind is np.ndarray:
            self.decided(number, kind is np.ndarray, leads)

    def class_named(self, begin: int, end: int) -> Any:
        """What the steps between two load."""
        found = self.named(self.flow.steps[begin])
        for step in self.flow.steps[begin + 1 : end]:
            found = _attribute(found, step.value)
        return found

    def decided(self, number: int, truth: bool, leads: dict[int, int]) -> None:
        """The truth that a step leaves is known; so is where it leads, if it is tested at once."""
        steps = self.flow.steps
        for test in range(number + 1, len(steps)):
            if steps[test].name == "UNARY_NOT":
                truth = not truth
            elif steps[test].name in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
                leads[test] = self.way(test, truth is (steps[test].name == "POP_JUMP_IF_TRUE"))
                return
            elif steps[test].name != "TO_BOOL":
                return

    def way(self, number: int, jumps: bool) -> int:
        """The step that comes after a jump, if it jumps, or if it does not."""
        return self.flow.next[number][jumps][0]


def parameter_at(
    code: CodeType, bound: Sequence[Any], args: Sequence[Any], place: Place
) -> tuple[str | None, Sequence[Any]]:
    """The name of the parameter that gets an argument, and all that are known, with those that a method is bound to."""
    if isinstance(place, int):
        place += len(bound)
        name = code.co_varnames[place] if place < code.co_argcount else None
    else:
        named = code.co_varnames[
            code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount
        ]
        name = place if place in named else None
    return name, (*bound, *args)


def loads_of(flow: Flow, name: str) -> list[int]:
    """The steps that load a local variable."""
    return [n for n in flow.mentions(name) if flow.steps[n].name == "LOAD_FAST"]


def _taken(step: Step) -> int | None:
    """How many values a step takes from the stack, if that is known."""
    if step.name in ("CALL", "CALL_KW"):
        return taken_by_call(step)
    if step.name in _COLLECT:
        return step.argument
    return _TAKES.get(step.name)


def taken_by_call(step: Step) -> int:
    """The function, what it is bound to, the arguments, and from CPython 3.13 on the names of some."""
    return step.argument + (3 if step.name == "CALL_KW" else 2)


def _shared(function: FunctionType, name: str) -> Any:
    """What a variable holds that a function shares with the one around it; unknown for others."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    content = cell_content(cells[name]) if name in cells else MISSING
    return _UNKNOWN if content is MISSING else content


def _is_kind(function: Any) -> bool:
    """Does it make a tensor of an array, by its class?"""
    return function is Tensor or isinstance(function, TensorKind)


def _attribute(value: Any, name: str) -> Any:
    """An attribute of a module, an object or a class, without running code; unknown where that cannot be told."""
    if isinstance(value, ModuleType):
        return getattr(value, name, _UNKNOWN)
    if value is _UNKNOWN or isinstance(value, type):
        return _UNKNOWN
    own = getattr(value, "__dict__", None)
    table = [vars(c) for c in type(value).__mro__]
    if not isinstance(own, dict) or any("__getattribute__" in x for x in table[:-1]):
        return _UNKNOWN
    found = next((x[name] for x in table if name in x), _UNKNOWN)
    if name in own:
        return _UNKNOWN if hasattr(type(found), "__set__") else own[name]
    if isinstance(found, FunctionType):
        return MethodType(found, value)
    if isinstance(found, staticmethod):
        return found.__func__
    children = value._modules if is_module(value) and found is _UNKNOWN else {}
    return children.get(name, _UNKNOWN)


def code_of(function: Any) -> tuple[FunctionType, tuple[Any, ...]]:
    """The function whose code runs when something is called, and what it is given first."""
    bound: tuple[Any, ...] = ()
    for _ in range(MAX_DEPTH):
        if isinstance(function, MethodType):
            bound, function = (function.__self__, *bound), function.__func__
        elif isinstance(function, FunctionType) and function.__code__ in decorating_codes():
            function = _shared(function, "function")
        elif isinstance(function, FunctionType):
            return function, bound
        else:
            function = _forward_of(function)
    raise UnseenError


def _forward_of(function: Any) -> Any:
    """The method that runs when a module without hooks is called, be it as what is compiled."""
    told: dict[str, Any] = {} if is_module(function) else getattr(function, "__dict__", {})
    module: Any = function if is_module(function) else told.get("module")
    if not is_module(module) or not calls_forward(module):
        raise UnseenError
    if function is not module and told.get("__wrapped__") != module.forward:
        raise UnseenError
    return _attribute(module, "forward")
