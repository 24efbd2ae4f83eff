"""Finds a small graph inside of a large one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..tensor import Tensor
from .attributes import get_attribute
from .graph import Graph
from .node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]

_APART = ("placeholder", "output")


@dataclass
class InternalMatch:
    """Where a pattern was found.

    ``nodes_map`` leads from its nodes to those of the graph, ``placeholder_nodes`` and ``returning_nodes`` are what
    its parameters and results are there.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


def _attribute(node: Node) -> Any:
    owner = node.graph.owning_module
    assert owner is not None, f"the graph of {node} belongs to no module"
    return get_attribute(owner, str(node.target))


def _leads_back(nodes: Sequence[Node]) -> bool:
    """Does what nodes give come back to them by others? Then nothing can take the place of all of them."""
    own = set(nodes)
    pending = [user for node in own for user in node.users if user not in own]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in own:
            return True
        if node not in seen:
            seen.add(node)
            pending += node.users
    return False


class SubgraphMatcher:
    """Finds a pattern; its parameters stand for anything.

    >>> import tracejit as tj
    >>> pattern = tj.fx.symbolic_trace(lambda x: tj.relu(x) + 1).graph
    >>> graph = tj.fx.symbolic_trace(lambda a, b: (tj.relu(a @ b) + 1) * 2).graph
    >>> [match.returning_nodes for match in SubgraphMatcher(pattern).match(graph)]
    [[add]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern, self.match_placeholder = pattern, match_placeholder
        self.match_output, self.ignore_literals = match_output, ignore_literals
        self.remove_overlapping_matches = remove_overlapping_matches
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            assert node.op == "output" or node.is_impure() or node.users, (
                "SubgraphMatcher cannot be initialized with an pattern with dead code"
            )
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        sinks = [n for n in output.all_input_nodes if len(n.users) == 1]
        self.pattern_anchors = [output] if match_output else sinks

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Every place where the pattern is, none of which shares a node with one before."""
        found = []
        for nodes_map in self._from(0, graph, {}, node_name_match):
            inner = [gn for pn, gn in nodes_map.items() if pn.op not in _APART]
            if not self._is_contained(nodes_map) or _leads_back(inner):
                continue
            match = InternalMatch(self.pattern_anchors, nodes_map)
            match.placeholder_nodes = [nodes_map[n] for n in self.pattern_placeholder_nodes]
            match.returning_nodes = [nodes_map[n] for n in self.pattern_returning_nodes]
            found.append(match)
        return self._apart(found) if self.remove_overlapping_matches else found

    def _from(
        self, place: int, graph: Graph, so_far: dict[Node, Any], name: str
    ) -> Iterator[dict[Node, Any]]:
        """Ways to go on from what matches so far, one end of the pattern after the other."""
        if place == len(self.pattern_anchors):
            if place:
                yield so_far
            return
        anchor = self.pattern_anchors[place]
        for node in [n for n in graph.nodes if self._alike(anchor, n, name)]:
            grown = dict(so_far)
            if self._match(anchor, node, grown, name):
                yield from self._from(place + 1, graph, grown, name)

    def _alike(self, pn: Node, gn: Node, name: str = "") -> bool:
        """May two nodes be the same step?"""
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        if name and name in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op == "get_attr":
            return self._same_kind(pn, gn)
        return pn.op in _APART or pn.target == gn.target

    def _same_kind(self, pn: Node, gn: Node) -> bool:
        """Are two attributes of one kind? Which tensors they are does not count."""
        mine, theirs = _attribute(pn), _attribute(gn)
        if type(mine) is not type(theirs):
            return False
        if not isinstance(mine, Tensor):
            raise RuntimeError(f"Unsupported type {mine} when matching attributes")
        return True

    def _match(self, pn: Node, gn: Node, nodes_map: dict[Node, Any], name: str = "") -> bool:
        """Is ``gn``, with all that leads to it, what ``pn`` is in the pattern? Adds to ``nodes_map`` what is."""
        if pn in nodes_map:
            return nodes_map[pn] is gn
        if any(gn is other for other in nodes_map.values()) or not self._alike(pn, gn, name):
            return False
        nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        same = len(pn.args) == len(gn.args) and list(pn.kwargs) == list(gn.kwargs)
        mine, theirs = (*pn.args, *pn.kwargs.values()), (*gn.args, *gn.kwargs.values())
        if same and self._match_all(mine, theirs, nodes_map):
            return True
        del nodes_map[pn]
        return False

    def _match_all(self, mine: Any, theirs: Any, nodes_map: dict[Node, Any]) -> bool:
        return len(mine) == len(theirs) and all(
            self._match_one(a, b, nodes_map) for a, b in zip(mine, theirs, strict=True)
        )

    def _match_one(self, mine: Any, theirs: Any, nodes_map: dict[Node, Any]) -> bool:
        if isinstance(mine, Node) and isinstance(theirs, Node):
            return self._match(mine, theirs, nodes_map)
        if isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
            return self._match_all(mine, theirs, nodes_map)
        return self._match_literal(mine, theirs, nodes_map) or self.ignore_literals

    def _match_literal(self, mine: Any, theirs: Any, nodes_map: dict[Node, Any]) -> bool:
        if isinstance(mine, Node):
            if mine.op != "placeholder":
                return False
            known = nodes_map.setdefault(mine, theirs)
            return bool(known is theirs or known == theirs)
        if isinstance(theirs, Node):
            return False
        return type(mine) is type(theirs) and bool(mine == theirs)

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Does nobody else use what only the pattern uses?"""
        inner = {
            gn: pn
            for pn, gn in nodes_map.items()
            if pn.op != "placeholder" and isinstance(gn, Node)
        }
        return all(
            pn in self.pattern_returning_nodes or all(user in inner for user in gn.users)
            for gn, pn in inner.items()
        )

    def _apart(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept = []
        for match in matches:
            inner = {gn for pn, gn in match.nodes_map.items() if pn.op not in _APART}
            if not inner & taken:
                kept.append(match)
                taken |= inner
        return kept
