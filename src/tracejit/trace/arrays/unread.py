"""Arguments that the code of a function never looks at: names of files in a batch, what logs and callbacks would need.

Arguments that are no tensors are compared by what they are, so that ``{"image": x, "path": "17.png"}`` would be a
signature of its own. Where the bytecode says that of a dict, list or tuple only some items are read, by keys that are
known, and that nobody else gets it, the others do not matter; nor does a parameter that is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...numpy_numbers import NUMBERS
from ...tensor import Tensor
from ..rounds.code import flow_of
from .arguments import ArgumentArray, given_arrays
from .uses import (
    _RESUMED,
    MAX_DEPTH,
    Frame,
    Place,
    UnseenError,
    code_of,
    loads_of,
    parameter_at,
    taken_by_call,
)

#: Kinds of calls that are remembered.
MAX_KINDS = 256
#: Functions that are looked through for one argument.
MAX_FUNCTIONS = 64
#: Steps that store one value each.
_STORES = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_GLOBAL"})

Keys = frozenset[Any]
_NOBODY: Any = None


class UnreadUses:
    """Which items of the arguments of one function are read, by the kinds of its arguments.

    Only where what is not read was another one in calls that were recorded: native code looks at all of an argument.
    """

    def __init__(self) -> None:
        self.known: dict[Any, dict[Place, Keys]] = {}
        self.met: dict[Any, list[Any]] = {}

    def left_out(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of a call, with :class:`ArgumentPart` in the place of those that are not read as a whole."""
        places = self.known.get(_kinds(args, kwargs)) if self.known else None
        if not places:
            return args, kwargs
        positional, named = list(args), dict(kwargs)
        for place, keys in places.items():
            holder: Any = named if isinstance(place, str) else positional
            holder[place] = _part(holder[place], keys)
        return tuple(positional), named

    def learn(self, function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
        """A call is about to be recorded; True when other parts of its arguments do not matter from now on.

        A part that was read once counts from then on: the code that says so may come and go.
        """
        kinds = _kinds(args, kwargs)
        before = self.known.get(kinds)
        if before == {}:
            return False
        found: dict[Place, Keys] = {}
        for place, value in (*enumerate(args), *kwargs.items()):
            keys = None if _is_whole(value) else items_read(function, args, place)
            if keys is not None and (before is None or place in before):
                found[place] = keys if before is None else keys | before[place]
        if before is None and not self._differ(kinds, args, kwargs, found):
            return False
        self.known[kinds] = found
        return found != before

    def _differ(self, kinds: Any, args: Any, kwargs: Any, found: Mapping[Place, Keys]) -> bool:
        """Is what is not read another one than in the call recorded before?"""
        left: list[Any] = []
        for place, keys in found.items():
            value = kwargs[place] if isinstance(place, str) else args[place]
            left += _unread(value, keys).values()
        before = self.met.pop(kinds, None)
        if before is not None and not _are_same(left, before):
            return True
        if left:
            if len(self.met) >= MAX_KINDS:
                self.met.pop(next(iter(self.met)))
            self.met[kinds] = left
        return False


class ArgumentPart:
    """An argument as it was ``given``, and what is ``shown`` of it: without what the code does not look at."""

    __slots__ = ("given", "shown")

    def __init__(self, given: Any, shown: Any) -> None:
        self.given, self.shown = given, shown


def given_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The arguments of a call as the user gave them.

    >>> given_arguments((ArgumentPart({"a": 1}, {"a": None}), 3), {})
    (({'a': 1}, 3), {})
    """
    if any(type(x) is ArgumentPart for x in (*args, *kwargs.values())):
        args = tuple([x.given if type(x) is ArgumentPart else x for x in args])
        kwargs = {k: x.given if type(x) is ArgumentPart else x for k, x in kwargs.items()}
    return given_arrays(args, kwargs)


def items_read(function: Callable[..., Any], args: Sequence[Any], place: Place) -> Keys | None:
    """By which keys the function reads items of the argument at ``place``; None where it may do anything with it.

    >>> def loss(batch, name):
    ...     image, label, _ = batch
    ...     return (image - label).square().mean()
    >>> sorted(items_read(loss, (), 0)), sorted(items_read(loss, (), 1))
    ([0, 1], [])
    """
    try:
        return _Items().of(function, args, place, 0)
    except UnseenError:
        return None


class _Items:
    """Follows one argument through code."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def of(self, function: Any, args: Sequence[Any], place: Place, depth: int) -> Keys:
        """The keys by which a function reads items of an argument."""
        called, bound = code_of(function)
        code = called.__code__
        name, args = parameter_at(code, bound, args, place)
        flow = flow_of(code)
        if name is None or flow is None or flow.hides or code.co_flags & _RESUMED:
            raise UnseenError
        if name in code.co_cellvars or depth > MAX_DEPTH or len(self.seen) > MAX_FUNCTIONS:
            raise UnseenError
        first = code.co_varnames[0]
        own = {first: args[0]} if args and first != name else {}
        key = code, name, tuple([id(x) for x in own.values()])
        if key in self.seen:
            return frozenset()
        self.seen.add(key)
        frame = Frame(_NOBODY, called, flow, own, depth)
        return frozenset().union(*(self.use(frame, number) for number in loads_of(flow, name)))

    def use(self, frame: Frame, number: int) -> Keys:
        """The same for one step that loads it."""
        after, *more = frame.flow.steps[number + 1 : number + 3]
        if after.name == "POP_TOP":
            return frozenset()
        if after.name == "UNPACK_SEQUENCE":
            return self.unpacked(frame, number + 2, after.argument)
        subscript = after.name == "LOAD_CONST" and more and more[0].name == "BINARY_SUBSCR"
        if subscript and type(after.value) in (str, int):
            return frozenset({after.value})
        return self.handed_on(frame, number)

    def unpacked(self, frame: Frame, start: int, count: int) -> Keys:
        """The positions at which items go to variables that are read."""
        stores = frame.flow.steps[start : start + count]
        if any(step.name not in _STORES for step in stores):
            return frozenset(range(count))
        shared = frame.flow.code.co_cellvars
        return frozenset(
            i
            for i, step in enumerate(stores)
            if step.name != "STORE_FAST" or step.value in shared or loads_of(frame.flow, step.value)
        )

    def handed_on(self, frame: Frame, number: int) -> Keys:
        """The same for a function that gets it."""
        place = frame.flow.depth.get(number)
        taker = None if place is None else frame.taker(number + 1, place)
        if (
            taker is None
            or place is None
            or frame.flow.steps[taker].name not in ("CALL", "CALL_KW")
        ):
            raise UnseenError
        step = frame.flow.steps[taker]
        base = frame.flow.depth[taker] - taken_by_call(step)
        where = frame.argument(taker, place - base - 2)
        return self.of(frame.callee(taker, base), (), where, frame.depth + 1)


def _unread(value: Any, keys: Keys) -> dict[Any, Any]:
    """The items of an argument that are not read, by key; all of it, where it has none that could be read apart."""
    if type(value) is dict:
        items = {k: x for k, x in value.items() if type(k) in (str, int) and k not in keys}
    elif type(value) in (list, tuple):
        read = {k + len(value) if k < 0 else k for k in keys if type(k) is int}
        items = {i: x for i, x in enumerate(value) if i not in read}
    else:
        return {} if keys else {None: value}
    return {k: x for k, x in items.items() if x is not None and not isinstance(x, Tensor)}


def _are_same(values: Sequence[Any], others: Sequence[Any]) -> bool:
    """Are these the same objects, or the same text?"""
    pairs = zip(values, others, strict=False)
    return len(values) == len(others) and all(
        x is y or (type(x) is type(y) is str and x == y) for x, y in pairs
    )


def _part(value: Any, keys: Keys) -> Any:
    """What stands for an argument of which items are read by these keys."""
    unread = {} if _is_whole(value) else _unread(value, keys)
    if not unread:
        return value
    if type(value) is dict:
        return ArgumentPart(value, {**value, **dict.fromkeys(unread)})
    if type(value) in (list, tuple):
        shown = type(value)([None if i in unread else x for i, x in enumerate(value)])
        return ArgumentPart(value, shown)
    return ArgumentPart(value, None)


def _is_whole(value: Any) -> bool:
    """Is there nothing to leave out? Numbers vary anyway."""
    return value is None or isinstance(value, Tensor) or type(value) in (*NUMBERS, ArgumentArray)


def _kinds(args: Any, kwargs: Any) -> Any:
    return tuple(map(_kind, args)), tuple([(name, _kind(x)) for name, x in kwargs.items()])


def _kind(value: Any) -> Any:
    """The class of an argument as it was given."""
    return type(value.array) if type(value) is ArgumentArray else type(value)
