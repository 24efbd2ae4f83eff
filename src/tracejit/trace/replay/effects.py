"""The Python of a call that does more than return outputs: writes, gradients left in ``.grad``, Python run again.

As for plain calls, everything is decided beforehand and written as straight lines. What can refuse the call comes
before the program of the last segment, because that may write over its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.late import end_of
from ...cuda.arrays import write_into
from ...runtime.callbacks import pointer_of
from ...runtime.program import MANY
from ...tensor import Tensor
from ..backward.continuing import as_before, left_behind
from ..recording.inputs import Source
from ..recording.recording import writes_once_moved
from ..tree.segments import Runner
from ..tree.tree import Leaf
from .ending import ALIASED, KIN, Ending, NotReplayable, Overtaken, start, stop
from .replay import _ReplayWriter

if TYPE_CHECKING:
    from ..entry import Entry


class EffectsWriter(_ReplayWriter):
    """Writes ``replay(tensors)`` for paths with effects."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        self.names |= {
            "copyto": np.copyto if entry.signature.device < 0 else write_into,
            "as_before": as_before,
            "left_behind": left_behind,
            "end_of": end_of,
            "pointer_of": pointer_of,
            "NotReplayable": NotReplayable,
            "ALIASED": ALIASED,
            "KIN": KIN,
            "Overtaken": Overtaken,
        }
        self.origins: tuple[Source, ...] = tuple(entry.signature.sources)

    def sources(self) -> None:
        """Fill the cells of numbers, then name every graph input."""
        for i, (row, _) in enumerate(self.entry.signature.rows.values()):
            self.names[f"refresh{i}"] = row.refresh
            self.add(f"refresh{i}()")
        for i, source in enumerate(self.origins):
            if source.position >= 0:
                self.add(f"t{i} = tensors[{source.position}]")
            elif source.tensor is not None:
                self.names[f"t{i}"] = source.tensor
            elif source.kind == "cell":
                pass  # made when its number is known
            elif source.generator is not None:
                self.names[f"generator{i}"] = source.generator
                self.add(f"drawn{i} = generator{i}.count")
                self.add(f"t{i} = generator{i}.rebase()")
            else:
                self.add(f"t{i} = {self.owner(f'owner{i}', source.owner)}._grad")
            self.by_value[source.value] = f"t{i}"

    def owner(self, name: str, owner: Tensor | int | None) -> str:
        """The expression for a tensor that has a gradient."""
        return f"tensors[{owner}]" if isinstance(owner, int) else self.bind(name, owner)

    def segment(self, runner: Runner) -> None:
        """Run a segment, then what comes after it."""
        leaf = runner.segment.leaf
        if leaf is None:
            self.run(runner)
            self.branch(runner)
            return
        ending = Ending(self.entry.owner.name, leaf, self.origins, runner.positions)
        self.check(ending)
        self.keep(leaf)
        self.draw(ending, runner)
        self.add("entry.replays += 1")
        self.add(f"{self.bind('leaf', leaf)}.calls += 1")
        self.versions(leaf)
        for i, owner in enumerate(ending.started):
            self.add(f"{self.bind('start', start)}({self.owner(f'started{i}', owner)})")
        if leaf.backward:
            self.attach(leaf, runner)
        for i, owner in enumerate(ending.stopped):
            self.add(f"{self.bind('stop', stop)}({self.owner(f'stopped{i}', owner)})")
        self.writes(leaf, ending, runner)
        self.conclude(leaf, ending)

    # --- before the program ------------------------------------------------------------------------------------------

    def check(self, ending: Ending) -> None:
        """Look at targets and aliasing again where memory is not what was looked at last."""
        if not ending.writes:
            return
        fixed = ending.fixed
        look = self.bind("look", Looked(ending, fixed, self))
        marks = [f"t{i}._array is {self.bind(f'm{i}', None)}" for i in fixed]
        known = ["None" if s.kind == "cell" else f"t{i}" for i, s in enumerate(self.origins)]
        environment = f"[{', '.join(known)}]"
        if ending.always:
            self.add(f"{look}.check({environment})")
            return
        self.add(f"if not ({' and '.join(marks) or 'True'}):")
        self.add(f"    {look}.check({environment})")
        self.each(ending.overlaps.varying, f"if {look}.meets(%s): raise NotReplayable(ALIASED)")
        self.each(ending.kin.varying, f"if {look}.kin(%s): raise NotReplayable(KIN)")

    def each(self, numbers: Sequence[int], line: str) -> None:
        """A line for each of some values, in a loop where they are so many that compiling them would take long."""
        if len(numbers) < MANY:
            for i in numbers:
                self.add(line % f"t{i}")
        else:
            self.add(f"for one in ({', '.join([f't{i}' for i in numbers])}):")
            self.add(f"    {line % 'one'}")

    def keep(self, leaf: Leaf) -> None:
        """Copy inputs whose values from before the call the history needs."""
        self.kept = {}
        for i, value in enumerate(leaf.overwritten):
            self.kept[value] = f"before{i}"
            self.add(f"before{i} = as_before({self.by_value[value]})")

    def draw(self, ending: Ending, runner: Runner) -> None:
        """Run the program with numbers that nobody else draws; they are given back when it fails."""
        leaf = runner.segment.leaf
        assert leaf is not None
        if not ending.draws:
            self.run_last(runner, leaf)
            return
        for i, _, draws in ending.draws:  # no other thread comes in between these two lines
            self.add(f"if generator{i}.count != drawn{i}: raise Overtaken")
            self.add(f"generator{i}.count = drawn{i} + {draws}")
            self.add("try:")
            self.indent += 1
        if runner.idle and not runner.segment.numbers:
            self.add("pass")
        self.run_last(runner, leaf)
        for i, _, draws in reversed(ending.draws):
            self.indent -= 1
            self.add("except BaseException:")
            self.add(f"    generator{i}.skip(-{draws})")
            self.add("    raise")

    # --- after it -----------------------------------------------------------------------------------------------------

    def writes(self, leaf: Leaf, ending: Ending, runner: Runner) -> None:
        """Copy what was not computed in place; move versions."""
        kinds = runner.results.kinds
        first = len(runner.positions) - len(kinds)
        positions = {
            runner.positions[new]: self.by_value[new] for _, new, _ in leaf.recording.writes
        }
        in_place = {first + i for i, (_, _, how) in enumerate(kinds) if how == "itself"}
        #: Of tensors that have one new value, the last lends its memory to it (`segments.overwritable`).
        lent = {new: target for target, new, _ in ending.writes if new in in_place}
        counts: dict[int, list[int]] = {}  # of writes, and what was written so often
        for target, new, count in ending.writes:
            moved = writes_once_moved(count)
            if moved is not None:
                self.add(f"t{target}.data = {positions[new]}.detach().clone()")
            elif lent.get(new) != target:
                self.add(f"copyto(t{target}.array, {positions[new]}.array)")
            if moved or count > 0:
                counts.setdefault(moved or count, []).append(target)
        for number, targets in counts.items():
            self.each(targets, f"%s._writes.value += {number}")
        for target, count in ending.turned:
            self.add(f"t{target}._writes.value += {count}")

    def conclude(self, leaf: Leaf, ending: Ending) -> None:
        """Make the outputs, leave gradients, run what runs again, and return."""
        made: dict[int, str] = {}
        recipes = leaf.recording.outputs
        for i, recipe in enumerate(recipes):
            if recipe.number in made:
                continue
            name = self.by_value[recipe.value]
            if recipe.inference:
                self.add(f"{name}._inference = True")
            if recipe.is_made:
                self.add(f"y{i} = {self.bind(f'show{i}', ending.shows[i])}({name})")
                name = f"y{i}"
            if recipe.spent is not None:
                parts = [
                    f"end_of(t{e})" if isinstance(e, int) else self.bind(f"s{i}_{j}", e)
                    for j, e in enumerate(ending.edges[i])
                ]
                spend = self.bind(f"spend{i}", partial(ending.spend, recipe.spent))
                self.add(f"{spend}({name}, [{', '.join(parts)}])")
            made[recipe.number] = name
        outputs = [made[recipe.number] for recipe in recipes]
        for i, (owner, output) in enumerate(ending.slots):
            target = self.owner(f"leaf{i}", owner)
            self.add(f"{target}._grad = {'None' if output < 0 else outputs[output]}")
        for i, call in enumerate(ending.calls):
            self.add(f"{self.bind(f'again{i}', call)}()")
        visible = len(outputs) - sum(output >= 0 for _, output in ending.slots)
        self.returned(leaf, outputs[:visible])


class Looked:
    """What was found about the memory of targets and other inputs, as long as it is the same memory."""

    def __init__(self, ending: Ending, fixed: list[int], writer: EffectsWriter) -> None:
        self.ending = ending
        self.fixed = fixed
        self.names = writer.names
        self.marks = [writer.bind(f"m{i}", None) for i in fixed]
        self.meets: Callable[[Tensor], bool] = ending.overlaps.meets
        self.kin: Callable[[Tensor], bool] = ending.kin.meets

    def check(self, environment: list[Any]) -> None:
        """Check, and remember the memory for which nothing was wrong."""
        arrays = [environment[i].array for i in self.fixed]
        self.ending.check(environment)
        self.names.update(zip(self.marks, arrays, strict=True))
