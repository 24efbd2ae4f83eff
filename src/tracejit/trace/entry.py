"""One signature of a compiled function: its trace tree, captured tensors, state guard, and how to replay a call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import config
from ..ir.builder import Builder
from ..ir.graph import Graph, Value
from ..layout import layout_of
from ..modes import MODES
from ..runtime.program import KernelFailure, Program
from ..tensor import Tensor
from .backward import CompiledBackward, Site, make_backward
from .recorder import Recorder, Recording, Signature, recording
from .replay import make_holds, make_replay, simple
from .segments import Runner, compile_tree
from .signature import Static, flatten, statics_of, unflatten
from .state import StateGuard, watch
from .tree import Divergence, Leaf, Segment, computed_outputs, graft, outcome_key, wanted_gradients

if TYPE_CHECKING:
    from ..jit import CompiledFunction

log = logging.getLogger("tracejit")


class NotReplayable(Exception):
    """This call has to run in Python; the message says why."""


class Entry:
    """Everything known about one signature."""

    def __init__(self, owner: CompiledFunction, key: Any, names: list[str], tensors: list[Tensor]) -> None:
        self.owner = owner
        self.key = key
        self.names = names
        self.signature = Signature(Builder(owner.name))
        self.root = Segment()
        self.guard: StateGuard | None = None
        self.failure: str | None = None
        self.compiled = False
        self.structures: dict[Leaf, Any] = {}
        self.captured: list[tuple[Tensor, Any, bool]] = []
        self.replays = 0
        self.types = [str(t.type) for t in tensors]
        self.strides: dict[Value, Any] = {}
        self.history: list[str] = []
        self.source = ""
        self._serve: Callable[[list[Tensor]], Any] = self._walk

    # --- can it serve a call? -----------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """False when nothing could be recorded and nothing is worth remembering."""
        return self.guard is not None

    @property
    def open(self) -> bool:
        """May another path be recorded?"""
        return self.failure is None and len(self.root.leaves()) < config.max_paths

    def holds(self) -> bool:
        """Is the Python state the one this entry was recorded under, are captured tensors as they were?"""
        return False  # replaced by a generated function once something was recorded

    # --- recording -----------------------------------------------------------------------------------------------

    def record(self, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """Run the function eagerly and add what it did to the tree."""
        function = self.owner.function
        structure: Any = []
        statics = statics_of(flatten((args, kwargs), structure))
        guard = watch(function, statics)
        recorder = Recorder(self.signature, list(zip(self.names, tensors, strict=True)))
        with recording(recorder):
            result = function(*args, **kwargs)
        leaves: list[Any] = []
        outcome = flatten(result, leaves)
        changed = guard.difference()
        if changed is not None:
            recorder.unsupported(f"it changes Python state: {changed}")
            guard = watch(function, statics)
        self.guard = guard
        if recorder.failure is None:
            self._add(recorder, leaves, outcome, tensors)
        if recorder.failure is not None:
            self.failure = recorder.failure
        self._note_captured()
        return result

    def _add(self, recorder: Recorder, leaves: list[Tensor], outcome: Any, tensors: list[Tensor]) -> None:
        try:
            found = recorder.finish(leaves)
            if recorder.failure is None:
                leaf = graft(self.root, found, self.signature)
                self.structures[leaf] = outcome
                self.compiled = False
        except Divergence as divergence:
            recorder.unsupported(str(divergence))
        for source in self.signature.sources:
            if source.kind == "argument":
                self.strides[source.value] = layout_of(tensors[source.position]).strides

    def _note_captured(self) -> None:
        sources = [s for s in self.signature.sources if s.kind == "captured"]
        self.captured = [(s.tensor, layout_of(s.tensor), s.tensor.requires_grad) for s in sources if s.tensor is not None]
        self.holds = make_holds(self)  # type: ignore[method-assign]
        for source in sources:
            self.strides[source.value] = layout_of(source.tensor).strides

    # --- compiling -----------------------------------------------------------------------------------------------

    def compile(self) -> None:
        """Make programs for every segment (again after a path was added)."""
        grad = self.key[0]
        for segment in self.root.segments():
            leaf = segment.leaf
            if leaf is not None and leaf.backward is None and grad:
                leaf.backward = self._backward(leaf) or ()
                if leaf.backward:
                    segment.statements.extend(leaf.backward.extra)
        needs = {leaf: self._leaf_needs(leaf) for leaf in self.root.leaves()}
        packable = {leaf: self._packable(leaf) for leaf in self.root.leaves()}
        compile_tree(self.owner.name, self.root, self.signature, self.strides, needs, packable)
        if simple(self):
            self._serve, self.source = make_replay(self)
        else:
            self._serve, self.source = self._walk, ""
        self.compiled = True

    def _backward(self, leaf: Leaf) -> Any:
        if not any(r.requires_grad and r.kind == "computed" for r in leaf.recording.outputs):
            return None
        wrt = [self._wants_gradient(v) for v in leaf.graph.inputs]
        return make_backward(leaf.graph, wrt, wanted_gradients(leaf.recording), self.strides)

    def _wants_gradient(self, value: Value) -> bool:
        source = next(s for s in self.signature.sources if s.value is value)
        if source.kind == "captured":
            assert source.tensor is not None
            return source.tensor.requires_grad
        if source.kind == "argument":
            pairs = [k for k in self.key[3:] if isinstance(k, tuple) and len(k) == 2 and isinstance(k[1], bool)]
            return bool(pairs[source.position][1])
        return False

    def _leaf_needs(self, leaf: Leaf) -> list[Value]:
        needs = [*leaf.graph.outputs]
        if leaf.backward:
            needs += leaf.backward.saved
            needs += leaf.backward.checked_outputs
        return list(dict.fromkeys(needs))

    def _packable(self, leaf: Leaf) -> set[Value]:
        """Saved values that nothing but the backward pass reads."""
        if not leaf.backward:
            return set()
        shown = {*leaf.graph.outputs, *leaf.backward.checked_outputs, *leaf.graph.inputs}
        return {v for v in leaf.backward.saved if v not in shown}

    # --- replaying -----------------------------------------------------------------------------------------------

    def replay(self, tensors: list[Tensor]) -> Any:
        """Run the compiled programs for these argument tensors."""
        if not self.compiled or self.failure is not None:
            self._compile_or_fail()
        try:
            return self._serve(tensors)
        except (KernelFailure, ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as failure:
            # nothing has been written yet: the eager run raises the error where it belongs
            raise NotReplayable(f"an operation refused its input ({failure})") from None

    def _walk(self, tensors: list[Tensor]) -> Any:
        """Follow the tree: run segments, read guards."""
        environment = self._inputs(tensors)
        segment = self.root
        while True:
            pack = segment.runner.run(environment)
            if segment.guard is None:
                break
            segment.calls += 1
            segment = self._next(segment, environment)
        assert segment.leaf is not None
        return self._finish(segment, segment.leaf, environment, pack)

    def _compile_or_fail(self) -> None:
        with self.owner._lock:
            if self.compiled or self.failure is not None:
                return
            try:
                self.compile()
            except Exception as error:
                log.debug("compilation failed", exc_info=True)
                self.failure = f"a kernel could not be compiled ({type(error).__name__}: {error})"
                self.owner.compile_failed(self.failure)
        if self.failure is not None:
            raise NotReplayable(self.failure)

    def _inputs(self, tensors: list[Tensor]) -> list[Any]:
        environment: list[Any] = []
        for source in self.signature.sources:
            if source.kind == "argument":
                environment.append(tensors[source.position])
            elif source.kind == "captured":
                environment.append(source.tensor)
            else:
                environment.append(source.generator.rebase())
        return environment

    def _next(self, segment: Segment, environment: list[Any]) -> Segment:
        value = environment[segment.runner.guard_position].array.item()
        child = segment.children.get(outcome_key(value))
        if child is None:
            reason = "" if self.open else f"more than {config.max_paths} recorded paths"
            raise NotReplayable(reason or "an unseen branch")
        return child

    def _finish(self, segment: Segment, leaf: Leaf, environment: list[Any], pack: Any) -> Any:
        self.replays += 1
        leaf.calls += 1
        found = leaf.recording
        positions = segment.runner.positions
        for generator_value, count in found.random_calls.items():
            source = next(s for s in self.signature.sources if s.value is generator_value)
            source.generator.skip(count)
        if leaf.backward and MODES.grad:
            self._attach(leaf, segment.runner, environment, pack)
        for target, new in found.writes:
            destination = environment[positions[target]]
            np.copyto(destination.array, environment[positions[new]].array)
            destination._version.value += 1
        outputs = [self._output(r, environment[positions[r.value]]) for r in found.outputs]
        structure = self.structures[leaf]
        return outputs[0] if structure is None else unflatten(structure, iter(outputs))

    def _output(self, recipe: Any, tensor: Tensor) -> Tensor:
        for op, attributes in recipe.steps:
            tensor = op(tensor, **attributes) if op.name != "detach_copy" else tensor.detach()
        return tensor

    def _attach(self, leaf: Leaf, runner: Runner, environment: list[Any], pack: Any) -> None:
        """Make the call one node of the autograd graph."""
        backward, positions = leaf.backward, runner.positions
        shown = computed_outputs(leaf.recording)
        outputs = [environment[positions[v]] for v in shown]
        count = len(self.signature.sources)
        saved = [
            _saved(environment[positions[v]], positions[v] >= count)
            for v in backward.saved
            if v not in runner.pack
        ]
        checked = [environment[positions[v]] for v in (*backward.checked_inputs, *backward.checked_outputs)]
        versions = [(t._version, t._version.value) for t in checked]
        inputs = environment[: len(leaf.graph.inputs)]
        edges = [inputs[i]._edge() for i in backward.gradient.wrt]
        site = self.site(leaf, runner)
        node = CompiledBackward(site, edges, inputs, saved, pack, versions)
        for number in leaf.wanted:
            tensor = outputs[number]
            tensor._requires_grad = True
            tensor._grad_fn = node
            if number:
                tensor._output_nr = number

    def site(self, leaf: Leaf, runner: Runner) -> Site:
        """What the backward nodes of a path share."""
        if leaf.site is None or leaf.site.pack is not runner.pack:
            backward = leaf.backward
            leaf.site = Site(
                self.owner.name,
                backward,
                runner.pack,
                backward.programs_for(runner.pack),
                tuple(v.type for v in computed_outputs(leaf.recording)),
                backward.gradient.seeds,
            )
        found: Site = leaf.site
        return found

    # --- inspection ----------------------------------------------------------------------------------------------

    def programs(self) -> Iterator[Program]:
        """Every program of the tree, forward then backward."""
        for segment in self.root.segments():
            if segment.runner is not None:
                yield segment.runner.program
        for leaf in self.root.leaves():
            if leaf.backward:
                for found in leaf.backward.programs.values():
                    yield from (p.program for p in found.values())

    def kernels(self) -> Iterator[Any]:
        """Every kernel of the entry."""
        for program in self.programs():
            yield from program.plan.kernels

    def graphs(self) -> Iterator[Graph]:
        """Forward and backward graph of every path."""
        for leaf in self.root.leaves():
            yield leaf.graph
            if leaf.backward:
                yield leaf.backward.graph


def _saved(tensor: Tensor, computed: bool) -> Tensor:
    """A saved value must not hold the output whose history holds it."""
    return tensor._alias() if computed else tensor


__all__ = ["Entry", "NotReplayable", "Recording", "Static"]
