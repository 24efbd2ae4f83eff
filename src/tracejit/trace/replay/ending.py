"""The end of a recorded path: what a call does to the world once nothing can fail any more.

Everything is decided before the call runs (where values lie in the environment, which inputs are written to); a call
refuses what eager execution would refuse, and aliasing that the recorded run did not have, before anything is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import partial
from typing import Any

from ...autograd.late import end_of
from ...autograd.node import AccumulateGrad, Edge
from ...cuda.arrays import byte_bounds, is_writeable, write_into
from ...ir.graph import Value
from ...modes import MODES
from ...runtime.callbacks import pointer_of
from ...tensor import Tensor
from ...tensor_core import Version
from ..recording.inputs import Source
from ..recording.recording import OutputRecipe, read_in, writes_once_moved
from ..recording.spent import Spent, SpentBackward
from ..tree.tree import Leaf
from .seen import SeenAgain

Environment = list[Any]

ALIASED = "an in-place change of a tensor that shares memory with another input"
KIN = "an in-place change of a view whose base has another view that a backward pass needs"


class NotReplayable(Exception):
    """This call has to run in Python; the message says why."""

    passing = False  # may later calls be served that are like this one?


class Parted(NotReplayable):
    """One of the guards that were joined to be one came out otherwise: they have to be looked at one by one."""


class Overtaken(NotReplayable):
    """Another thread drew from a random generator after this call had looked at it."""

    def __init__(self) -> None:
        super().__init__("another thread drew from the same random generator")


class Refused(Exception):
    """An operation refused its input: the eager run raises the error where it belongs."""


class Ending:
    """What happens at the end of one path."""

    def __init__(
        self, name: str, leaf: Leaf, sources: Sequence[Source], positions: dict[Any, int]
    ) -> None:
        found = leaf.recording
        effects = found.effects
        tracked = effects.tracked if effects is not None else frozenset()
        self.name = name
        self.recipes = found.outputs
        self.shows = [shower(r) for r in found.outputs]
        self.shown = [positions[r.value] for r in found.outputs]
        self.writes = [(positions[old], positions[new], count) for old, new, count in found.writes]
        self.tracked = [positions[old] for old, *_ in found.writes if old in tracked]
        self.turned = [(positions[v], n) for v, n in effects.turned] if effects is not None else []
        self.calls = effects.calls if effects is not None else ()
        flags = effects.flags if effects is not None else ()
        self.started = [owner for owner, flag in flags if flag]
        self.stopped = [owner for owner, flag in flags if not flag]
        self.slots = [
            (s.tensor if s.position < 0 else s.position, s.output)
            for s in (effects.slots if effects is not None else ())
        ]
        self.versions = [(positions[r.value], r.version) for r in found.outputs if r.version]
        self.draws = [
            (positions[value], sources[positions[value]].generator, n)
            for value, n in found.random_calls.items()
        ]
        self.edges = [self.spent_edges(r, sources, positions) for r in found.outputs]
        self.overlaps = Overlaps(
            sources, [position for position, *_ in self.writes], read_in(found)
        )
        self.kin = Kin(leaf, sources, positions, self.writes)
        #: Must a call look at what it writes to even if captured tensors still have the memory they had?
        self.always = bool(self.tracked) or not self.overlaps.simple
        written = {position for position, *_ in self.writes}
        self.fixed = sorted({*self.overlaps.fixed, *written.difference(self.overlaps.varying)})

    def showing(self, recipes: tuple[OutputRecipe, ...]) -> Ending:
        """The same with other sizes in the views that outputs are."""
        if recipes is self.recipes:
            return self
        other = copy(self)
        other.recipes = recipes
        other.shows = [shower(r) for r in recipes]
        return other

    def spent_edges(
        self, recipe: OutputRecipe, sources: Sequence[Source], positions: dict[Any, int]
    ) -> list[Edge | int]:
        """Where the freed history of an output led: edges of captured leaves, positions of other inputs."""
        found: list[Edge | int] = []
        for value in () if recipe.spent is None else recipe.spent.leaves:
            tensor = sources[positions[value]].tensor
            plain = tensor is not None and tensor._base is None and tensor._grad_fn is None
            found.append(
                (AccumulateGrad.of(tensor), 0) if plain and tensor is not None else positions[value]
            )
        return found

    # --- before anything is written ------------------------------------------------------------------------------

    def check(self, environment: Environment) -> None:
        """Refuse what eager execution would refuse, or what aliasing makes different from the recorded run."""
        inference = MODES.inference
        for position, *_ in self.writes:
            target = environment[position]
            array = target._array
            if array is not None and not is_writeable(array):
                raise Refused("a read-only tensor")
            if target._inference and not inference:
                raise Refused("an inference tensor")
        for position in self.tracked:
            try:
                environment[position]._check_inplace()
            except RuntimeError as error:
                raise Refused(str(error)) from None
        if self.writes and self.overlaps.exist(environment):
            raise NotReplayable(ALIASED)
        if self.kin.exist(environment):
            raise NotReplayable(KIN)

    def draw(self, environment: Environment, run: Callable[[], Any]) -> Any:
        """Run the last segment with numbers that nobody else draws; they are given back when it fails."""
        taken: list[tuple[Any, int]] = []
        try:
            for position, generator, draws in self.draws:
                if not generator.take(int(environment[position].array[1]), draws):
                    raise Overtaken
                taken.append((generator, draws))
            return run()
        except BaseException:
            for generator, draws in taken:
                generator.skip(-draws)
            raise

    # --- after the last guard --------------------------------------------------------------------------------------

    def count(self, environment: Environment) -> None:
        """Count the writes that outputs have behind them, ahead of what remembers their versions."""
        for position, version in self.versions:
            environment[position]._writes.value = version

    def start(self, tensors: Sequence[Tensor]) -> None:
        """Leaves require grad from now on, before anything leads to them."""
        for owner in self.started:
            start(tensors[owner] if isinstance(owner, int) else owner)

    def stop(self, tensors: Sequence[Tensor]) -> None:
        """Leaves do not require grad from now on, before anything is made of them."""
        for owner in self.stopped:
            stop(tensors[owner] if isinstance(owner, int) else owner)

    def write(self, environment: Environment) -> None:
        """Write to the tensors the run wrote to."""
        for target, new, count in self.writes:
            destination, source = environment[target], environment[new]
            moved = writes_once_moved(count)
            if moved is not None:
                destination.data = source.detach().clone()  # which nobody else has
                destination._writes.value += moved
                continue
            if source is not destination:
                write_into(destination.array, source.array)
            destination._writes.value += count
        for target, count in self.turned:
            environment[target]._writes.value += count

    def outputs(self, environment: Environment) -> list[Tensor]:
        """The output tensors; one that was returned twice is one."""
        made: dict[int, Tensor] = {}
        for recipe, show, position, edges in zip(
            self.recipes, self.shows, self.shown, self.edges, strict=True
        ):
            if recipe.number in made:
                continue
            tensor = environment[position]
            if recipe.inference:
                tensor._inference = True
            if recipe.is_made:
                tensor = show(tensor)
            if recipe.spent is not None:
                ends = [end_of(environment[e]) if isinstance(e, int) else e for e in edges]
                self.spend(recipe.spent, tensor, ends)
            made[recipe.number] = tensor
        return [made[recipe.number] for recipe in self.recipes]

    def spend(self, spent: Spent, tensor: Tensor, edges: Sequence[Edge | None]) -> None:
        """Give an output the history that eager execution leaves after a backward pass."""
        tensor._requires_grad, tensor._grad_fn = True, SpentBackward(edges, self.name, spent)

    def conclude(self, tensors: list[Tensor], outputs: list[Tensor]) -> None:
        """Leave gradients as the run left them; then run what runs again."""
        for owner, output in self.slots:
            tensor = tensors[owner] if isinstance(owner, int) else owner
            tensor._grad = None if output < 0 else outputs[output]
        for call in self.calls:
            call()


def start(leaf: Tensor) -> None:
    """Let a leaf require grad."""
    leaf._requires_grad = True
    leaf._rebound()


def stop(leaf: Tensor) -> None:
    """Let a leaf not require grad."""
    leaf._requires_grad = False
    leaf._rebound()


def shower(recipe: OutputRecipe) -> Callable[[Tensor], Tensor]:
    """What makes an output from the tensor that holds it."""
    seen = SeenAgain(recipe.steps)
    marked = recipe.stale or recipe.own or recipe.untracked
    given = (recipe.piece, recipe.apart, recipe.leaf)
    if marked or any(x is not None for x in given):
        return partial(_show, recipe, seen)
    return seen.show


def _show(recipe: OutputRecipe, seen: SeenAgain, tensor: Tensor) -> Tensor:
    tensor = _untracked(recipe, tensor) if recipe.untracked else seen.show(tensor)
    if recipe.piece is not None:
        tensor._piece = recipe.piece
    if recipe.stale:
        tensor._seen = -1
    if recipe.own:
        tensor._base, tensor._chain = None, ()
    if recipe.apart is not None:
        tensor._writes = Version()
        tensor._writes.value = recipe.apart
    if recipe.leaf is not None:
        tensor = recipe.leaf.make(tensor.detach())
    return tensor


def _untracked(recipe: OutputRecipe, tensor: Tensor) -> Tensor:
    """A view made under ``no_grad``, which may not be written to where gradients are recorded.

    What it is a view of takes part in autograd in eager code, be it that no other result of the call does.
    """
    if not tensor._flows:
        tensor = tensor._alias()
        tensor._requires_grad, tensor._grad_fn = True, SpentBackward((), "", Spent(()))
    grad, MODES.grad = MODES.grad, False
    try:
        for op, attributes in recipe.steps:
            if op.name != "detach_copy":
                tensor = op(tensor, **attributes)
    finally:
        MODES.grad = grad
    return tensor


class Overlaps:
    """Does an input that is written to share memory with another input?

    Layouts are part of the signature, so only addresses have to be compared; those of captured tensors rarely change,
    and what was found for them is remembered. What is not among the values ``read`` does not matter.
    """

    def __init__(
        self, sources: Sequence[Source], targets: Sequence[int], read: Collection[Value]
    ) -> None:
        leaves = {s.position for s in sources if s.leaf}
        twins = {
            s.position: i
            for i, s in enumerate(sources)
            if s.kind == "argument" and s.position in leaves and not s.leaf
        }
        again = {i: twins[s.position] for i, s in enumerate(sources) if s.leaf}
        matters = {*targets, *(again.get(i, i) for i, s in enumerate(sources) if s.value in read)}
        solid = [
            (i, s.kind)
            for i, s in enumerate(sources)
            if s.value.spec.numel and i not in again and i in matters
        ]
        self.fixed = [i for i, kind in solid if kind == "captured"]
        self.varying = [i for i, kind in solid if kind in ("argument", "gradient")]
        self.targets = {again.get(target, target) for target in targets}
        self.simple = self.targets.isdisjoint(self.varying)
        self.known: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def exist(self, environment: Environment) -> bool:
        """Do they, for the tensors of this call?"""
        if not self.simple:
            return self.any_of([*self.fixed, *self.varying], environment)
        pointers = [environment[i]._pointer or pointer_of(environment[i]) for i in self.fixed]
        if pointers != self.known:
            if self.any_of(self.fixed, environment):
                return True
            spans = sorted(_bounds(environment[i]) for i in self.fixed if i in self.targets)
            self.starts, self.ends = [s for s, _ in spans], [e for _, e in spans]
            self.known = pointers
        return any(self.meets(environment[i]) for i in self.varying)

    def meets(self, tensor: Tensor) -> bool:
        """Does a written span meet this tensor's? Written spans do not meet each other."""
        start, end = _bounds(tensor)
        before = bisect_right(self.starts, start)
        if before and self.ends[before - 1] > start:
            return True
        return before < len(self.starts) and self.starts[before] < end

    def any_of(self, inputs: Sequence[int], environment: Environment) -> bool:
        """Does a written input among ``inputs`` meet another one?"""
        spans = sorted((*_bounds(environment[i]), i in self.targets) for i in inputs)
        last = last_written = 0
        for start, end, written in spans:
            if start < last_written or (written and start < last):
                return True
            last = max(last, end)
            last_written = max(last_written, end if written else 0)
        return False


