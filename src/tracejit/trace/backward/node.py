"""The node of compiled code in the autograd graph: it checks versions, then runs kernels or, to go on, tensors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...autograd.late import End, LateNode
from ...autograd.node import FREED
from ...autograd.op_node import Steps
from ...errors import AutogradError
from ...layout import MemoryLayout, layout_of
from ...modes import MODES
from ...tensor import Tensor
from ...tensor_core import REPLACED, Version
from ..recording.collection import collecting_rarely
from ..recording.kept_alive import give_back
from .backward import InterpretedBackward, absent_among, on_device, run_present, zeros
from .leaf_pass import MOST_PASSES, LeafPass, leaf_pass, run_for_leaves, run_into_leaves
from .refused import run_or_interpret
from .site import Site
from .watched import SplitPass


class CompiledBackward(LateNode):
    """The node behind the outputs of a compiled call.

    ``inputs`` are all inputs of the graph (for differentiating again), ``saved`` and ``pack`` what the backward program
    reads, ``versions`` the version counters that must not have moved, with the values they had: first those that eager
    execution checks, then those of inputs that are read again only to differentiate once more.
    """

    only_reads = True
    partial = True
    joint = True
    gone = 0  # the bits of the parts that were freed
    ends_in_leaves = True
    passed: int | None = None  # those that the last pass came by, where not all
    made_at = 0  # what REPLACED counted then
    before: int = 0  # those that eager execution had let go of when the last pass was refused

    def __init__(
        self,
        site: Site,
        edges: Sequence[End],
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
        self.made_at = REPLACED[0]

    def name(self) -> str:
        """The name ``grad_fn`` prints."""
        return f"Compiled_{self.site.function}_Backward"

    @property
    def keeps(self) -> bool:
        """Is there something that a pass would free?"""
        return self.inputs is not None and bool(self.site.tape.parts)

    @property
    def freed(self) -> bool:
        """Has a pass freed something?"""
        return self.inputs is None or bool(self.gone)

    def check_kept(self, parts: int) -> None:
        """Refuse a pass that comes by parts of which some were freed."""
        if parts and (self.inputs is None or self.gone & parts):
            raise AutogradError(FREED)

    def release(self) -> None:
        """Let go of what the last pass came by."""
        if self.passed is not None:
            self.let_go(self.passed)
        elif self.site.tape.parts:
            self.inputs = self.pack = None
            self.saved = self.versions = ()

    def left_off(self) -> None:
        """A pass that was to free what it came by ended here in an error."""
        self.gone |= self.before
        self.before = 0

    def release_part(self, grads: Sequence[Tensor | None], wanted: Sequence[bool]) -> None:
        """Let go of what a pass with these gradients came by."""
        self.let_go(self.site.visited(grads, wanted))

    def let_go(self, parts: int) -> None:
        """Free parts: the memory once all are free, unless eager execution would have kept nothing."""
        self.gone |= parts
        if self.gone and self.gone == self.site.everything:
            self.inputs = self.pack = None
            self.saved = self.versions = ()

    def apply_part(
        self, grads: list[Tensor | None], wanted: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """Like ``apply``, where only some gradients are ``wanted``."""
        return self.apply(grads, wanted)

    def apply(
        self, grads: list[Tensor | None], wanted: Sequence[bool] | None = None
    ) -> Sequence[Tensor | None]:
        """Gradients of the inputs from those of the outputs, by kernels or, to be differentiated again, op by op."""
        site = self.site
        self.check(grads, wanted)
        seeds = [grads[i] for i in site.seeds]
        device = site.backward.plan.device
        if device >= 0:
            seeds = [None if g is None else on_device(g, device) for g in seeds]
        if self.passed is not None:
            self.passed = None
        if self.inputs is None:
            gradients: Sequence[Tensor | None] = site.backward.rest(seeds, wanted)
        elif MODES.grad or MODES.recorder is not None:
            # op by op on tensors, so that it can be differentiated again
            graph, plan = site.backward.gradient_graph, site.backward.plan
            gradients = run_present(graph, self.inputs, seeds, plan)
        else:
            layouts = tuple([None if g is None else g._layout or layout_of(g) for g in seeds])
            program = site.programs.get(layouts) or self.compile(layouts)
            gradients = run_or_interpret(site, program, [*self.saved, *seeds], self.pack)
            if None not in layouts:
                return gradients if not site.tape.beyond else self.with_rest(gradients)
        self.passed = site.visited(grads, wanted)
        gradients = site.led_to(grads, gradients)
        return gradients if not site.tape.beyond else self.with_rest(gradients)

    def with_rest(self, gradients: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradients, and none for inputs that passes only come by without one."""
        return [*gradients, *[None] * (len(self.ends) - len(gradients))]

    def come_by(self) -> Sequence[Tensor | None]:
        """Nothing; see ``find_way`` for what is given zeros."""
        return [None] * len(self.ends)

    def way(self, outputs: int) -> int:
        """The bits of the edges that a pass comes to from outputs with these bits."""
        return self.site.way(outputs)

    def filled(self, grads: list[Tensor | None], silent: int) -> list[Tensor | None]:
        """The gradients with zeros where a pass comes without one, and a custom function may be given these.

        Else what was kept is looked at, and let go of, as with a gradient.
        """
        site = self.site
        come = [g is None and bool(silent >> i & 1) for i, g in enumerate(grads)]
        if not site.runs_on_nothing:
            marks: list[Any] = [True if one else None for one in come]
            self.check(marks, None)
            self.passed = site.visited(marks, None)
            return grads
        return [zeros(site.types[i]) if one else grads[i] for i, one in enumerate(come)]

    def check(self, grads: Sequence[Tensor | None], wanted: Sequence[bool] | None) -> None:
        """Refuse a pass for which something is gone, or is not any more what it was at the call."""
        site = self.site
        if site.later:
            site.check_state()
        if self.inputs is None or self.gone:
            self.check_kept(site.visited(grads, wanted))
        if REPLACED[0] != self.made_at:
            self.check_memory()
        changed = [i for i, (now, then) in enumerate(self.versions) if now.value != then]
        if changed:
            self.check_changed(changed, grads, wanted)

    def split(self, watched: Sequence[int], grads: Sequence[Tensor | None]) -> SplitPass | None:
        """A pass in pieces, where gradients come to ``watched`` results by way of others."""
        joint = self.site.joint
        if not joint.flows(watched, grads):
            return None
        self.check(grads, None)
        if self.inputs is None:
            return None  # nothing that was freed is needed
        return SplitPass(self, joint.cut(watched), grads)

    def into_leaves(self, output: Tensor, steps: Steps | None = None) -> bool:
        """Run the pass from ``output`` and put the gradients into leaves; False where that takes a walk."""
        short = self.short(steps)
        return short is not None and output._base is None and run_into_leaves(self, short)

    def for_leaves(
        self, output: Tensor, wanted: Sequence[Tensor], keep: bool, steps: Steps | None = None
    ) -> list[Tensor] | None:
        """The gradients of ``wanted``, if these are leaves and the pass from ``output`` needs no walk."""
        short = self.short(steps)
        if short is None or output._base is not None:
            return None
        return run_for_leaves(self, short, wanted, keep)

    def short(self, steps: Steps | None) -> LeafPass | None:
        """The pass from a number, or through ``steps`` from one, as soon as there is one."""
        passes = self.site.passes
        if self.site.tape.ways != self.site.tape.ends:
            return None
        key = () if steps is None else steps.key
        found = passes.get(key)
        if found is None and not self.site.later:
            found = leaf_pass(self.site, steps)
            if found is not None and len(passes) < MOST_PASSES:
                passes[key] = found
        return found

    def check_changed(
        self,
        changed: Sequence[int],
        grads: Sequence[Tensor | None],
        wanted: Sequence[bool] | None,
    ) -> None:
        """Refuse the pass if it comes by a step that kept what was changed since, or reads that."""
        site = self.site
        visited = site.visited(grads, wanted)
        absent = absent_among([grads[i] for i in site.seeds])
        unwanted = [i for i, one in enumerate(wanted or ()) if not one]
        for number in changed:
            if number < len(site.checked) and self.needs(number, absent, unwanted, visited):
                self.before = site.let_go_before(site.checked[number]) & visited
                self.refuse(number)
        if self.reads_again({self.versions[i][0] for i in changed}, absent, unwanted):
            again = (
                ", to differentiate its gradient again (create_graph=True)," if MODES.grad else ""
            )
            raise AutogradError(
                f"a tensor that compiled code computes values from again{again} was modified by an inplace operation "
                f"since the call (saved by {self.name()}).",
                "Hint: clone() the tensor before changing it, or use the out-of-place operation.",
            )

    def needs(
        self, number: int, absent: Collection[int], unwanted: Collection[int], visited: int
    ) -> bool:
        """Does eager execution look at a tensor whose version is checked, for the gradients given and wanted?

        Where a step that kept it is among those visited, whether or not its gradients hang on it.
        """
        keepers = self.site.keepers[number]
        if keepers is not None:
            return bool(keepers & visited)
        position = self.site.positions[number]
        if not (absent or unwanted) or position is None:
            return True
        return position in self.site.backward.reads.kept(absent, unwanted)

    def reads_again(
        self, versions: Collection[Version], absent: Collection[int], unwanted: Collection[int]
    ) -> bool:
        """Does the pass read memory with one of these versions, where eager execution has what it computed from it?"""
        backward = self.site.backward
        op_by_op = MODES.grad or MODES.recorder is not None
        read = backward.reads.again(absent, unwanted, op_by_op)
        if op_by_op:
            return any(self.inputs[i]._writes in versions for i in read) if self.inputs else False
        outside = [i for i, offset in enumerate(backward.offsets) if offset is None]
        there = zip(outside, self.saved, strict=False)
        return any(i in read and tensor._writes in versions for i, tensor in there)

    def compile(self, layouts: tuple[MemoryLayout | None, ...]) -> Any:
        """The program for these gradients, or what replaces it when that fails."""
        site = self.site
        try:
            program = collecting_rarely(lambda: site.backward.compile(layouts))
            give_back()
            return program
        except Exception as error:  # noqa: BLE001  (whatever fails: eager execution still works)
            reason = getattr(error, "summary", None) or str(error)
            site.report(
                f"a backward kernel could not be compiled ({type(error).__name__}: {reason})"
            )
        found = site.programs[layouts] = InterpretedBackward(site.backward)
        return found

    def check_memory(self) -> None:
        """Refuse a pass for which a tensor that it reads has other memory than at the call.

        Eager execution would read the new memory where it saved the tensor, and what it had computed from the old one.
        """
        for tensor in (*(self.inputs or ()), *self.saved):
            if tensor._replaced > self.made_at:
                raise AutogradError(
                    f"a tensor of shape {list(tensor.shape)} that this pass reads was given other memory since the "
                    f"call (by .data, .to() or .double() of a module; saved by {self.name()}).",
                    "Hint: run the backward pass before that, or call the function without compile().",
                )

    def refuse(self, number: int) -> None:
        """Raise what eager execution does when a tensor that it kept was changed in place since."""
        kind = self.site.checked[number].spec
        if number < self.site.part_reads:
            raise AutogradError(
                "a tensor that a checkpointed part reads, or a custom function in its backward, "
                f"[{kind.dtype.tensor_name} {list(kind.shape)}], was modified by an inplace operation since the call: "
                f"eager execution would read it as it is now (saved by {self.name()}).",
                "Hint: clone() the tensor before changing it, or make the backward pass part of the compiled function.",
            )
        version, expected = self.versions[number]
        raise AutogradError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{kind.dtype.tensor_name} {list(kind.shape)}] is at version {version.value}; expected version "
            f"{expected} instead (saved by {self.name()}).",
            "Hint: clone() the tensor before changing it, or use the out-of-place operation.",
        )
