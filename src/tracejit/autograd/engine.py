"""The backward walk: iterative, in reverse order of recording, freeing what it has used.

Numbers of nodes fall along every path, so running the highest-numbered node that has a gradient is always right:
whatever could still add to its gradient has a higher number and ran before. One pass, no counting; and where the
graph is a chain, no queue either.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cuda.arrays import MODULES, device_index, is_writeable, module_of
from ..errors import AutogradError
from ..modes import MODES
from ..ops.elementwise import add, clone
from .node import AccumulateGrad, Edge, Node
from .slots import gradient_of

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
    walk = _Walk(capture, retain_graph, create_graph, accumulate)
    grad_mode, MODES.grad = MODES.grad, create_graph
    try:
        if capture is None and len(roots) == 1 and roots[0][0][0].n_outputs == 1:
            walk.follow(roots[0][0][0], [roots[0][1]])
        else:
            walk.start(roots)
        walk.finish()
    finally:
        MODES.grad = grad_mode
    return walk.captured


class _Walk:
    """State of one backward pass."""

    def __init__(
        self,
        capture: Sequence[Edge] | None,
        retain_graph: bool,
        create_graph: bool,
        accumulate: bool,
    ) -> None:
        self.capture = None if capture is None else set(capture)
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.accumulates = capture is None or accumulate
        self.captured: dict[Edge, Tensor] = {}
        self.buffers: dict[Node, Gradients] = {}
        self.ready: list[tuple[int, Node]] = []
        self.useful: set[Node] | None = None
        self.recorder = MODES.recorder
        self.plain = capture is None and not create_graph and self.recorder is None

    def start(self, roots: Sequence[tuple[Edge, Tensor]]) -> None:
        """Queue the roots; with ``capture``, find out which nodes lead to a captured one."""
        if self.capture is not None:
            self.useful = _leading_to([e[0] for e, _ in roots], {e[0] for e in self.capture})
        for (node, number), gradient in roots:
            if self.useful is None or node in self.useful:
                self.add(node, number, gradient)

    def add(self, node: Node, number: int, gradient: Tensor) -> None:
        """Add a gradient to what has arrived at an output of ``node``, and queue the node at its first."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * node.n_outputs
            heapq.heappush(self.ready, (-node.sequence, node))
        present = buffer[number]
        buffer[number] = gradient if present is None else add(present, gradient)

    def finish(self) -> None:
        """Run every node that has gradients, the last recorded first."""
        ready, buffers = self.ready, self.buffers
        while ready:
            node = heapq.heappop(ready)[1]
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
        waiting = [node for _, node in self.ready if type(node) is AccumulateGrad]
        if not waiting:
            return
        others = [failed, *(n for _, n in self.ready if type(n) is not AccumulateGrad)]
        reached = _leading_to(others, set(waiting))
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
                and gradient._array is None
                and gradient._layout is leaf._layout
                and not gradient._requires_grad
                and getrefcount(gradient) <= 2
                and getrefcount(gradient._block) <= 2
                and not gradient._inference
            ):
                leaf._grad = gradient
            else:
                self.accumulate(leaf, gradient)
        return True

    def pass_on(self, node: Node, results: Sequence[Tensor | None]) -> None:
        """Hand the gradients of a node's inputs to the nodes that made them."""
        useful = self.useful
        for edge, gradient in zip(node.edges, results, strict=False):
            if edge is None or gradient is None or (useful is not None and edge[0] not in useful):
                continue
            self.add(edge[0], edge[1], gradient)

    def visit(self, node: Node, grads: Gradients) -> Sequence[Tensor | None]:
        """Run one node; the gradients of its inputs."""
        if self.recorder is not None:
            self.recorder.backward_node(node)
        if node.hooked:
            grads = self.run_prehooks(node, grads)
        if type(node) is AccumulateGrad:
            self.end(node, grads)
            return ()
        if self.capture is not None:
            self.take(node, grads)
        if self.useful is not None and node.partial:
            return self.visit_part(node, grads, self.useful)
        anomaly = MODES.anomaly
        results = node.apply(grads) if anomaly is None else anomaly.apply(node, grads)
        if len(results) != len(node.edges):
            raise AutogradError(
                f"{node.name()} returned an incorrect number of gradients "
                f"(expected {len(node.edges)}, got {len(results)})"
            )
        if node.hooks:
            results = _run_posthooks(node, results, grads)
        if not self.retain_graph:
            node.release()
        return results

    def visit_part(
        self, node: Node, grads: Gradients, useful: set[Node]
    ) -> Sequence[Tensor | None]:
        """Run a node that stands for many: only what is asked for counts."""
        wanted = [e is not None and e[0] in useful for e in node.edges]
        anomaly = MODES.anomaly
        results = node.apply_part(grads, wanted) if anomaly is None else anomaly.apply(node, grads)
        if node.hooks:
            results = _run_posthooks(node, results, grads)
        if not self.retain_graph:
            node.release_part(grads, wanted)
        return results

    def run_prehooks(self, node: Node, grads: Gradients) -> Gradients:
        """Hooks see, and may replace, the gradients of a node's outputs; ``retain_grad`` sees the final ones."""
        for number, hooks in (node.tensor_hooks or {}).items():
            for hook in tuple(hooks.values()):
                present = grads[number]
                if present is not None:
                    grads[number] = _replaced(present, hook(present), hook)
        for hook in tuple((node.prehooks or {}).values()):
            changed = hook(tuple(grads))
            if changed is not None:
                grads = [changed] if hasattr(changed, "_edge") else list(changed)
        for number, reference in (node.retained or {}).items():
            tensor, present = reference(), grads[number]
            if tensor is not None and present is not None:
                tensor._grad = (
                    present if self.create_graph or not present._requires_grad else present.detach()
                )
        return grads

    def take(self, node: Node, grads: Gradients) -> None:
        """Remember the gradients asked for by ``capture``."""
        assert self.capture is not None
        for number, gradient in enumerate(grads):
            if gradient is not None and (node, number) in self.capture:
                self.captured[(node, number)] = gradient

    def end(self, node: AccumulateGrad, grads: Gradients) -> None:
        """At a leaf: hooks, then capture or accumulate."""
        leaf = node.variable
        for hook in tuple((leaf._hooks or {}).values()):
            present = grads[0]
            if present is not None:
                grads[0] = _replaced(present, hook(present), hook)
        if grads[0] is None:
            return
        if self.capture is not None:
            self.take(node, grads)
        if self.accumulates and (self.capture is None or (node, 0) in self.capture):
            gradient = grads.pop()
            assert gradient is not None
            self.accumulate(leaf, gradient)
        if node.hooks:
            for hook in tuple(node.hooks.values()):
                hook((), (leaf._grad,))

    def accumulate(self, leaf: Tensor, gradient: Tensor) -> None:
        """Add to ``leaf.grad``: in place, so that whoever holds it sees it, unless the sum is to have a history."""
        present = gradient_of(leaf)
        if MODULES and leaf.get_device() != gradient.get_device():
            gradient = gradient.to(leaf.device)
        if gradient._type is not leaf._type and gradient.spec.shape != leaf.spec.shape:
            raise AutogradError(
                f"the gradient of a leaf of type {leaf.spec} has type {gradient.spec}: "
                "shapes must agree"
            )
        if present is not None:
            if self.create_graph:
                leaf._grad = add(present, gradient)
            elif not _add_into(present, gradient):
                present._assign(add(present, gradient))
        elif self.create_graph:
            leaf._grad = (
                gradient if gradient._requires_grad or _is_sole(gradient) else clone(gradient)
            )
        else:
            kept = gradient if _is_sole(gradient) else _copied(gradient)
            leaf._grad = kept.detach() if kept._requires_grad else kept
        for hook in tuple((leaf._post_accumulate_hooks or {}).values()):
            hook(leaf)


