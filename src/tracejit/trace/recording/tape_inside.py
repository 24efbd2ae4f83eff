"""What the tape of a recorded run keeps, at which versions, and between which results and inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...autograd.node import AccumulateGrad, Edge, Node
from ...autograd.saved import SavedTensor
from ...ir.graph import Value
from ...ops import elementwise
from ...tensor import Tensor
from ...tensor_core import Version
from ..backward.freeing import History, history_of, kept_by

if TYPE_CHECKING:
    from .inputs import Signature
    from .recording import OutputRecipe, Step


#: Why a result cannot be told apart from one without a history.
NEW_LEAF = "it returns a new leaf that requires grad, or what hangs on that alone"


class TapeInside:
    """The part of a recorder that reads the tape once the run is over."""

    signature: Signature
    external: dict[int, tuple[Tensor, Value]]
    written: dict[int, Tensor]
    write_counts: dict[int, int]
    written_apart: set[int]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]
    unsupported: Callable[[str], None]
    reads_of_parts: Callable[..., dict[Value, int]]
    overwritten: bool
    writes_since_moved: Callable[[int], int | None]
    freeing: bool
    first_node: int
    slots: dict[int, Any]
    calls: list[Any]
    counted: dict[int, Any]
    new_leaves: dict[int, Tensor]

    def nodes_behind(self, outputs: Iterable[Tensor]) -> Iterator[Node]:
        """The leaves and the nodes made by the run that the histories of ``outputs`` lead to."""
        stack = [t.grad_fn for t in outputs if t._flows]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if isinstance(node, AccumulateGrad):
                yield node
            elif node.sequence >= self.first_node:
                yield node
                stack.extend(edge[0] for edge in node.edges if edge is not None)

    def kept_writes(
        self, outputs: Sequence[Tensor], recipes: Sequence[OutputRecipe]
    ) -> tuple[tuple[Value, int], ...]:
        """What the tape keeps as the run left it: no later write may come before the backward pass.

        Those are inputs, and what checkpointed parts read. What the tape keeps and the run overwrote after that makes
        every eager backward pass fail, so it is not recorded.
        """
        found = self.reads_of_parts(outputs, recipes)
        if not (self.overwritten or self.freeing or self.slots or self.calls or self.counted):
            return tuple(found.items())  # nothing was written
        written = self.written_by_version()
        for node in self.nodes_behind(outputs):
            for entry in kept_by(node):
                now = entry.tensor._writes.value
                if now == 0 and not self.written_apart:
                    continue
                target, count = self.shown_outside(entry.tensor, written)
                moved = self.writes_since_moved(id(target))
                rewritten = count or id(target) in self.written_apart or moved is not None
                if target is not None and entry.version == now and rewritten:
                    found[self.external[id(target)][1]] = moved or count
                elif entry.version != now and (not count or entry.version > now - count):
                    self.unsupported("a value that a backward pass needs is overwritten")
        return tuple(found.items())

    def written_by_version(self) -> dict[Version, Tensor]:
        """The tensors from outside that the run wrote to, by what counts their writes."""
        return {t._writes: t for t in self.written.values()}

    def shown_outside(
        self, kept: Tensor, written: Mapping[Version, Tensor]
    ) -> tuple[Tensor | None, int]:
        """The tensor from outside that a kept one shows, and how often the run wrote to it."""
        target: Tensor | None = self.origin(kept)[0]
        if id(target) not in self.external:
            target = written.get(kept._writes)
        return target, max(
            self.write_counts.get(id(target), 0), 0
        )  # no version counts other memory

    def tape(self, outputs: Sequence[Tensor], recipes: Sequence[OutputRecipe]) -> History:
        """Which inputs the outputs depend on, and where in between the run kept values for backward."""
        computed = [r.kind == "computed" for r in recipes]
        wanted = [r.requires_grad and c for r, c in zip(recipes, computed, strict=True)]
        counts: set[Version] = set()
        for output, recipe in zip(outputs, recipes, strict=True):
            if recipe.apart is not None and output._writes in counts:
                self.unsupported("two results show one tensor through .data")
            counts.add(output._writes)
            known = (
                recipe.requires_grad if recipe.kind == "computed" else self._shows_history(output)
            )
            if output._flows and recipe.spent is None and not known and recipe.leaf is None:
                self.unsupported(NEW_LEAF)
        if self._hangs_on_a_leaf(outputs, recipes):
            self.unsupported(NEW_LEAF)
        if not any(wanted):
            return History()
        origins = [self.origin(t)[0] if c else None for t, c in zip(outputs, computed, strict=True)]
        roots = [
            t._edge() if t is not None and w and t.grad_fn is not None else None
            for t, w in zip(origins, wanted, strict=True)
        ]
        positions = {source.value: i for i, source in enumerate(self.signature.sources)}
        ends: dict[Edge, int] = {}
        for tensor, value in self.external.values():
            edge = tensor._edge()
            if edge is not None:
                ends[edge] = ends.get(edge, 0) | 1 << positions[value]
        name = partial(self.name_kept, self.written_by_version())
        found = history_of(roots, ends, self.first_node, name)
        for tensor, bits, one in zip(outputs, found.ends, wanted, strict=True):
            # All a compiled result can lead to are inputs; to a leaf that is gone nobody can ask for the way.
            if one and (not bits or tensor.grad_fn is None):
                self.unsupported(NEW_LEAF)
        return found.placed(
            *((positions[v], (n, t._writes), (n, "new")) for n, (t, v) in self.external.items()),
            *((~i, (t._writes,), None) for i, t in enumerate(origins) if t is not None),
        )

    def _hangs_on_a_leaf(self, outputs: Sequence[Tensor], recipes: Sequence[OutputRecipe]) -> bool:
        """Does the history of an output lead to a leaf that the run made, and that is an output, too?"""
        leaves = {id(x) for x, r in zip(outputs, recipes, strict=True) if r.leaf is not None}
        others = [x for x in outputs if id(x) not in leaves] if leaves else []
        ends = (n.variable for n in self.nodes_behind(others) if isinstance(n, AccumulateGrad))
        return any(id(end) in leaves for end in ends)

    def _shows_history(self, output: Tensor) -> bool:
        """Is the history of a view of a tensor from outside that of the tensor?"""
        source, steps = self.origin(output)
        cut = any(op is elementwise.detach_copy for op, _ in steps)
        return source is output or (source._flows is True and not cut)

    def name_kept(self, written: Mapping[Version, Tensor], entry: SavedTensor) -> Any:
        """What history calls a tensor that a step kept: by the one from outside that it shows, or by its memory."""
        kept = entry.tensor
        target, count = self.shown_outside(kept, written)
        rewritten = count or id(target) in self.written_apart  # no version tells of the latter
        if target is not None and rewritten and entry.version == kept._writes.value:
            return id(target), "new"
        return id(target) if id(target) in self.external else kept._writes
