"""Divides a module into modules that it calls one after the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...nn.module import Module
from ..attributes import get_attribute
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..proxy import Proxy

__all__ = ["Partition", "split_module"]


@dataclass
class Partition:
    """A part: what its nodes take from others and give to others, and its graph.

    >>> Partition("0").submod_name
    'submod_0'
    """

    name: str
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    dependents: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)

    @property
    def submod_name(self) -> str:
        """The name of its module."""
        return f"submod_{self.name}"


@dataclass
class _Split:
    """A module being divided."""

    module: GraphModule
    options: dict[str, Any]
    names: dict[str, str] | None
    parts: dict[str, Partition] = field(default_factory=dict)
    where: dict[Node, str] = field(default_factory=dict)
    base: Graph = field(default_factory=Graph)
    values: dict[Node, Node] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    def assign(self, callback: Callable[[Node], int], affix: str | None) -> None:
        """Say of each node that computes something in which part it is."""
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(callback(node)) if affix is None else f"{affix}_{callback(node)}"
            self.parts.setdefault(name, Partition(name))
            self.where[node] = name

    def connect(self) -> None:
        """Find what parts take from each other."""
        for user in self.module.graph.nodes:
            if user.op in ("placeholder", "get_attr"):
                continue
            used = self.where.get(user)
            for node in user.all_input_nodes:
                self._use(node, self.where.get(node), used)

    def _use(self, node: Node, defined: str | None, used: str | None) -> None:
        if defined == used:
            return
        if defined is not None:
            self.parts[defined].outputs.setdefault(node)
            if used is not None:
                self.parts[defined].dependents.setdefault(used)
        if used is not None:
            self.parts[used].inputs.setdefault(node)
            if defined is not None:
                self.parts[used].dependencies.setdefault(defined)

    def order(self) -> list[str]:
        """The parts, each behind those that it takes something from."""
        ready = [name for name, part in self.parts.items() if not part.dependencies]
        found = []
        while ready:
            name = ready.pop()
            found.append(name)
            for dependent in self.parts[name].dependents:
                waits = self.parts[dependent].dependencies
                waits.pop(name)
                if not waits:
                    ready.append(dependent)
        if len(found) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return found

    def open(self, part: Partition) -> None:
        """The parameters of a part."""
        inner = [n for n in part.inputs if self._is_module(n)]
        for count, node in enumerate(n for n in part.inputs if n not in inner):
            name = node.name if self.options["keep_original_input_name"] else f"arg_{count}"
            made = part.graph.placeholder(name, type_expr=node.type)
            made.meta = node.meta.copy()
            part.environment[node] = made
        for node in inner:
            made = part.graph.get_attr(str(node.target))
            made.meta = node.meta.copy()
            part.environment[node] = made
            part.targets[str(node.target)] = get_attribute(self.module, str(node.target))
            del part.inputs[node]

    def _is_module(self, node: Node) -> bool:
        return node.op == "get_attr" and isinstance(
            get_attribute(self.module, str(node.target)), Module
        )

    def fill(self) -> None:
        """The nodes of each part, in order."""
        for node, name in self.where.items():
            part = self.parts[name]
            target = node.target
            if node.op == "call_module":
                assert isinstance(target, str)
                target, old = target.replace(".", "_"), target
                part.targets[target] = get_attribute(self.module, old)
                if self.names is not None:
                    self.names[f"{part.submod_name}.{target}"] = old
            own = node.name if self.options["keep_original_node_name"] else None
            taken = part.environment.__getitem__
            args, kwargs = map_arg(node.args, taken), map_arg(node.kwargs, taken)
            made = part.graph.create_node(node.op, target, args, kwargs, own, node.type)
            made.meta = node.meta.copy()
            part.environment[node] = made

    def outside(self, node: Node) -> None:
        """A parameter or an attribute of the whole."""
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            own = self.options["keep_original_node_name"]
            name = node.name if own else str(node.target)
            made = self.base.placeholder(name, node.type, default)
        else:
            made = self.base.get_attr(str(node.target))
            self.attributes[str(node.target)] = get_attribute(self.module, str(node.target))
        made.meta = node.meta.copy()
        self.values[node] = made

    def call(self, part: Partition) -> None:
        """Finish a part, and have the whole call it."""
        results = tuple(part.environment[n] for n in part.outputs)
        for node in part.inputs:
            if node not in self.values:
                self.outside(node)
        alone = len(results) == 1 and not self.options["tuple_return"]
        part.graph.output(results[0] if alone else results)
        self.attributes[part.submod_name] = GraphModule(part.targets, part.graph)
        given = tuple(self.values[n] for n in part.inputs)
        called = self.base.call_module(part.submod_name, given)
        for place, node in enumerate(part.outputs):
            self.values[node] = called if alone else Proxy(called)[place].node  # type: ignore[index]


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that calls a module for each part of ``m``; ``split_callback`` says which part a node is in.

    Raises ``RuntimeError`` where parts would need each other. ``qualname_map`` is told where modules were before.

    >>> import tracejit as tj
    >>> traced = tj.fx.symbolic_trace(lambda x: tj.relu(x + 1).sum())
    >>> made = split_module(traced, traced, lambda node: int(node.op == "call_method"))
    >>> print(made.code.strip())
    def forward(self, x):
        submod_0 = self.submod_0(x);  x = None
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return submod_1
    """
    options = {
        "keep_original_node_name": keep_original_node_name,
        "keep_original_input_name": keep_original_input_name,
        "tuple_return": tuple_return,
    }
    split = _Split(m, options, qualname_map)
    split.assign(split_callback, partition_affix)
    split.connect()
    given = list(split.parts)
    ordered = split.order()
    for name in ordered:
        split.open(split.parts[name])
    split.fill()
    first = ("placeholder",) if keep_original_order else ("placeholder", "get_attr")
    for node in [n for n in m.graph.nodes if n.op in first]:
        split.outside(node)
    for name in given if keep_original_order else ordered:
        split.call(split.parts[name])
    for node in m.graph.output_node().all_input_nodes:
        if node not in split.values:
            split.outside(node)
    split.base.output(map_arg(m.graph.output_node().args[0], split.values.__getitem__))
    made = GraphModule(split.attributes, split.base)
    made.meta["partition_names"] = {part.submod_name for part in split.parts.values()}
    return made
