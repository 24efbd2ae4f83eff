"""Runs graphs node by node: as they are, or to make others."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..nn.module import Module
from . import interception
from . import traceback as fx_traceback
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy
from .tracer import Tracer

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph; classes derived from it say what a node of some kind does.

    >>> import tracejit as tj
    >>> class Swapped(Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(tj.neg if target is tj.relu else target, args, kwargs)
    >>> Swapped(tj.fx.symbolic_trace(lambda x: tj.relu(x) + 1)).run(tj.ones(1))
    tensor([0.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = self.module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            self.user_to_last_uses: dict[Node, list[Node]] = {}
            seen: set[Node] = set()
            for user in reversed(self.graph.nodes):
                for node in user._input_nodes:
                    if node not in seen:
                        seen.add(node)
                        self.user_to_last_uses.setdefault(user, []).append(node)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """What the graph gives for ``args``; nodes in ``initial_env`` have their values already."""
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                self._explain(error, node)
                raise
            if self.garbage_collect_values:
                for unused in self.user_to_last_uses.get(node, []):
                    del self.env[unused]
            if node.op == "output":
                found = self.env[node]
                return self.graph.process_outputs(found) if enable_io_processing else found
        return None

    def _explain(self, error: Exception, node: Node) -> None:
        """Add to an error at which node it was raised."""
        if not self.extra_traceback:
            return
        text = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
        text = f"{error.args[0]}\n\n{text}" if error.args else text
        error.args = (text, *error.args[1:])
        if isinstance(error, KeyError):
            raise RuntimeError(*error.args) from error

    def boxed_run(self, args_list: list[Any]) -> Any:
        """The same for arguments in a list, which is emptied so that nothing else keeps them alive."""
        parameters = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(args_list) != len(parameters):
            more = len(args_list) > len(parameters)
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(parameters)} arguments for placeholders but received "
                f"{len(args_list)} ({'extra' if more else 'missing'} arguments)"
            )
        env = dict(zip(parameters, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """What one node gives."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # --- kinds of nodes ----------------------------------------------------------------------------------------

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument; all that are left for ``*args``."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as end:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from end

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the module has by a path."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a function gives."""
        assert not isinstance(target, str), "target should not be a string for call_function"
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a method of the first argument gives."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a module inside the module gives."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph gives."""
        return args[0]

    # --- values ------------------------------------------------------------------------------------------------

    def fetch_attr(self, target: str) -> Any:
        """What the module has by a path; ``RuntimeError`` where there is nothing."""
        found, parts = self.module, target.split(".")
        for place, part in enumerate(parts, 1):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[:place])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of what a node takes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """``args`` of a node with values in the place of nodes."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class _TransformerTracer(Tracer):
    """Writes into a graph that there is already, and goes into no module."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph, self.root, self.tensor_attrs = graph, root, {}

    def is_leaf_module(self, *_: Any) -> bool:
        return True


class Transformer(Interpreter):
    """Runs a graph on proxies: what comes of each node is written into another graph.

    >>> import tracejit as tj
    >>> class Gelu(Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         new = tj.nn.functional.gelu if target is tj.relu else target
    ...         return super().call_function(new, args, kwargs)
    >>> print(Gelu(tj.fx.symbolic_trace(lambda x: tj.relu(x))).transform().code.strip())
    def forward(self, x):
        gelu = tracejit._C._nn.gelu(x);  x = None
        return gelu
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer: Tracer = _TransformerTracer(self.new_graph, module)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A parameter of the new graph."""
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the same module."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the same function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        interception.take()
        try:
            with fx_traceback.preserve_node_meta():
                result = super().run(enable_io_processing=False)
        finally:
            interception.release()
            self.env.clear()
            interception.settle()
        if result is not None:
            made = map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x)
            self.new_graph.output(made).meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
