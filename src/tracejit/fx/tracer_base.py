"""Writes nodes into a graph: what every tracer does, whatever it runs."""

from __future__ import annotations

import copy
import enum
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from . import traceback as fx_traceback
from .graph import Graph
from .node import Node, Target, base_types, map_arg
from .proxy import Attribute, Proxy, TraceError

__all__ = ["GraphAppendingTracer", "Scope", "ScopeContextManager", "TracerBase"]


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
            f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}"
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
