"""Whether a graph is one: nodes use those before them, names are unique, and what they name in the module is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.module import Module
from ..questions import typename
from .node import LEGAL_OPS, Node

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["lint"]


def lint(graph: Graph) -> None:
    """``RuntimeError``, or ``ValueError`` for what cannot be called, that says what is wrong.

    >>> import tracejit as tj
    >>> lint(tj.fx.symbolic_trace(lambda x: x + 1).graph)
    """
    names: set[str] = set()
    values: set[Node] = set()
    for node in graph.nodes:
        if node.op not in LEGAL_OPS:
            raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        for arg in node._input_nodes:
            _check_argument(graph, arg, node, values)
        values.add(node)
        if node.name in names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        names.add(node.name)
    if graph.owning_module is not None:
        for node in graph.nodes:
            _check_target(graph.owning_module, node)


def _check_argument(graph: Graph, arg: Node, node: Node, values: set[Node]) -> None:
    start = f"Argument '{arg}' of Node '{node}' "
    if arg.graph is not graph:
        raise RuntimeError(
            f"{start}does not belong to this Graph, but was used as an argument! If you are copying nodes from "
            f"another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{graph}"
        )
    if arg not in values:
        raise RuntimeError(
            f"{start}was used before it has been defined! Please check that Nodes in the graph are "
            f"topologically ordered\n{graph}"
        )


def _check_target(owner: Module, node: Node) -> None:
    wanted = "Callable" if node.op == "call_function" else "str"
    fits = callable(node.target) if wanted == "Callable" else isinstance(node.target, str)
    if not fits:
        raise ValueError(
            f"Node {node} target {node.target} has type {typename(node.target)} but a {wanted} is expected"
        )
    if node.op not in ("get_attr", "call_module"):
        return
    found, parts = owner, str(node.target).split(".")
    for place, part in enumerate(parts):
        inside, so_far = getattr(found, part, None), ".".join(parts[:place])
        if inside is None:
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {so_far}"
            )
        if node.op == "call_module" and not isinstance(inside, Module):
            raise RuntimeError(
                f"Node {node} target {node.target} {part} of {so_far} does not reference an nn.Module"
            )
        found = inside
