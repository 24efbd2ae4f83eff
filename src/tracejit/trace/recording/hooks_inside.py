"""Where the tape of a recorded run is more than its graph: hooks on nodes, modules and saved tensors, gradients kept.

Backward passes of the run itself go along the tape, and what Python does there is recorded as it happens. Compiled
backward passes come from the graph, so outputs must not lead to such places. Nor may gradients that the run left in
tensors be seen, because replays return tensors without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...autograd.node import AccumulateGrad, Node
from ...autograd.saved import SavedTensor
from ...ir.graph import Value
from ...tensor import Tensor
from ...tensor_core import Version
from ..state.checks import Check
from ..state.gradients import HasGradient

if TYPE_CHECKING:
    from .recording import OutputRecipe

#: Why the graph of a run has other gradients than its tape.
UNSEEN = "an in-place change, under no_grad, of a tensor that requires grad"


class HooksInside:
    """The part of a recorder that knows where the tape cannot be had from the graph."""

    trial: Any
    first_node: int
    roots: dict[int, Value]
    external: dict[int, tuple[Tensor, Value]]
    positions: dict[int, int]
    checks: list[Check]
    inside: Callable[[Tensor], bool]
    stop_trial: Callable[[str], None]
    unsupported: Callable[[str], None]
    not_in_rounds: Callable[[], None]
    nodes_behind: Callable[[Iterable[Tensor]], Iterator[Node]]
    check_kept: Callable[[Sequence[Tensor]], None]

    def __init__(self) -> None:
        self.hidden: str | None = None  # why the graph cannot be differentiated as the tape would
        self.hidden_leaves: dict[int, str] = {}  # why not with respect to leaves from outside
        self.unseen_writes: list[Version] = []  # of tensors the run made, by what they share
        self.retaining: list[Tensor] = []
        self.unfollowed: list[Tensor] = []  # made by the run, and not known how
        self.packs: list[tuple[SavedTensor, Tensor, Callable[[Tensor], Any]]] = []

    def opaque(self, reason: str, of: Tensor | None = None) -> None:
        """From here on the tape is more than the recorded graph: outputs must not need a gradient of it.

        Where all that differs is how the tape leads to a leaf from outside, outputs must not lead to that leaf.
        """
        if self.trial is not None:
            self.trial.untold = True
        elif of is not None and of.is_leaf and id(of) in self.external:
            self.hidden_leaves.setdefault(id(of), reason)
        elif self.hidden is None:
            self.hidden = reason

    def hooked(self, what: str, node: Node | None = None) -> None:
        """Python is put on the tape (at ``node``): backward passes of the run itself run it, and others must not."""
        self.stop_trial(f"does what cannot be recorded: {what}")
        self.not_in_rounds()
        if node is None or (node.sequence >= self.first_node and type(node) is not AccumulateGrad):
            self.opaque(what)
        else:
            self.unsupported(what)

    def packs_later(
        self, saved: SavedTensor, tensor: Tensor, hook: Callable[[Tensor], Any]
    ) -> bool:
        """Must a hook that packs a result for the tape wait until the operation that made it is written down?"""
        waits = saved.is_output and not self.inside(tensor)
        if waits:
            self.packs.append((saved, tensor, hook))
        return waits

    def gradient_retained(self, tensor: Tensor) -> None:
        """Backward passes are to leave the gradient of ``tensor`` in it: those of the run do, which is all
        that can be seen unless it is returned."""
        self.stop_trial("touches the .grad of a tensor")
        if self.inside(tensor):
            self.retaining.append(tensor)
        else:
            self.unsupported("retain_grad() of a tensor from outside inside a compiled function")

    def gradient_dropped(self, tensor: Tensor) -> bool:
        """Is the gradient that is copied with ``tensor`` one that cannot be an input?

        Copies of modules have copies of gradients, which are mostly dropped: only that there is one counts then.
        """
        found = tensor._grad
        if found is None or found._base is None or id(tensor) in self.positions:
            return False
        if self.inside(tensor) or self.inside(found):
            return False
        self.checks.append(HasGradient(tensor, "the gradient of a tensor that is copied"))
        return True

    def pack(self) -> None:
        """Run the hooks that waited."""
        packs, self.packs = self.packs, []
        for saved, tensor, hook in packs:
            saved.pack(tensor, hook)

    def check_histories(self, outputs: Sequence[Tensor], recipes: Sequence[OutputRecipe]) -> None:
        """Refuse outputs with a history that differentiating the graph does not give, or with a gradient."""
        if any(t._grad is not None and self.inside(t) for t in outputs):
            self.unsupported("it returns a tensor together with its gradient")
        if any(id(x) in self.roots for x in self.unfollowed):
            self.unsupported("it reads a copy of a gradient that is a view")
        if any(x is t for x in self.retaining for t in outputs):
            self.unsupported("it returns a tensor that retains its gradient")
        if self.unseen_writes:
            self.opaque(UNSEEN)
        self.check_kept([t for t, r in zip(outputs, recipes, strict=True) if r.kind == "computed"])
        if self.hidden is None and not self.hidden_leaves:
            return
        for output, recipe in zip(outputs, recipes, strict=True):
            behind = recipe.spent is None and recipe.leaf is None and output._flows
            if recipe.kind == "computed" and behind:
                reason = self.hidden or self._hidden_behind(output)
                if reason is not None:
                    self.unsupported(reason)

    def _hidden_behind(self, output: Tensor) -> str | None:
        """Why the history of an output leads to a leaf with respect to which the graph has another gradient."""
        leaves = (n.variable for n in self.nodes_behind([output]) if isinstance(n, AccumulateGrad))
        return next((r for x in leaves if (r := self.hidden_leaves.get(id(x)))), None)
