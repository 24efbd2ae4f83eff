"""The backward walk: iterative, in reverse order of recording, freeing what it has used."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..modes import MODES
from .node import AccumulateGrad, Edge, Node

if TYPE_CHECKING:
    from ..tensor import Tensor


def run(
    roots: Sequence[tuple[Edge, Tensor]],
    *,
    retain_graph: bool,
    create_graph: bool,
    capture: Sequence[Edge] | None = None,
) -> dict[Edge, Tensor]:
    """Walk back from ``roots``; accumulate into leaves, or (with ``capture``) return the gradients at those edges."""
    walk = _Walk(capture, retain_graph, create_graph)
    walk.start(roots)
    grad_mode, MODES.grad = MODES.grad, create_graph
    recorder = MODES.recorder
    if recorder is not None:
        recorder.backward_inside()
    try:
        walk.finish()
    finally:
        MODES.grad = grad_mode
    return walk.captured


class _Walk:
    """State of one backward pass."""

    def __init__(self, capture: Sequence[Edge] | None, retain_graph: bool, create_graph: bool) -> None:
        self.capture = None if capture is None else set(capture)
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.captured: dict[Edge, Tensor] = {}
        self.waiting: dict[Node, int] = {}
        self.buffers: dict[Node, list[Tensor | None]] = {}
        self.ready: list[tuple[int, int, Node]] = []
        self.assigned: set[int] = set()

    def start(self, roots: Sequence[tuple[Edge, Tensor]]) -> None:
        """Count how many gradients every node waits for, then queue the roots."""
        nodes = [edge[0] for edge, _ in roots]
        order = _reachable(nodes)
        useful = None if self.capture is None else _leads_to(order, {e[0] for e in self.capture})
        self.useful = useful
        for node in order:
            self.waiting.setdefault(node, 0)
            if useful is not None and node not in useful:
                continue
            for edge in node.edges:
                if edge is not None and (useful is None or edge[0] in useful):
                    self.waiting[edge[0]] = self.waiting.get(edge[0], 0) + 1
        for edge, gradient in roots:
            self.assigned.add(id(gradient.array))
            self.add(edge, gradient)
        for node in dict.fromkeys(nodes):
            if self.waiting[node] == 0 and (useful is None or node in useful):
                self.queue(node)

    def queue(self, node: Node) -> None:
        heapq.heappush(self.ready, (-node.sequence, id(node), node))

    def add(self, edge: Edge, gradient: Tensor) -> None:
        """Add a gradient to what has arrived at an edge."""
        node, number = edge
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * node.n_outputs
        present = buffer[number]
        buffer[number] = gradient if present is None else present + gradient

    def finish(self) -> None:
        """Run every node whose gradients are complete, until none is left."""
        while self.ready:
            node = heapq.heappop(self.ready)[2]
            grads = self.buffers.pop(node, None)
            if grads is None:
                grads = [None] * node.n_outputs
            self.run_hooks(node, grads)
            if self.capture is not None:
                self.take(node, grads)
            if isinstance(node, AccumulateGrad):
                if self.capture is None and grads[0] is not None:
                    self.accumulate(node, grads[0])
                continue
            self.visit(node, grads)

    def visit(self, node: Node, grads: list[Tensor | None]) -> None:
        """Run one node and pass its gradients on."""
        if any(g is not None for g in grads):
            for hook in (node.prehooks or {}).values():
                changed = hook(tuple(grads))
                grads = grads if changed is None else list(changed)
            results = node.apply(grads)
            for hook in (node.hooks or {}).values():
                changed = hook(tuple(results), tuple(grads))
                results = results if changed is None else changed
            if not self.retain_graph:
                node.release()
        else:
            results = [None] * len(node.edges)
        for edge, gradient in zip(node.edges, results, strict=True):
            if edge is None or (self.useful is not None and edge[0] not in self.useful):
                continue
            if gradient is not None:
                self.add(edge, gradient)
            self.waiting[edge[0]] -= 1
            if self.waiting[edge[0]] == 0:
                self.queue(edge[0])

    def run_hooks(self, node: Node, grads: list[Tensor | None]) -> None:
        """Tensor hooks see, and may replace, the gradient of the tensor they are on."""
        for number, hooks in (node.tensor_hooks or {}).items():
            for hook in tuple(hooks.values()):
                if grads[number] is not None:
                    changed = hook(grads[number])
                    grads[number] = grads[number] if changed is None else changed

    def take(self, node: Node, grads: list[Tensor | None]) -> None:
        """Remember the gradients asked for by ``capture``."""
        assert self.capture is not None
        for number, gradient in enumerate(grads):
            if gradient is not None and (node, number) in self.capture:
                self.captured[(node, number)] = gradient

    def accumulate(self, node: AccumulateGrad, gradient: Tensor) -> None:
        """Add to ``leaf.grad``; a gradient that something else may hold is copied first."""
        leaf = node.variable
        if leaf._grad is None:
            shared = gradient._base is not None or id(gradient.array) in self.assigned
            leaf._grad = gradient.clone() if shared else gradient
            self.assigned.add(id(leaf._grad.array))
            if not self.create_graph:
                leaf._grad = leaf._grad.detach()
        elif self.create_graph:
            leaf._grad = leaf._grad + gradient
        else:
            leaf._grad.add_(gradient)
        for hook in (leaf._post_accumulate_hooks or {}).values():
            hook(leaf)


def _reachable(roots: Sequence[Node]) -> list[Node]:
    """Every node on the way to the leaves, each once."""
    seen: dict[Node, None] = dict.fromkeys(roots)
    stack = list(seen)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and edge[0] not in seen:
                seen[edge[0]] = None
                stack.append(edge[0])
    return list(seen)


def _leads_to(order: Sequence[Node], targets: set[Node]) -> set[Node]:
    """The nodes from which a target can be reached, targets included."""
    parents: dict[Node, list[Node]] = {}
    for node in order:
        for edge in node.edges:
            if edge is not None:
                parents.setdefault(edge[0], []).append(node)
    found = {t for t in targets if t in set(order)}
    stack: list[Any] = list(found)
    while stack:
        for parent in parents.get(stack.pop(), ()):
            if parent not in found:
                found.add(parent)
                stack.append(parent)
    return found
