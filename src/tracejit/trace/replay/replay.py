"""The Python of a call as straight lines and branches: generated for signatures with few paths.

What the general walk of a trace tree decides at every call is decided here once: which tensors the program reads, which
outputs it makes, what the backward node keeps. The text can be read with ``f.source()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...autograd.late import end_of
from ...autograd.node import AccumulateGrad, next_number
from ...errors import DeviceError
from ...ir.graph import Value
from ...modes import MODES
from ...tensor import Tensor
from ...tensor_core import REPLACED
from ..backward.node import CompiledBackward
from ..numbers.numbers import ANY, NumberGuard, outcome_key
from ..recording.results import result_of
from ..signature import leaf_count
from ..tree.results import wrap_result
from ..tree.segments import Runner
from ..tree.tree import Leaf, outcome_of
from ..tree.walk import FAILURES, Refused, UnseenSegment
from .bytes_read import byte_read, guarded_block
from .checks import generate
from .ending import Parted, shower
from .fetching import asked_first, asked_next, together
from .numbers import NumberLines, conditions_on_item

if TYPE_CHECKING:
    from ..entry import Entry

MAX_DEPTH = 12  # guards in a row; deeper and wider trees are walked
MAX_SEGMENTS = 40


def writable(root: Runner) -> bool:
    """Can the call be written as straight lines and a few branches?"""
    count, level = 0, [root]
    for _ in range(MAX_DEPTH):
        count += len(level)
        level = [child for runner in level for child in runner.children.values()]
    return not level and count <= MAX_SEGMENTS


def make_replay(entry: Entry, root: Runner) -> tuple[Callable[[list[Tensor]], Any], str]:
    """The function that serves a call of an entry with few paths."""
    recordings = [leaf.recording for leaf in entry.root.leaves()]
    kinds = {s.kind for s in entry.signature.sources}  # of paths that end in errors, too
    effects = any(r.writes or r.random_calls or r.effects for r in recordings)
    if not effects and kinds <= {"argument", "captured", "cell"}:
        return _ReplayWriter(entry).write(root)
    from .effects import EffectsWriter

    return EffectsWriter(entry).write(root)


def written_outputs(leaf: Leaf) -> dict[Value, int]:
    """The computed outputs that were written to in place, and how often."""
    return {r.value: r.version for r in leaf.recording.outputs if r.version}


class _ReplayWriter(NumberLines):
    """Writes ``replay(tensors, numbers)``."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.indent = 1
        self.lines: list[str] = ["def replay(tensors, numbers=()):"]
        self.names: dict[str, Any] = {
            "make": Tensor._of_block,
            "entry": entry,
            "CompiledBackward": CompiledBackward,
            "new": object.__new__,
            "next_number": next_number,
            "replaced": REPLACED,
            "modes": MODES,
            "end_of": end_of,
            "result_of": result_of,
            "wrap_result": wrap_result,
            "outcome_of": outcome_of,
            "outcome_key": outcome_key,
            "Refused": Refused,
            "Unseen": UnseenSegment,
            "Parted": Parted,
            "failures": FAILURES,
            "DeviceError": DeviceError,
        }
        self.by_value: dict[Value, str] = {}
        self.kept: dict[Value, str] = {}  # copies of inputs that the call writes to
        self.number = 0  # of the segment being written; names made for it end with it
        self.quick = False  # does its program run without Python?
        super().__init__(entry.signature.sources)

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def bind(self, name: str, value: Any) -> str:
        """A name of the current segment for an object."""
        bound = f"{name}_{self.number}" if self.number else name
        self.names[bound] = value
        return bound

    def write(self, root: Runner) -> tuple[Callable[[list[Tensor]], Any], str]:
        self.sources()
        self.empty_cells(root.segment.numbers)
        self.fetch(asked_first(root))
        self.segment(root)
        return generate(self.entry.owner.name, self.lines, self.names, "replay")

    def sources(self) -> None:
        """Name every graph input."""
        for i, source in enumerate(self.entry.signature.sources):
            if source.kind == "argument":
                self.add(f"t{i} = tensors[{source.position}]")
            elif source.kind == "captured":
                self.names[f"t{i}"] = source.tensor
            self.by_value[source.value] = f"t{i}"

    def segment(self, runner: Runner) -> None:
        """Run a segment, then what comes after it."""
        leaf = runner.segment.leaf
        if leaf is None:
            self.run(runner)
            self.branch(runner)
            return
        self.run_last(runner, leaf)
        self.add("entry.replays += 1")
        self.add(f"{self.bind('leaf', leaf)}.calls += 1")
        self.versions(leaf)
        if leaf.backward:
            self.attach(leaf, runner)
        self.results(leaf)

    def branch(self, runner: Runner) -> None:
        """Read the guard and go on below."""
        guard = runner.segment.guard
        assert guard is not None
        here = self.bind("runner", runner)
        outcomes = sorted(runner.children, key=lambda outcome: outcome == ANY)
        block = None if self.quick and byte_read(runner) < 0 else guarded_block(runner)
        if isinstance(guard, NumberGuard):
            conditions = self.outcomes(guard, outcomes)
        elif block is None:
            conditions = conditions_on_item(outcomes)
            if outcomes != [ANY]:
                self.add(f"outcome = outcome_of({self.array_of(guard.value)})")
        else:
            conditions = [f"outcome == {int(value)}" for _, value in outcomes]
            if not self.quick:
                self.add(f"outcome = b{block}.array.item(0)")
        for i, (outcome, condition) in enumerate(zip(outcomes, conditions, strict=True)):
            child = runner.children[outcome]
            self.add(f"{'elif' if i else 'if'} {condition}:")
            self.indent += 1
            self.add(f"{here}.segment.calls += 1")
            before, self.number = self.number, len(self.names)
            fetched = dict(self.fetched)
            self.segment(child)
            self.number, self.fetched = before, fetched
            self.indent -= 1
        if isinstance(guard, NumberGuard):
            key = f"outcome_key({self.number_names[guard.value]})"
        else:
            key = "outcome" if block is None else "outcome_key(bool(outcome))"
        self.add(f"raise Unseen({here}.segment, {key})")

    def fetch(self, values: Iterable[Value]) -> None:
        """Read numbers of a device, all of them after one wait."""
        asked = [v for v in dict.fromkeys(values) if v not in self.fetched and v in self.by_value]
        if self.entry.signature.device < 0 or len(asked) < 2:
            return
        self.names["together"] = together
        names = [f"h{len(self.fetched) + i}" for i in range(len(asked))]
        arrays = ", ".join(f"{self.by_value[v]}.array" for v in asked)
        self.add(f"{', '.join(names)} = together({arrays})")
        self.fetched.update(zip(asked, names, strict=True))

    def run(self, runner: Runner) -> None:
        """Run the program of a segment and wrap its results."""
        self.number_lines(runner)
        self.quick = False
        if runner.idle:
            self.lines_afterwards()
            return
        found = {position: value for value, position in runner.positions.items()}
        names = {position: self.by_value[found[position]] for position in runner.reads}
        first = len(runner.positions) - len(runner.results.kinds)
        arguments = ", ".join(names[position] for position in runner.reads)
        byte = byte_read(runner)
        quick = runner.results.quick(runner.program, byte)
        self.quick = quick is not None
        results = self.quick_results(runner, first) if quick else self.blocks(runner)
        single = quick and len(results) == 1
        target = f"{', '.join(results)}{',' if len(results) == 1 and not single else ''} = "
        self.add("try:")
        run = self.bind("run", quick or runner.program.run)
        self.add(f"    {target if results else ''}{run}({arguments})")
        if runner.program.plan.device >= 0:
            self.add("except DeviceError:")
            self.add("    raise")
        self.add("except failures as failure:")
        self.add("    raise Refused(str(failure)) from None")
        for i in range(len(runner.results.kinds)):
            if i != byte:
                self.by_value[found[first + i]] = f"o{first + i}"
                if not quick:
                    self.wrap(runner, i, f"o{first + i}")
        self.lines_afterwards()
        self.fetch(asked_next(runner))

    def run_last(self, runner: Runner, leaf: Leaf) -> None:
        """Run a path's last program, and look at the guards that it has as one: nothing else happened yet."""
        self.run(runner)
        byte = byte_read(runner)
        for value in leaf.recording.holds:
            array = self.array_of(value) if byte < 0 else f"b{byte}.array"
            truth = "outcome" if self.quick and byte >= 0 else f"{array}.item(0)"
            self.add(f"if not {truth}:")
            self.add("    raise Parted")

    def blocks(self, runner: Runner) -> list[str]:
        """Names for what a program returns."""
        found = [f"b{i}" for i in range(len(runner.results.kinds))]
        return [*found, "pack"] if runner.pack else found

    def quick_results(self, runner: Runner, first: int) -> list[str]:
        """Names for tensors made natively; the outcome of a guard is a bool."""
        byte = byte_read(runner)
        found = [
            "outcome" if i == byte else f"o{first + i}" for i in range(len(runner.results.kinds))
        ]
        return [*found, "pack"] if runner.pack else found

    def wrap(self, runner: Runner, i: int, name: str) -> None:
        """Make a tensor of a result."""
        kind, layout, how = runner.results.kinds[i]
        if how == "itself":
            self.add(f"{name} = b{i}")
        elif how == "block":
            bound = self.bind(f"k{i}", kind), self.bind(f"l{i}", layout)
            self.add(f"{name} = make(b{i}, {bound[0]}, {bound[1]})")
        else:
            self.add(f"{name} = wrap_result(b{i}, {self.bind(f'k{i}', kind)}, {how!r})")

    def versions(self, leaf: Leaf) -> None:
        """Count the writes that outputs have behind them, ahead of what remembers their versions."""
        for value, version in written_outputs(leaf).items():
            self.add(f"{self.by_value[value]}._writes.value = {version}")

    def attach(self, leaf: Leaf, runner: Runner) -> None:
        """Make the backward node."""
        backward = leaf.backward
        site = self.bind("site", self.entry.site(leaf))
        inputs = [self.kept.get(v) or self.by_value[v] for v in leaf.graph.inputs]
        taking = (*backward.wrt, *leaf.tape.beyond)
        edges = [self.edge(leaf, position, inputs) for position in taking]
        found = _tuple(edges)
        for i, known in enumerate(leaf.graph.inputs):
            if known in leaf.moved and known not in self.kept:
                inputs[i] = f"left_behind({inputs[i]})"
        if all(edge in self.names for edge in edges):
            leaf.site.edges = tuple([self.names[edge] for edge in edges])
            found = self.bind("edges", leaf.site.edges)
        saved = [self.saved(v, leaf) for v in backward.saved if v not in runner.pack]
        checked = [self.by_value[v] for v, _ in leaf.watched]
        ahead = [f" + {count}" if count else "" for _, count in leaf.watched]
        versions = [f"(v{i}, v{i}.value{more})" for i, more in enumerate(ahead)]
        for i, name in enumerate(checked):
            self.add(f"v{i} = {name}._writes")
        pack = "pack" if runner.pack else "None"
        # As CompiledBackward.__init__ does, without calls.
        self.add("node = new(CompiledBackward)")
        fields = {"site": site, "ends": found, "inputs": _tuple(inputs), "saved": _tuple(saved)}
        fields |= {"pack": pack, "versions": _tuple(versions), "sequence": "next_number()"}
        fields["made_at"] = "replaced[0]"
        if len(leaf.shown) != 1:
            fields["n_outputs"] = str(len(leaf.shown))
        for name, value in fields.items():
            self.add(f"node.{name} = {value}")
        self.add("if modes.anomaly is not None: modes.anomaly.remember(node)")
        for number in leaf.wanted:
            name = self.by_value[leaf.shown[number]]
            self.add(f"{name}._requires_grad = True")
            self.add(f"{name}._grad_fn = node")
            if number:
                self.add(f"{name}._output_nr = {number}")

    def edge(self, leaf: Leaf, position: int, inputs: Sequence[str]) -> str:
        """Where the gradient of an input goes; known beforehand for captured leaves."""
        source = next(
            s for s in self.entry.signature.sources if s.value is leaf.graph.inputs[position]
        )
        tensor = source.tensor
        if tensor is None or tensor._base is not None or tensor._grad_fn is not None:
            return f"end_of({inputs[position]})"
        return self.bind(f"e{position}", (AccumulateGrad.of(tensor), 0))

    def saved(self, value: Value, leaf: Leaf) -> str:
        name = self.by_value[value]
        return f"{name}._alias()" if name.startswith("o") or value in leaf.moved else name

    def results(self, leaf: Leaf) -> None:
        """Return the outputs in the structure the function returned."""
        made: dict[int, str] = {}
        for i, recipe in enumerate(leaf.recording.outputs):
            if recipe.number in made:
                continue
            made[recipe.number] = self.by_value[recipe.value]
            if recipe.inference:
                self.add(f"{made[recipe.number]}._inference = True")
            if recipe.is_made:
                show = self.bind(f"show{i}", shower(recipe))
                self.add(f"y{i} = {show}({made[recipe.number]})")
                made[recipe.number] = f"y{i}"
        self.returned(leaf, [made[recipe.number] for recipe in leaf.recording.outputs])

    def returned(self, leaf: Leaf, outputs: Sequence[str]) -> None:
        """The return statement."""
        structure, outputs = leaf.structure, self.merged(leaf, outputs)
        self.store_lines(leaf)
        if structure is None:
            self.add(f"return {outputs[0]}")
            return
        kind, children = structure if isinstance(structure, tuple) else (None, ())
        if leaf.recording.held:
            self.held_lines(leaf, outputs)
        elif kind in (tuple, list) and all(c is None for c in children):
            listing = _tuple(outputs) if kind is tuple else f"[{', '.join(outputs)}]"
            self.add(f"return {listing}")
        else:
            self.add(f"return {self.made_of(structure, outputs)}")

    def made_of(self, structure: Any, outputs: Sequence[str]) -> str:
        """The expression for what has this structure and these leaves."""
        return f"result_of({self.bind_object(structure)}, iter({_tuple(outputs)}))"

    def held_lines(self, leaf: Leaf, outputs: Sequence[str]) -> None:
        """Put what belongs there in places of the Python state, and return the rest."""
        kind, children = leaf.structure
        if kind is not tuple:  # an object occurs twice
            made = self.made_of(leaf.structure, outputs)
            self.add(
                f"return {self.bind('recording', leaf.recording)}.result_in({made}, entry.guard)"
            )
            return
        left, parts = iter(outputs), []
        for child in children:
            own = [next(left) for _ in range(leaf_count(child))]
            parts.append(own[0] if child is None else self.made_of(child, own))
        self.add(f"result = {parts[0]}")
        places = self.bind_object(leaf.recording.held)
        self.add(f"entry.guard.stored({places}, {_tuple(parts[1:])})")
        self.add("return result")


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
