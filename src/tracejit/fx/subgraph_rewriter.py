"""Replaces a small graph, wherever it is inside of a large one, by another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..nn.module import Module
from .graph import Graph
from .graph_module import GraphModule
from .matching import InternalMatch, SubgraphMatcher
from .node import Node
from .tracer import symbolic_trace

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was: the node of it from which it was found, and the nodes that its nodes were."""

    anchor: Node
    nodes_map: dict[Node, Any]


@dataclass
class ReplacedPatterns:
    """The same, and the nodes that are there now."""

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace ``pattern`` by ``replacement``, both functions or modules with graphs; tells where it was.

    >>> import tracejit as tj
    >>> traced = tj.fx.symbolic_trace(lambda x: (x * x).sum() + 1)
    >>> found = replace_pattern(traced, lambda x: x * x, lambda x: x.square())
    >>> print(traced.code.strip())
    def forward(self, x):
        square = x.square();  x = None
        sum_1 = square.sum();  square = None
        add = sum_1 + 1;  sum_1 = None
        return add
    """
    found = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(one.anchor, one.nodes_map) for one in found]


def _graph_of(given: Any) -> Graph:
    if isinstance(given, Graph):
        return given
    return given.graph if isinstance(given, GraphModule) else symbolic_trace(given).graph


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """The same only where all ``match_filters`` say so; ``replacement_callback`` may make each graph that is put in.

    >>> import tracejit as tj
    >>> traced = tj.fx.symbolic_trace(lambda x: (x + 1) * (x + 2))
    >>> wanted = [lambda match, graph, pattern: match.placeholder_nodes[1] == 2]
    >>> found = replace_pattern_with_filters(traced, lambda x, n: x + n, lambda x, n: x - n, wanted)
    >>> [str(node) for one in found for node in one.replacements]
    ['sub']
    """
    whole, small = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(small, ignore_literals=ignore_literals)
    matches = [
        match
        for match in matcher.match(whole, node_name_match)
        if all(wanted(match, whole, small) for wanted in match_filters or ())
    ]
    common = None if replacement is None else _graph_of(replacement)
    assert common is not None or replacement_callback is not None, (
        "Must provide either a replacement GraphModule or a replacement callback"
    )
    changed: dict[Node, Node] = {}
    done = []
    for match in matches:
        new = common if replacement_callback is None else replacement_callback(match, whole, small)
        assert new is not None
        done.append(_replace(whole, small, match, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _bring_attributes(gm, replacement)
    return done


def _replace(
    whole: Graph, small: Graph, match: InternalMatch, new: Graph, changed: dict[Node, Node]
) -> ReplacedPatterns:
    """Put ``new`` where a match is; ``changed`` tells what has come in the place of nodes so far."""
    parameters = [n for n in new.nodes if n.op == "placeholder"]
    assert len(match.placeholder_nodes) == len(parameters), (
        f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(parameters)}"
    )
    for pn, gn in match.nodes_map.items():
        if pn.op == "placeholder" and isinstance(gn, Node):
            match.nodes_map[pn] = changed.get(gn, gn)
    given = [changed.get(n, n) if isinstance(n, Node) else n for n in match.placeholder_nodes]
    match.placeholder_nodes = given
    values: dict[Node, Any] = dict(zip(parameters, given, strict=True))
    with whole.inserting_before(_place(whole, match)):
        returned = whole.graph_copy(new, values)
    results = (returned,) if isinstance(returned, Node) else tuple(returned)
    assert len(match.returning_nodes) == len(results), (
        f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}"
    )
    for old, result in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(result)
        changed[old] = result
    for node in reversed(small.nodes):
        if node.op not in ("placeholder", "output"):
            whole.erase_node(match.nodes_map[node])
    made = [n for n in values.values() if not any(n is one for one in given)]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _place(whole: Graph, match: InternalMatch) -> Node:
    """The first node that uses a result, or the one behind the results where none does."""
    users = {user for n in match.returning_nodes for user in n.users}
    found = min(users) if users else max(match.returning_nodes).next
    assert found is not whole._root, "The insert point can't be None"
    return found


def _bring_attributes(gm: GraphModule, replacement: Module) -> None:
    """Copies of what the replacement brings along, for nodes that name it."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _find(gm, node.target) is not None:
            continue
        brought = _find(replacement, node.target)
        if brought is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, '
                "but the referenced attribute does not exist in the replacement GraphModule"
            )
        own = copy.deepcopy(brought)
        if isinstance(brought, Module):
            gm.add_submodule(node.target, own)
        else:
            setattr(gm, node.target, own)
    gm.graph.lint()


def _find(module: Module, path: str) -> Any:
    inner, _, name = path.rpartition(".")
    try:
        return getattr(module.get_submodule(inner), name, None)
    except AttributeError:
        return None