def accumulate(leaf: Tensor, gradient: Tensor) -> None:
    """Add to ``leaf.grad`` what a pass that records nothing found.

    >>> x = tj.ones(2, requires_grad=True)
    >>> accumulate(x, tj.ones(2)), accumulate(x, tj.ones(2)), x.grad
    (None, None, tensor([2., 2.]))
    """
    grad_mode, MODES.grad = MODES.grad, False
    try:
        _Walk(None, False, False, False).accumulate(leaf, gradient)
    finally:
        MODES.grad = grad_mode


def _add_into(present: Tensor, gradient: Tensor) -> bool:
    """``present += gradient`` without an intermediate, where nobody has to be told op by op."""
    target = present.array
    if MODES.recorder is not None or not is_writeable(target) or present._inference:
        return False
    if gradient.spec.dtype is not present.spec.dtype:
        return False
    if not MODULES:
        np.add(target, gradient.array, out=target)
    elif device_index(target) == device_index(gradient.array):
        module_of(target).add(target, gradient.array, out=target)
    else:
        return False
    present._writes.value += 1
    return True


def _copied(gradient: Tensor) -> Tensor:
    """``clone(gradient)``; where nobody has to be told of it, just the values."""
    if MODULES or MODES.recorder is not None or MODES.inference:
        copy: Tensor = clone(gradient)
        return copy
    return gradient._wrap(gradient.array.copy())


