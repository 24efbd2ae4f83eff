"""Replaying a call by walking the trace tree: run a segment, read its guard, go on below.

A walk holds what one compilation of the tree made and never changes, so calls in other threads go on undisturbed while
a new branch is recorded and compiled. Nothing that can be seen from outside happens before the last segment ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime.program import KernelFailure
from ..tensor import Tensor
from .backward import CompiledBackward
from .recorder import OutputRecipe
from .segments import Runner
from .signature import unflatten
from .tree import Leaf, outcome_of

if TYPE_CHECKING:
    from .entry import Entry

FAILURES = (KernelFailure, ArithmeticError, IndexError, RuntimeError, TypeError, ValueError)


class NotReplayable(Exception):
    """This call has to run in Python; the message says why."""


class Unseen(NotReplayable):
    """A guard came out as in no recorded run."""


class Refused(Exception):
    """An operation refused its input: the eager run raises the error where it belongs."""


class Walk:
    """Serves calls of one compiled tree."""

    def __init__(self, entry: Entry, root: Runner) -> None:
        self.entry = entry
        self.root = root
        self.sources = tuple(entry.signature.sources)

    def __call__(self, tensors: list[Tensor]) -> Any:
        """The result of the call."""
        environment = self.inputs(tensors)
        try:
            runner, pack = self.descend(environment)
        except FAILURES as failure:
            raise Refused(str(failure)) from None
        leaf = runner.segment.leaf
        assert leaf is not None
        return self.finish(leaf, runner, environment, pack)

    def inputs(self, tensors: list[Tensor]) -> list[Any]:
        """The values of all graph inputs."""
        environment: list[Any] = []
        for source in self.sources:
            if source.position >= 0:
                environment.append(tensors[source.position])
            elif source.tensor is not None:
                environment.append(source.tensor)
            else:
                environment.append(source.generator.rebase())
        return environment

    def descend(self, environment: list[Any]) -> tuple[Runner, Any]:
        """Run segments down to a leaf."""
        runner = self.root
        while True:
            pack = runner.run(environment)
            if runner.guard_position < 0:
                return runner, pack
            below = runner.children.get(outcome_of(environment[runner.guard_position].array))
            if below is None:
                raise UnseenSegment(runner)
            runner.segment.calls += 1
            runner = below

    def finish(self, leaf: Leaf, runner: Runner, environment: list[Any], pack: Any) -> Any:
        """What happens at the end of a path: randomness counted, history attached, writes done."""
        found = leaf.recording
        positions = runner.positions
        targets = [environment[positions[target]] for target, _, _ in found.writes]
        self.check_writes(targets, environment)
        self.entry.replays += 1
        leaf.calls += 1
        if leaf.backward:
            self.attach(leaf, runner, environment, pack)
        for value, count in found.random_calls.items():
            self.sources[positions[value]].generator.skip(count)
        for destination, (_, new, count) in zip(targets, found.writes, strict=True):
            np.copyto(destination.array, environment[positions[new]].array)
            destination._version.value += count
        outputs = self.outputs(found.outputs, environment, positions)
        return outputs[0] if leaf.structure is None else unflatten(leaf.structure, iter(outputs))

    def check_writes(self, targets: list[Tensor], environment: list[Any]) -> None:
        """Refuse what eager execution would refuse, or what aliasing makes different from the recorded run."""
        given = environment[: len(self.sources)]
        for destination in targets:
            try:
                destination._check_inplace()
            except RuntimeError as error:
                raise Refused(str(error)) from None
            if not destination.array.flags.writeable:
                raise Refused("a read-only tensor")
            for other in given:
                if other is not destination and np.may_share_memory(other.array, destination.array):
                    raise NotReplayable(
                        "an in-place change of a tensor that shares memory with another input"
                    )

    def outputs(
        self, recipes: tuple[OutputRecipe, ...], environment: list[Any], positions: dict[Any, int]
    ) -> list[Tensor]:
        """The output tensors; one that was returned twice is one."""
        made: dict[int, Tensor] = {}
        for recipe in recipes:
            if recipe.number not in made:
                if recipe.inference:
                    environment[positions[recipe.value]]._inference = True
                made[recipe.number] = show(recipe, environment[positions[recipe.value]])
        return [made[recipe.number] for recipe in recipes]

    def attach(self, leaf: Leaf, runner: Runner, environment: list[Any], pack: Any) -> None:
        """Make the call one node of the autograd graph."""
        backward, positions = leaf.backward, runner.positions
        count = len(self.sources)
        saved = [
            _saved(environment[positions[v]], positions[v] >= count)
            for v in backward.saved
            if v not in runner.pack
        ]
        checked = (*backward.checked_inputs, *backward.checked_outputs, *backward.reread)
        versions = [
            (t._version, t._version.value) for t in (environment[positions[v]] for v in checked)
        ]
        inputs = [environment[positions[v]] for v in leaf.graph.inputs]
        edges = [inputs[i]._edge() for i in backward.wrt]
        node = CompiledBackward(self.entry.site(leaf), edges, inputs, saved, pack, versions)
        for number in leaf.wanted:
            tensor = environment[positions[leaf.shown[number]]]
            tensor._requires_grad = True
            tensor._grad_fn = node
            if number:
                tensor._output_nr = number


class UnseenSegment(Unseen):
    """The guard of ``runner`` came out as in no recorded run."""

    def __init__(self, runner: Runner) -> None:
        super().__init__("an unseen branch")
        self.runner = runner


def show(recipe: OutputRecipe, tensor: Tensor) -> Tensor:
    """An output from the tensor that holds it."""
    for op, attributes in recipe.steps:
        tensor = op(tensor, **attributes) if op.name != "detach_copy" else tensor.detach()
    return tensor


def _saved(tensor: Tensor, computed: bool) -> Tensor:
    """A saved value must not hold the output whose history holds it."""
    return tensor._alias() if computed else tensor