class Kin:
    """Does an input that is written to count its writes together with one that a backward pass checks?

    Views of one base have one version, so whether the backward pass refuses such a view hangs on what came first, the
    write or the use. Tensors with versions of their own are counted as the recorded run counted them. Of a backward
    pass inside nobody knows any more what it checked.
    """

    def __init__(
        self,
        leaf: Leaf,
        sources: Sequence[Source],
        positions: dict[Any, int],
        writes: Sequence[tuple[int, int, int]],
    ) -> None:
        inputs = {i for i, s in enumerate(sources) if s.kind in ("argument", "captured")}
        checked = {positions[v] for v, _ in leaf.watched} & inputs if leaf.backward else set()
        if leaf.recording.freed:
            checked = inputs
        self.targets = sorted({target for target, _, count in writes if count} if checked else ())
        self.one_of_them = not checked.isdisjoint(self.targets)
        beside = sorted(checked.difference(self.targets)) if self.targets else []
        self.fixed = [i for i in beside if sources[i].kind == "captured"]
        self.varying = [i for i in beside if sources[i].kind != "captured"]
        self.versions: frozenset[Version] = frozenset()

    def exist(self, environment: Environment) -> bool:
        """Does one, for the tensors of this call? Also keeps the versions of what is written to."""
        if not self.targets:
            return False
        self.versions = frozenset([environment[i]._writes for i in self.targets])
        if self.one_of_them and len(self.versions) < len(self.targets):
            return True
        return any(self.meets(environment[i]) for i in (*self.fixed, *self.varying))

    def meets(self, tensor: Tensor) -> bool:
        """Does this tensor count its writes together with one that is written to?"""
        return tensor._writes in self.versions


def _bounds(tensor: Tensor) -> tuple[int, int]:
    """The first and the last byte address + 1 of a tensor."""
    layout = tensor._layout
    if layout is not None and layout.is_contiguous:
        start = tensor._pointer or pointer_of(tensor)
        return start, start + layout.nbytes
    return byte_bounds(tensor.array)
