"""What stands for values while a program is written down: whatever is done with a proxy becomes a node."""

from __future__ import annotations

import copy
import dis
import operator
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..nn.parameter import Parameter
from ..utils import trees as pytree
from . import interception
from .node import Node
from .snippets import OPERATORS, REFLECTABLE
from .watched import Method

if TYPE_CHECKING:
    from .tracer_base import TracerBase

__all__ = [
    "Attribute",
    "ParameterProxy",
    "Proxy",
    "TraceError",
]


class TraceError(ValueError):
    """The program wants to know a value that is not there while it is written down."""


def assert_fn(x: Any) -> None:
    """``AssertionError`` unless ``x`` holds: what a recorded ``assert`` calls."""
    assert x, "Assertion failed"


#: What asks for a truth ahead of the jump that it decides. (From Python 3.13 on.)
_ASKS = frozenset({"COMPARE_OP", "TO_BOOL"})


def _instruction(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    """The instructions of a frame, and which one runs."""
    found = list(dis.get_instructions(frame.f_code))
    return found, bisect_left(found, frame.f_lasti, key=lambda x: x.offset)


def _in_assert(frame: FrameType) -> bool:
    """Is the truth of something asked for by an ``assert``?"""
    found, place = _instruction(frame)
    if found[place].opname in _ASKS:
        place += 1
    if not found[place].opname.endswith("IF_TRUE"):
        return False
    following = found[place + 1]
    starts = following.opname == "LOAD_ASSERTION_ERROR"
    end = next((i for i, x in enumerate(found) if x.offset == found[place].argval), 0)
    return starts and found[end - 1].opname == "RAISE_VARARGS"


class Proxy:
    """Stands for the value of a node; what is done with it becomes nodes of the same graph.

    >>> import tracejit as tj
    >>> graph = tj.fx.Graph()
    >>> x = Proxy(graph.placeholder("x"))
    >>> tj.relu(x + 1).sum(dim=0)
    Proxy(sum_1)
    >>> [node.name for node in graph.nodes]
    ['x', 'add', 'relu', 'sum_1']
    """

    #: Methods of tensors come by their names.
    _takes_methods = True

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        if tracer is None:
            from .tracer_base import GraphAppendingTracer

            tracer = GraphAppendingTracer(node.graph)
        self.tracer = tracer
        self.node = node
        self._watch()

    def _watch(self) -> None:
        """Have functions look for this: the tracer does while it traces."""
        self.__dict__["_watched"] = not getattr(self.tracer, "_tracing", False)
        if self._watched:
            interception.take()

    def __del__(self) -> None:
        if self.__dict__.get("_watched"):
            interception.release()

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k == "__cuda_array_interface__":  # who asks wants numbers
            raise TypeError("`__cuda_array_interface__` must be a dict")
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_watched"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._watch()

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """A node that calls the value."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        found, place = _instruction(sys._getframe(1))
        if found[place].opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(found[place].argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _in_assert(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """What ``**proxy`` asks for: the tracer answers."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please "
            "call tracejit.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        """The node of a function that was given proxies."""
        args, kwargs = args or (), kwargs or {}
        leaves = pytree.tree_leaves((args, kwargs))
        tracers = dict.fromkeys(x.tracer for x in leaves if isinstance(x, Proxy))
        tracers.update((x.tracer, None) for x in _in_slices(leaves))
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        if isinstance(orig_method, Method):
            return tracer.create_proxy("call_method", orig_method.name, args, kwargs)
        return tracer.create_proxy(
            "call_function",
            orig_method,
            args,
            kwargs,
            name=tracer.graph._target_to_str(orig_method),
        )


def _in_slices(leaves: list[Any]) -> Iterator[Proxy]:
    for x in leaves:
        if isinstance(x, slice):
            yield from (y for y in (x.start, x.stop, x.step) if isinstance(y, Proxy))


class Attribute(Proxy):
    """An attribute of a proxy: a method where it is called, and otherwise a node of its own.

    >>> import tracejit as tj
    >>> x = Proxy(tj.fx.Graph().placeholder("x"))
    >>> x.size(0), x.shape.node.target is getattr
    (Proxy(size), True)
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node, which there is from the first time on that somebody asks for it."""
        if self._node is None:
            given = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, given, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """A node that calls the method."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter, and tells its shape: conditions on that are decided while the program is written down."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        assert isinstance(param, Parameter), f"Expected Parameter, got {type(param)}"
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """That of the parameter."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return self.param.ndim

    def size(self) -> Any:
        """Its shape."""
        return self.param.size()

    def dim(self) -> int:
        """The number of its dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The number of its elements."""
        found: int = self.param.numel()
        return found

    nelement = numel


def _operator(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    call.__name__ = name
    return call


def _reflected(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def call(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    call.__name__ = call.__qualname__ = f"__r{name.strip('_')}__"
    return call


for _name in OPERATORS:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in REFLECTABLE:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))
