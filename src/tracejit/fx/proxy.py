"""What stands for values while a program is written down: whatever is done with a proxy becomes a node."""

from __future__ import annotations

import copy
import dis
import enum
import operator
import sys
import traceback
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any

from ..nn.parameter import Parameter
from ..utils import _pytree as pytree
from . import interception
from . import traceback as fx_traceback
from .graph import Graph
from .node import Node, Target, base_types, map_arg
from .snippets import OPERATORS, REFLECTABLE

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]


class TraceError(ValueError):
    """The program wants to know a value that is not there while it is written down."""


class Scope:
    """Which module is running: its path, and its class.

    >>> Scope("layers.0", int).module_path
    'layers.0'
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Has another module be the one that is running, for a while.

    >>> scope = Scope("", None)
    >>> with ScopeContextManager(scope, Scope("inner", int)):
    ...     scope.module_path
    'inner'
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._before = scope, copy.copy(scope)
        vars(scope).update(vars(current_scope))

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *_: object) -> None:
        vars(self._scope).update(vars(self._before))


class TracerBase:
    """Writes nodes into a graph, and decides what becomes of values that are no nodes."""

    graph: Graph
    #: Are nodes told which lines of the program led to them?
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    #: Do conditions of ``assert`` become nodes?
    trace_asserts: bool = False
    #: Are buffers that a module reads nodes at once, as parameters are?
    proxy_buffer_attributes: bool = False
    #: The method of a module that is written down.
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node of the graph; tracers may refuse some here, or change them."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            for key, value in fx_traceback.get_current_meta().items():
                if key in _TOLD:
                    node.meta[key] = copy.copy(value)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            lines = traceback.extract_stack()
            inner = next((i for i, line in enumerate(lines) if line.name == "forward"), None)
            if inner is not None:
                kept = [x for x in lines[inner:] if not x.filename.startswith(_HERE)]
                node.stack_trace = "".join(traceback.format_list(kept)).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A new node of what a program hands over, and what stands for its value."""
        taken, named = self.create_arg(args), self.create_arg(kwargs)
        assert isinstance(taken, tuple), f"Expected args_ to be tuple, got {type(taken)}"
        assert isinstance(named, dict), f"Expected kwargs_ to be dict, got {type(named)}"
        node = self.create_node(kind, target, taken, named, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """What a node holds for a value: nodes for proxies, also inside of containers.

        Raises ``NotImplementedError`` for what no graph can hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, base_types) and not isinstance(a, (tuple, range, slice)):
            return a
        if isinstance(a, (tuple, list, dict, slice, range)):
            return _held(self, a)
        if is_dataclass(a) and not isinstance(a, type):
            given = {x.name: self.create_arg(getattr(a, x.name)) for x in fields(a)}
            return self.create_node("call_function", type(a), (), given)
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum)):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """What a branch on a proxy does. Raises ``TraceError``."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What a loop over a proxy does. Raises ``TraceError``."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or "
            "as a *args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed "
            "explanation of what types of control flow can be traced, and check out the Proxy docstring for help "
            "troubleshooting Proxy iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """What ``**proxy`` asks for: here, a node."""
        return Attribute(obj, "keys")()


#: What new nodes are told by the node at work.
_TOLD = frozenset(("stack_trace", "nn_module_stack", "source_fn_stack", "from_node", "custom"))
_HERE = __file__.rpartition("fx")[0]


def _held(tracer: TracerBase, a: Any) -> Any:
    """A container with what a node holds for its items."""
    hold = tracer.create_arg
    if isinstance(a, tuple):
        items = [hold(x) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
    if isinstance(a, list):
        return [hold(x) for x in a]
    if isinstance(a, dict):
        return {_key(tracer, key): hold(value) for key, value in a.items()}
    return type(a)(hold(a.start), hold(a.stop), hold(a.step))


def _key(tracer: TracerBase, key: Any) -> Any:
    """A key of a dict; ``RuntimeError`` where a proxy is in it."""
    if isinstance(key, str):
        return key

    def refuse(node: Node) -> Any:
        raise RuntimeError(
            "Keys for dictionaries used as an argument cannot contain a " f"Node. Got key: {node}"
        )

    return map_arg(tracer.create_arg(key), refuse)


class GraphAppendingTracer(TracerBase):
    """Writes nodes into a graph that there is already.

    >>> graph = Graph()
    >>> x = Proxy(graph.placeholder("x"))  # has one of these
    >>> (x + 1).node.target.__name__
    'add'
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: Any) -> None:
    """``AssertionError`` unless ``x`` holds: what a recorded ``assert`` calls."""
    assert x, "Assertion failed"


def _instruction(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    """The instructions of a frame, and which one runs."""
    found = list(dis.get_instructions(frame.f_code))
    return found, bisect_left(found, frame.f_lasti, key=lambda x: x.offset)


def _in_assert(frame: FrameType) -> bool:
    """Is the truth of something asked for by an ``assert``?"""
    found, place = _instruction(frame)
    if not found[place].opname.endswith("IF_TRUE"):
        return False
    following = found[place + 1]
    starts = following.opname == "LOAD_ASSERTION_ERROR"
    end = next((i for i, x in enumerate(found) if x.offset == found[place].argval), 0)
    return starts and found[end - 1].opname == "RAISE_VARARGS"


class Proxy:
    """Stands for the value of a node; what is done with it becomes nodes of the same graph.

    >>> import tracejit as tj
    >>> graph = Graph()
    >>> x = Proxy(graph.placeholder("x"))
    >>> tj.relu(x + 1).sum(dim=0)
    Proxy(sum_1)
    >>> [node.name for node in graph.nodes]
    ['x', 'add', 'relu', 'sum_1']
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
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
        if isinstance(orig_method, interception.Method):
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

    >>> x = Proxy(Graph().placeholder("x"))
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
    target = getattr(operator, name, None)

    def call(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    call.__name__ = name
    return call


def _reflected(name: str) -> Callable[..., Any]:
    target = getattr(operator, name, None)

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
