"""Plans for all sizes of a recorded tree: made once per structure, bound to sizes in no time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...extents import Extents
from ...ir.graph import Guard, Value
from ...locks import renewed_rlock
from ...sizes import Decided, given_symbols, revalue
from ...symbols import Decision
from ...types import Shape
from ..backward.backward import BoundBackward, make_backward
from ..numbers.numbers import ItemRead
from ..recording.dump import dump_leaf
from ..recording.inputs import Signature
from ..rolling.forms import Seen
from .bound import Bound
from .segments import Runner, SegmentPlan, TreeCompiler, bind_segments
from .structure import Structure, Symbols, structure_of
from .tree import Leaf, Segment, is_rolled, late_values, needs_of_leaf, path_graph, wanted_gradients

#: Plans of one structure that differ in what was decided about sizes.
MAX_VARIANTS = 16
#: Plans of a structure before sizes count as varying: then nothing is made for one of them only.
MAX_SPECIAL = 2
#: Calls and passes that may be refused, though ops serve them, before programs are made that refuse none.
MOST_REFUSALS = 2
#: How many paths are planned anew at once, and how many calls without a plan allow for one more. So many pieces with
#: something to compute are planned in about the time of a path, whoever shares them.
EFFORT, CALLS_PER_PATH, PIECES_OF_PATH = 16, 16, 8
#: Structures remembered per function.
MAX_STRUCTURES = 256


@dataclass(frozen=True, eq=False)
class TreePlan:
    """The plan of a tree of one structure, for all sizes under which ``holds``.

    ``values`` are the symbolic values in the order of the structure, ``leaves`` the leaves in order.
    """

    root: SegmentPlan
    leaves: tuple[Leaf, ...]
    values: tuple[Value, ...]
    scope: Extents
    parameters: tuple[int, ...]
    decided: Decided
    lock: Any
    told: tuple[int, ...]  # the symbols whose values runs tell, in the order of the structure

    def holds(self, found: Structure) -> bool:
        """Is the plan right for the sizes of a tree of this structure?"""
        return self.decided(dict(zip(self.parameters, found.sizes, strict=True)))

    @property
    def planned(self) -> dict[int, int]:
        """The sizes that runs tell, as they were when it was made."""
        return {n: self.scope.symbols[n].value for n in self.told}

    def bind(self, root: Segment, found: Structure) -> Runner:
        """Make a recorded tree of this structure runnable: programs for segments, backward passes for leaves."""
        names = dict(zip(self.values, found.values, strict=True))
        sizes = Example(self, found)
        runner = bind_segments(self.root, root, sizes, lambda v: names.get(v, v))
        packs = packs_of(self.root)
        for leaf, plan in zip(root.leaves(), self.leaves, strict=True):
            known = leaf.backward
            if known and known.plan is plan.backward and known.pack == packs[plan]:
                continue  # bound before, to the same sizes
            leaf.site = None
            bound = Bound(self.scope, sizes.at(leaf, None), names, self.lock, self.planned)
            leaf.backward = (
                BoundBackward(plan.backward, bound, packs[plan]) if plan.backward else ()
            )
        return runner


class Example:
    """The sizes of a recorded tree; those that runs tell are like those of a run through the segment asked for."""

    def __init__(self, plan: TreePlan, found: Structure) -> None:
        self.sizes = dict(zip(plan.parameters, found.sizes, strict=True))
        self.told = dict(zip(found.told, plan.told, strict=True))

    def __call__(self, segment: Segment) -> Mapping[int, int]:
        """Those of a run through ``segment``."""
        if not self.told:
            return self.sizes
        leaf = next(iter(segment.leaves()), None)
        return self.sizes if leaf is None else self.at(leaf, segment.depth)

    def at(self, leaf: Leaf, depth: int | None) -> Mapping[int, int]:
        """Those of a run that ended with ``leaf``."""
        found = leaf.recording.sizes
        if found is None:
            return self.sizes
        values = found.like({}, len(found.decided) if depth is None else depth)
        return {**self.sizes, **{self.told[n]: v for n, v in values.items() if n in self.told}}


def packs_of(root: SegmentPlan) -> dict[Leaf, dict[Value, int]]:
    """The pack that is filled on the way to each leaf."""
    found = {}
    stack = [root]
    while stack:
        plan = stack.pop()
        if plan.segment.leaf is not None:
            found[plan.segment.leaf] = plan.pack
        stack.extend(plan.children.values())
    return found


class PlanStore:
    """The tree plans of one function, by structure."""

    def __init__(self) -> None:
        self.known: dict[Any, list[TreePlan]] = {}
        self.made = 0
        self.opens = True  # the same of a loop whose end values decide about
        self.settles = True  # may rounds that are like others be left out of recordings?
        self.seen = Seen()  # what earlier recordings tell about loops
        self.marks: dict[tuple[bool, ...], None] = {}  # which numbers are sizes in rolled trees
        self.joins = True  # False once one of the joined guards of a path came out otherwise
        self.may_refuse = True  # False once calls were refused that eager code then served
        self.refusals = 0
        #: Paths that may still be planned anew, for sizes that other plans of their trees do not hold for.
        self.effort: float = EFFORT
        self.rolls = True  # False once a loop of the function turned out to be none for native code

    def look_up(
        self,
        root: Segment,
        signature: Signature,
        strides: Mapping[Value, Shape],
        wants: Sequence[bool],
    ) -> tuple[Structure, TreePlan | None]:
        """The structure of a recorded tree, and a plan for it.

        Rolled by the form of others, it may be served by a plan of theirs, with sizes of zero and one.
        """
        if root.leaf is not None and root.leaf.formed:
            for marks in list(self.marks):  # another thread may add some
                found = structure_of(root, signature, strides, wants, marks)
                plan = self.find(found)
                if plan is not None:
                    return found, plan
        found = structure_of(root, signature, strides, wants)
        return found, self.find(found)

    def refused(self) -> bool:
        """Another call or pass was refused that ops served. True where plans are made anew, which refuse none."""
        self.refusals += 1
        if self.refusals < MOST_REFUSALS or not self.may_refuse:
            return False
        self.may_refuse = False
        self.known.clear()
        return True

    def worth(self, paths: int) -> bool:
        """Is a call for which a tree of so many paths had to be planned anew worth it, or the ones before and this?"""
        self.effort = min(self.effort + 1 / CALLS_PER_PATH, EFFORT)
        if paths > self.effort:
            return False
        self.effort -= paths
        return True

    def find(self, found: Structure) -> TreePlan | None:
        """A plan for this structure and these sizes."""
        for plan in self.known.get(found.key, ()):
            if plan.holds(found):
                return plan
        return None

    def make(
        self,
        tree: SymbolicTree,
        root: Segment,
        strides: Mapping[Value, Shape],
        found: Structure,
        wants: Callable[[Value], bool],
    ) -> TreePlan:
        """A new plan for this structure, which is remembered."""
        tree.scope.vary = len(self.known.get(found.key, ())) >= MAX_SPECIAL
        rolled = is_rolled(root)
        tree.scope.few = rolled
        tree.may_refuse = self.may_refuse
        plan = tree.plan(root, strides, found, wants)
        self._keep(found, plan)
        if rolled:
            self.marks[tuple(found.marks)] = None
            if len(self.marks) > MAX_VARIANTS:
                self.marks.pop(next(iter(self.marks)), None)
        return plan

    def _keep(self, found: Structure, plan: TreePlan) -> None:
        self.made += 1
        variants = self.known.setdefault(found.key, [])
        del variants[: len(variants) + 1 - MAX_VARIANTS]
        variants.append(plan)
        if len(self.known) > MAX_STRUCTURES:
            self.known.pop(next(iter(self.known)))


class SymbolicTree:
    """A recorded tree with symbols for its sizes; grows with the recorded one."""

    def __init__(
        self,
        name: str,
        signature: Signature,
        told: Mapping[int, int] | None = None,
        exactly: bool = False,
    ) -> None:
        self.exactly = exactly
        self.others: frozenset[int] = (
            frozenset()
        )  # sizes that those told should not happen to equal
        self.told = told or {}  # the sizes to plan for, where recorded decisions hold for them
        self.name = name
        self.signature = signature
        self.scope = Extents()
        self.symbols = Symbols(self.scope, signature.sizes)
        self.decisions: list[Decision] = []
        self.root = Segment()
        self.lock = renewed_rlock()
        self.whole = True  # False while it grows, and ever after when that was interrupted
        self.may_refuse = True  # may programs find that they cannot serve a call?
        self.gave_up = False  # were there branches whose sizes are of no interest any more?

    def plan(
        self,
        root: Segment,
        strides: Mapping[Value, Shape],
        found: Structure,
        wants: Callable[[Value], bool],
    ) -> TreePlan:
        """Plan the recorded tree; ``wants`` tells which recorded inputs want gradients."""
        with self.lock:
            self.others = frozenset(found.sizes)
            self.whole = False
            with self.scope.deciding() as decisions:
                if self.signature.extents is not None:
                    self._present(root)
                    self.symbols.late(self.signature.extents)
                for source in self.signature.sources:
                    self.symbols.source(source, strides.get(source.value))
                self._mirror(root)
            self.decisions += decisions
            made = self.symbols.made
            parameters = tuple(n for value in found.values for n in made[value])
            inputs = {self.symbols.mapping[s.value]: wants(s.value) for s in self.signature.sources}
            for segment in self.root.segments():
                if segment.leaf is not None and segment.leaf.backward is None:
                    self._present(segment)
                    self._differentiate(segment, segment.leaf, inputs)
            leaves = self.root.leaves()
            compiler = TreeCompiler(
                self.name,
                self.scope,
                self.lock,
                self.symbols.strides,
                {leaf: needs_of_leaf(leaf) for leaf in leaves},
                {leaf: _packable(leaf) for leaf in leaves},
                self._present,
                self.signature.device,
                self.signature.graphs,
            )
            compiler.may_refuse = self.may_refuse
            plan = compiler.run(self.root, list(inputs))
            decided = [*self.decisions, *compiler.decisions]
            decided += [d for leaf in leaves if leaf.backward for d in leaf.backward.decisions]
            told = tuple(self.symbols.told.extents[n].symbols[0] for n in found.told)
            decided = [d for d in decided if told_free(self.scope, d, told)]
            if self.gave_up:
                known = {*parameters, *told}
                decided = [d for d in decided if given_symbols(self.scope, d.extent) <= known]
            self.whole = True
        mapping = self.symbols.mapping
        return TreePlan(
            plan,
            tuple(leaves),
            tuple(mapping[v] for v in found.values),
            self.scope,
            parameters,
            Decided(self.scope, decided),
            self.lock,
            told,
        )

    def _mirror(self, root: Segment) -> None:
        """Bring the symbolic tree up to the recorded one."""
        stack = [(root, self.root)]
        while stack:
            old, new = stack.pop()
            if new.empty:
                self._present(old, as_recorded=True)  # types are found anew, as in that run
                new.statements = [self.symbols.statement(v) for v in old.statements]
                self._end(old, new)
            if new.children.keys() - old.children.keys():  # given up for one that takes any value
                new.guard, new.children = _mapped_guard(old.guard, self.symbols.mapping), {}
                self.gave_up = True
            for outcome, child in old.children.items():
                stack.append((child, new.children.setdefault(outcome, Segment(depth=child.depth))))

    def _end(self, old: Segment, new: Segment) -> None:
        """What a segment ends with, in symbolic values."""
        mapping = self.symbols.mapping
        if old.guard is not None:
            new.guard = _mapped_guard(old.guard, mapping)
        elif old.finding is not None:
            operands = [mapping[x] if isinstance(x, Value) else x for x in old.finding.operands]
            new.finding = dataclasses.replace(
                old.finding, value=self.symbols.late(old.finding.value), operands=tuple(operands)
            )
        elif old.choices is not None:
            new.choices = {}
        elif old.leaf is not None:
            new.leaf = self._leaf(old.leaf)

    def _present(self, segment: Segment, as_recorded: bool = False) -> None:
        """Make the sizes of a run through ``segment`` the present ones, or typical ones that are like those."""
        leaf = next(iter(segment.leaves()), None)
        found = leaf.recording.sizes if leaf is not None else None
        if found is not None:
            extents = self.symbols.told.extents
            sizes: Mapping[int, int] = found.values
            if not as_recorded:
                sizes = found.like(self.told, segment.depth, self.others, self.exactly)
            values = {extents[n].symbols[0]: value for n, value in sizes.items() if n in extents}
            revalue(self.scope, values)

    def _leaf(self, leaf: Leaf) -> Leaf:
        """The end of a path in symbolic values."""
        mapping = self.symbols.mapping
        found = leaf.recording
        late = dict.fromkeys(late_values(found))
        path = tuple(
            mapping[s] if isinstance(s, Value) else _mapped_guard(s, mapping)
            for s in found.path
            if s not in late
        )
        recording = dataclasses.replace(
            found,
            path=path,
            outputs=tuple(dataclasses.replace(r, value=mapping[r.value]) for r in found.outputs),
            writes=tuple((mapping[old], mapping[new], count) for old, new, count in found.writes),
            kept_writes=tuple((mapping[v], count) for v, count in found.kept_writes),
            holds=tuple(mapping[v] for v in found.holds),
        )
        inputs = tuple(mapping[v] for v in (*leaf.graph.inputs, *late))
        graph = dataclasses.replace(path_graph(recording, self.signature), inputs=inputs)
        return Leaf(recording, graph, leaf.structure)

    def _differentiate(self, segment: Segment, leaf: Leaf, wants: Mapping[Value, bool]) -> None:
        """Make the backward pass of a leaf; what exists only to be saved is computed in its segment."""
        leaf.backward = ()
        if any(r.requires_grad and r.kind == "computed" for r in leaf.recording.outputs):
            wrt = [wants.get(v, False) for v in leaf.graph.inputs]
            wanted = wanted_gradients(leaf.recording)
            with self.scope.deciding() as decisions:
                strides = self.symbols.strides
                found = make_backward(leaf.graph, wrt, wanted, leaf.kept(), strides, decisions)
                if found is not None:
                    found.device = self.signature.device
                    found.capture = self.signature.graphs
                    found.may_refuse = self.may_refuse
            if found is not None:
                found.present = {n: self.scope.symbols[n].value for n in self.scope.told}
                segment.statements.extend(found.extra)
                leaf.backward = found
        dump_leaf(self.name, leaf)


def _mapped_guard(found: Any, mapping: Mapping[Value, Value]) -> Any:
    """A guard on the symbolic value; steps and guards of numbers are the same for all sizes."""
    if isinstance(found, Guard):
        return Guard(mapping[found.value], found.expected, found.line)
    if isinstance(found, ItemRead):
        return ItemRead(mapping[found.value], found.number, found.line)
    return found


def told_free(scope: Extents, decision: Decision, told: Sequence[int]) -> bool:
    """Does a decision hang on nothing that a run tells?"""
    return not told or given_symbols(scope, decision.extent).isdisjoint(told)


def _packable(leaf: Leaf) -> set[Value]:
    """Saved values that nothing but the backward pass reads."""
    if not leaf.backward:
        return set()
    read = {*leaf.graph.outputs, *leaf.backward.checked_outputs, *leaf.recording.holds}
    shown = {*read, *leaf.graph.inputs}
    return {v for v in leaf.backward.saved if v not in shown}
