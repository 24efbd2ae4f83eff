"""The node of compiled code in the autograd graph: it checks versions, then runs kernels or, to go on, tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..autograd.node import FREED, Edge, Node
from ..errors import AutogradError
from ..layout import MemoryLayout, layout_of
from ..modes import MODES
from ..tensor import Tensor
from ..tensor_core import Version
from ..types import TensorType
from .backward import (
    AnyProgram,
    BoundBackward,
    InterpretedBackward,
    absent_among,
    on_device,
    run_present,
)
from .collecting import without_collection


@dataclass(frozen=True, eq=False)
class Site:
    """What all backward nodes of one compiled path share.

    ``checked`` are the types of the tensors whose versions are checked.
    """

    function: str
    backward: BoundBackward
    programs: dict[tuple[MemoryLayout | None, ...], AnyProgram]
    types: tuple[TensorType, ...]
    seeds: tuple[int, ...]
    checked: tuple[TensorType, ...]
    report: Callable[[str], None]
    positions: tuple[int | None, ...]  # of what is checked, among the inputs of the graph


class CompiledBackward(Node):
    """The node behind the outputs of a compiled call.

    ``inputs`` are all inputs of the graph (for differentiating again), ``saved`` and ``pack`` what the backward program
    reads, ``versions`` the version counters that must not have moved, with the values they had: first those that eager
    execution checks, then those of inputs that are read again only to differentiate once more.
    """

    only_reads = True

    def __init__(
        self,
        site: Site,
        edges: Sequence[Edge | None],
        inputs: Sequence[Tensor],
        saved: Sequence[Tensor],
        pack: Any,
        versions: Sequence[tuple[Version, int]],
    ) -> None:
        super().__init__(edges, len(site.types))
        self.site = site
        self.inputs: Sequence[Tensor] | None = inputs
        self.saved: Sequence[Tensor] = saved
        self.pack = pack
        self.versions = versions

    def name(self) -> str:
        """The name ``grad_fn`` prints."""
        return f"Compiled_{self.site.function}_Backward"

    def release(self) -> None:
        """Let go of everything kept for backward."""
        self.inputs = self.pack = None
        self.saved = self.versions = ()

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Gradients of the inputs from those of the outputs, by kernels or, to be differentiated again, op by op."""
        if self.inputs is None:
            raise AutogradError(FREED)
        site = self.site
        seeds = [grads[i] for i in site.seeds]
        device = site.backward.plan.device
        if device >= 0:
            seeds = [None if g is None else on_device(g, device) for g in seeds]
        for i, (version, expected) in enumerate(self.versions):
            if version.value != expected and self.needs(i, seeds):
                self.refuse(i, version.value, expected)
        if MODES.grad or MODES.recorder is not None:
            # op by op on tensors, so that it can be differentiated again
            return run_present(site.backward.gradient_graph, self.inputs, seeds, device)
        layouts = tuple([None if g is None else g._layout or layout_of(g) for g in seeds])
        program = site.programs.get(layouts) or self.compile(layouts)
        gradients: Sequence[Tensor | None] = program.run([*self.saved, *seeds], self.pack)
        return gradients

    def needs(self, number: int, seeds: Sequence[Tensor | None]) -> bool:
        """Does the pass read a tensor whose version is checked, for the gradients that were given?"""
        absent = absent_among(seeds)
        position = self.site.positions[number]
        if not absent or position is None:
            return True
        return position in self.site.backward.reads(absent)

    def compile(self, layouts: tuple[MemoryLayout | None, ...]) -> Any:
        """The program for these gradients, or what replaces it when that fails."""
        site = self.site
        try:
            return without_collection(lambda: site.backward.compile(layouts))
        except Exception as error:  # noqa: BLE001  (whatever fails: eager execution still works)
            reason = getattr(error, "summary", None) or str(error)
            site.report(
                f"a backward kernel could not be compiled ({type(error).__name__}: {reason})"
            )
        found = site.programs[layouts] = InterpretedBackward(site.backward)
        return found

    def refuse(self, number: int, found: int, expected: int) -> None:
        """A tensor that this pass reads was changed in place since."""
        checked = self.site.checked
        if number >= len(checked):
            if MODES.grad:
                raise AutogradError(
                    "an input of compiled code was modified by an inplace operation; differentiating its gradient "
                    f"again (create_graph=True) reads it once more (saved by {self.name()}).",
                    "Hint: clone() the tensor before changing it, or use the out-of-place operation.",
                )
            return
        kind = checked[number]
        raise AutogradError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{kind.dtype.tensor_name} {list(kind.shape)}] is at version {found}; expected version "
            f"{expected} instead (saved by {self.name()}).",
            "Hint: clone() the tensor before changing it, or use the out-of-place operation.",
        )


def as_before(tensor: Tensor) -> Tensor:
    """A copy of a tensor that the call is about to write to: the same values, the same place in the autograd graph."""
    copy = Tensor._wrap(tensor.array.copy(order="K"))
    edge = tensor._edge()
    if edge is not None:
        copy._requires_grad = True
        copy._grad_fn, copy._output_nr = edge
    return copy