def _is_sole(gradient: Tensor) -> bool:
    """Nobody but the walk holds this tensor and its memory: a leaf may keep it as it is.

    The references expected are the walk's two variables, this one's and the call's argument; for memory, the
    tensor's own, this function's and the call's argument.
    """
    if gradient._base is not None or gradient._inference or getrefcount(gradient) > 4:
        return False
    array = gradient._array
    if array is None:
        return getrefcount(gradient._block) <= 2
    if getrefcount(array) > 3:
        return False
    flags = array.flags
    owned = flags.owndata or gradient._block is not None
    return bool(flags.c_contiguous and is_writeable(array) and owned)


def _replaced(present: Tensor, changed: Any, hook: Any) -> Tensor:
    """What a tensor hook makes of a gradient, checked."""
    if changed is None:
        return present
    name = getattr(hook, "__name__", type(hook).__name__)
    if not hasattr(changed, "_edge"):
        raise AutogradError(
            f"hook '{name}' has returned a {type(changed).__name__} instead of a Tensor"
        )
    if changed.spec.shape != present.spec.shape:
        raise AutogradError(f"hook '{name}' has changed the size of value")
    if changed.dtype is not present.dtype:
        raise AutogradError(f"hook '{name}' has changed the type of value")
    result: Tensor = changed
    return result


def _run_posthooks(
    node: Node, results: Sequence[Tensor | None], grads: Gradients
) -> Sequence[Tensor | None]:
    for hook in tuple((node.hooks or {}).values()):
        changed = hook(tuple(results), tuple(grads))
        if changed is not None:
            results = (changed,) if hasattr(changed, "_edge") else tuple(changed)
    return results


def _leading_to(roots: Sequence[Node], targets: set[Node]) -> set[Node]:
    """The nodes from which a target can be reached, targets included: found from the leaves upwards."""
    lowest = min((t.sequence for t in targets), default=0)
    seen: set[Node] = set(roots)
    stack = list(seen)
    parents: dict[Node, list[Node]] = {}
    while stack:
        node = stack.pop()
        for edge in node.edges:
            if edge is None or edge[0].sequence < lowest:
                continue
            parents.setdefault(edge[0], []).append(node)
            if edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    found = targets & seen
    stack = list(found)
    while stack:
        for parent in parents.get(stack.pop(), ()):
            if parent not in found:
                found.add(parent)
                stack.append(parent)
    return found
