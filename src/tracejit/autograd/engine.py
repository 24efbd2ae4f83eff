"""The backward walk: iterative, in reverse order of recording, freeing what it has used.

Numbers of nodes fall along every path, so running the highest-numbered node that has a gradient is always right:
whatever could still add to its gradient has a higher number and ran before. One pass, no counting; and where the
graph is a chain, no queue either.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError
from ..mirrored import Mirrored
from ..modes import MODES
from ..ops.elementwise import add
from .accumulation import arrive, nothing_arrives
from .hook_calls import replaced, run_posthooks, run_prehooks
from .joint import visit_split, watched_outputs
from .node import AccumulateGrad, Edge, Node
from .reaching import leading_to, leads_on
from .turns import Turns, is_watched

if TYPE_CHECKING:
    from ..tensor import Tensor

Gradients = list["Tensor | None"]


def run(
    roots: Sequence[tuple[Edge, Tensor]],
    *,
    retain_graph: bool,
    create_graph: bool,
    capture: Sequence[Edge] | None = None,
    accumulate: bool = False,
) -> dict[Edge, Tensor]:
    """Walk back from ``roots``; accumulate into leaves, or (with ``capture``) return the gradients at those edges.

    ``accumulate`` with ``capture``: leaves among the captured edges also accumulate, as ``backward(inputs=)`` asks.
    """
    walk = _Walk(roots, capture, retain_graph, create_graph, accumulate)
    grad_mode, MODES.grad = MODES.grad, create_graph
    outer, MODES.walk = MODES.walk, walk
    try:
        if capture is None and len(roots) == 1 and roots[0][0][0].n_outputs == 1:
            walk.follow(roots[0][0][0], [roots[0][1]])
        else:
            walk.start(roots)
        walk.finish()
    finally:
        MODES.grad = grad_mode
        MODES.walk = outer
    return walk.captured


class _Walk:
    """State of one backward pass."""

    def __init__(
        self,
        roots: Sequence[tuple[Edge, Tensor]],
        capture: Sequence[Edge] | None,
        retain_graph: bool,
        create_graph: bool,
        accumulate: bool,
    ) -> None:
        self.tops = [edge[0] for edge, _ in roots]
        self.capture = None if capture is None else set(capture)
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.accumulates = capture is None or accumulate
        self.captured: dict[Edge, Tensor] = {}
        self.buffers: dict[Node, Gradients] = {}
        self.ready: list[tuple[int, Node]] = []
        self.useful: set[Node] | None = None
        self.watched = False  # has a leaf with hooks been reached?
        self.silent: dict[Node, int] | None = None  # bits of outputs come to without a gradient
        self.way = -1  # the bits of edges on the way of the node just run, if it stands for many
        self.turns: Turns | None = None
        self.recorder = MODES.recorder
        self.plain = capture is None and not create_graph and self.recorder is None

    def comes_to(self, nodes: Sequence[Node]) -> list[bool]:
        """Does the pass lead to these nodes?"""
        found = self.useful
        if found is None:
            found = leading_to(self.tops, set(nodes), upwards=False)
        return [node in found for node in nodes]

    def start(self, roots: Sequence[tuple[Edge, Tensor]]) -> None:
        """Queue the roots; with ``capture``, find out which nodes lead to a captured one."""
        if self.capture is not None:
            self.useful = leading_to([e[0] for e, _ in roots], {e[0] for e in self.capture})
        for (node, number), gradient in roots:
            if self.useful is None or node in self.useful:
                self.add(node, number, gradient)

    def add(self, node: Node, number: int, gradient: Tensor) -> None:
        """Add a gradient to what has arrived at an output of ``node``, and queue the node at its first."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.queued(node)
        present = buffer[number]
        buffer[number] = gradient if present is None else add(present, gradient)

    def queued(self, node: Node) -> Gradients:
        """Where the gradients of the outputs of ``node`` arrive, which is to run."""
        buffer: Gradients = [None] * node.n_outputs
        self.buffers[node] = buffer
        heapq.heappush(self.ready, (-node.sequence, node))
        if type(node) is AccumulateGrad and not self.watched:
            self.watched = is_watched(node)
        return buffer

    def come_by(self, node: Node, number: int) -> None:
        """A node further up passed nothing on to an output of ``node``, which has its turn all the same."""
        if node not in self.buffers:
            self.queued(node)
        if self.silent is None:
            self.silent = {}
        self.silent[node] = self.silent.get(node, 0) | 1 << number

    def finish(self) -> None:
        """Run every node that has gradients, the last recorded first."""
        ready, buffers = self.ready, self.buffers
        while ready:
            node = heapq.heappop(ready)[1]
            if self.turns is None or node in buffers:  # else its turn came before
                self.follow(node, buffers.pop(node))

    def follow(self, node: Node, grads: Gradients) -> None:
        """Run a node, and the chain of nodes after it as long as nothing else waits."""
        ready = self.ready
        while True:
            try:
                results = self.visit(node, grads)
            except Exception:
                del grads
                self.settle(node)
                raise
            if ready or len(node.edges) != 1 or results[0] is None:
                break
            edge = node.edges[0]
            assert edge is not None
            if edge[0].n_outputs != 1 or (self.useful is not None and edge[0] not in self.useful):
                break
            if self.plain and type(edge[0]) is AccumulateGrad:
                break
            node, grads, results = edge[0], [results[0]], ()
        del grads
        if ready or not self.plain or not self.deliver(node, results):
            self.pass_on(node, results)

    def settle(self, failed: Node) -> None:
        """Store the gradients that no node still to run would have added to, before the error of ``failed`` goes up.

        A leaf's turn depends on its number, so on whether an older graph keeps its node; what an error leaves must not.
        """
        if not self.retain_graph:
            failed.left_off()
        waiting = [n for _, n in self.ready if type(n) is AccumulateGrad and n in self.buffers]
        if not waiting:
            return
        others = [failed, *(n for _, n in self.ready if type(n) is not AccumulateGrad)]
        reached = leading_to(others, set(waiting))
        self.ready.clear()
        for leaf in waiting:
            if leaf not in reached:
                self.visit(leaf, self.buffers.pop(leaf))

    def deliver(self, node: Node, results: Sequence[Tensor | None]) -> bool:
        """Put the last gradients straight into ``.grad``, where all edges lead to leaves and nobody watches."""
        if type(results) is not list:
            return False
        leaves: list[Any] = []
        for edge in node.edges:
            if edge is None:
                leaves.append(None)
                continue
            if type(edge[0]) is not AccumulateGrad or edge[0].hooked:
                return False
            leaf = edge[0].variable
            if leaf._hooks or leaf._post_accumulate_hooks:
                return False
            for other in leaves:
                if other is leaf:
                    return False
            leaves.append(leaf)
        for i, leaf in enumerate(leaves):
            gradient, results[i] = results[i], None  # sole holders may hand a gradient on
            if gradient is None or leaf is None:
                continue
            if (
                leaf._grad is None
                and leaf._requires_grad
                and leaf._grad_fn is None
                and gradient._array is None
                and gradient._layout is leaf._layout
                and type(gradient._block) is not Mirrored
                and not gradient._requires_grad
                and getrefcount(gradient) <= 2
                and getrefcount(gradient._block) <= 2
                and not gradient._inference
            ):
                leaf._grad = gradient
            else:
                arrive(leaf, gradient, self.create_graph)
        return True

    def pass_on(self, node: Node, results: Sequence[Tensor | None]) -> None:
        """Hand the gradients of a node's inputs to the nodes that made them."""
        useful = self.useful
        for number, (edge, gradient) in enumerate(zip(node.edges, results, strict=False)):
            if edge is None or (useful is not None and edge[0] not in useful):
                continue
            if gradient is not None:
                self.add(edge[0], edge[1], gradient)
            elif not node.partial or self.way >> number & 1:
                self.come_by(edge[0], edge[1])
        if self.watched:
            self.take_turns(node)

    def take_turns(self, node: Node) -> None:
        """Leaves are watched, and ``node`` ran: those that nothing more comes to are next."""
        if self.turns is None:
            self.turns = Turns((n for _, n in self.ready), self.useful)
        else:
            self.turns.ran(node)
        for leaf in self.turns.due(self.buffers):
            self.visit(leaf, self.buffers.pop(leaf))

    def visit(self, node: Node, grads: Gradients) -> Sequence[Tensor | None]:
        """Run one node; the gradients of its inputs."""
        if self.recorder is not None:
            self.recorder.backward_node(node, self.adds_to(node))
        if type(node) is AccumulateGrad:
            self.end(node, grads)
            return ()
        if node.partial:
            grads = self.find_way(node, grads)
        acting = node
        if node.hooked or self.capture is not None:
            acting = self.look(node, grads)
        useful = self.useful
        if useful is not None and not self.accumulates and not leads_on(node, useful):
            # What was asked for is here, and nothing further down.
            return [None] * len(node.edges)
        if node.prehooks:
            grads = run_prehooks(node, grads)
        if useful is not None and node.partial:
            return self.visit_part(node, acting, grads, useful)
        if self.silent is not None and all(g is None for g in grads):
            results = node.come_by()
        else:
            results = _applied(node, acting, grads)
        if len(results) != len(node.edges):
            raise AutogradError(
                f"{node.name()} returned an incorrect number of gradients "
                f"(expected {len(node.edges)}, got {len(results)})"
            )
        if node.hooks:
            results = run_posthooks(node, results, grads)
        if not self.retain_graph:
            node.release()
        return results

    def find_way(self, node: Node, grads: Gradients) -> Gradients:
        """The gradients for a node that stands for many; where the pass goes on from there without any."""
        silent = 0 if self.silent is None else self.silent.get(node, 0)
        bits = silent
        for number, gradient in enumerate(grads):
            if gradient is not None:
                bits |= 1 << number
        self.way = node.way(bits)
        return node.filled(grads, silent) if silent else grads

    def visit_part(
        self, node: Node, acting: Any, grads: Gradients, useful: set[Node]
    ) -> Sequence[Tensor | None]:
        """Run a node that stands for many: only what is asked for counts."""
        wanted = [e is not None and e[0] in useful for e in node.edges]
        if all(g is None for g in grads):
            return node.come_by()
        results = _applied(node, acting, grads, wanted)
        if node.hooks:
            results = run_posthooks(node, results, grads)
        if not self.retain_graph:
            node.release_part(grads, wanted)
        return results

    def look(self, node: Node, grads: Gradients) -> Any:
        """Show the gradients of a node's outputs to whoever watches; what passes them on: the node, or its pieces."""
        split = None
        if node.joint:
            split = node.split(watched_outputs(node, self.capture), grads)
        if split is not None:
            visit_split(self, node, grads, split)
        elif node.hooked:
            self.run_tensor_hooks(node, grads)
        if self.capture is not None:
            self.take(node, grads)
        return node if split is None else split

    def run_tensor_hooks(
        self, node: Node, grads: Gradients, only: Container[int] | None = None
    ) -> None:
        """Hooks see, and may replace, the gradients of a node's outputs; ``retain_grad`` sees what they leave."""
        for number, hooks in (node.tensor_hooks or {}).items():
            if only is not None and number not in only:
                continue
            if grads[number] is None and not self.comes_to_output(node, number):
                continue
            for hook in tuple(hooks.values()):
                present = grads[number]
                grads[number] = replaced(present, hook(present), hook)
        for number, reference in (node.retained or {}).items():
            tensor, present = reference(), grads[number]
            if only is not None and number not in only:
                continue
            if tensor is not None and present is not None:
                if present._requires_grad and not self.create_graph:
                    present = present.detach()
                before = tensor._grad
                tensor._grad = present if before is None else add(before, present)

    def comes_to_output(self, node: Node, number: int) -> bool:
        """Does a pass that comes to a node come to this output of it, too?"""
        if not node.partial:
            return True
        return self.silent is not None and bool(self.silent.get(node, 0) >> number & 1)

    def take(self, node: Node, grads: Gradients) -> None:
        """Remember the gradients asked for by ``capture``."""
        assert self.capture is not None
        for number, gradient in enumerate(grads):
            if gradient is not None and (node, number) in self.capture:
                self.captured[(node, number)] = gradient

    def adds_to(self, leaf: Node) -> bool:
        """Does what arrives at this leaf go into its ``.grad``?"""
        return self.accumulates and (self.capture is None or (leaf, 0) in self.capture)

    def end(self, node: AccumulateGrad, grads: Gradients) -> None:
        """At a leaf: hooks, then capture or accumulate."""
        leaf = node.variable
        for hook in tuple((leaf._hooks or {}).values()):
            present = grads[0]
            grads[0] = replaced(present, hook(present), hook)
        if self.capture is not None:
            self.take(node, grads)
        if self.adds_to(node):
            if node.prehooks:
                grads = run_prehooks(node, grads)
            if node.hooks:
                self.end_watched(node, grads)
                return
            gradient = grads.pop()
            if gradient is None:
                nothing_arrives(leaf)
            else:
                arrive(leaf, gradient, self.create_graph)

    def end_watched(self, node: AccumulateGrad, grads: Gradients) -> None:
        """Accumulate at a leaf whose node has hooks: they see the gradient that came, or the ``.grad`` it became."""
        leaf = node.variable
        gradient = grads.pop()
        shown = None if leaf._grad is None else gradient
        if gradient is None:
            nothing_arrives(leaf)
        else:
            arrive(leaf, gradient, self.create_graph)
        for hook in tuple((node.hooks or {}).values()):
            hook((), (leaf._grad if shown is None else shown,))


def _applied(
    node: Node, acting: Any, grads: Gradients, wanted: Sequence[bool] | None = None
) -> Sequence[Tensor | None]:
    """The gradients of a node's inputs; ``acting`` is the node, or what stands for it in this pass."""
    if MODES.anomaly is not None and acting is node:
        found: Sequence[Tensor | None] = MODES.anomaly.apply(node, grads)
    elif wanted is not None:
        found = acting.apply_part(grads, wanted)
    else:
        found = acting.apply(grads)
    return found
