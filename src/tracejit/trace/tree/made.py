"""What was made for a recorded tree: its programs, kernels and graphs; and why it does not serve a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ... import config
from ...backoff import Backoff
from ...errors import describe_line
from ...ir.graph import Graph
from ...runtime.native.native import loaded
from ...runtime.program import Program
from ...tensor import Tensor
from ..backward.site import Site
from ..recording.inputs import Signature
from ..recording.joined_guards import joined
from ..recording.recording import Recording
from ..replay.ending import NotReplayable, Parted, Refused
from ..state.state import StateGuard
from .graft import graft, prune
from .tree import Finding, Leaf, Segment
from .walk import UnseenSegment

if TYPE_CHECKING:
    from ...jit import CompiledFunction
    from .plan import SymbolicTree


#: How often in a row a tree is compiled that is larger than what it has served pays for; beyond these statements, to
#: plan one takes as long as it takes eager code to run so many.
STRAYS, STRAYED, PAYS = 5, 1000, 10
#: So many statements are planned in any case once a call was served, for others may follow.
SERVING = 4000
#: A segment is planned by itself, which takes as long as so many statements do.
PER_SEGMENT = 13
#: How many segments may wait to be compiled before one of their paths has to be met a second time: each is planned by
#: itself, which takes a hundred times as long as its statements do in eager code.
UNPROVEN = 64
#: So many paths in a row are recorded in search of one that comes again before that becomes rare.
PATIENCE = 1
#: How often in a row eager code takes a path that is there, and compiled code left it, before such calls are just run.
TOLD_OTHERWISE = 1
#: Unless so many calls were served meanwhile.
SERVED_BETWEEN = 32
#: Why then: a guard hangs on the last bits of a number.
ROUNDED = "a branch hangs on rounding, in which compiled and eager code differ"


#: So many ways go on from one guard, and served no call each, before more are rarely recorded: text with a number, say.
WAYS = 8
#: How often runs that change Python state may come by one way before others are rarely recorded; those that do what
#: cannot be recorded count for so many that failed.
PASSING_WAYS, LASTING_WAYS = 2, 4
CROWDED = "a value decides that is another one at each call"


class Astray(NotReplayable):
    """A tree grows by a path at each call; it is compiled ever more rarely."""

    passing = True

    def __init__(self) -> None:
        super().__init__(
            "calls take new paths: many in a row served no other call, so more are tried rarely"
        )


class Unproven(UnseenSegment):
    """A tree of many segments of which no path was met twice: the call is recorded, which costs far less.

    It has left the tree where the latest path did that was recorded, as far as what is learned there goes.
    """


class Made:
    """The part of an entry that shows what it holds."""

    owner: CompiledFunction
    root: Segment
    guard: StateGuard | None
    signature: Signature
    accepts: Callable[[list[Tensor]], bool]
    holds: Callable[[], bool]
    symbolic: SymbolicTree | None
    opened: bool
    compiled: bool
    apart: tuple[Recording, Any] | None = None  # the only path as it was recorded, its guards apart
    #: Do containers among its arguments matter themselves, and what else did the code reach?
    handed_in: bool = False
    reached: frozenset[int] = frozenset()
    _lock: Any
    failure: str | None
    replays: int
    strays: Backoff | None = None
    unpaid = False  # is that why the tree was not compiled for the call that is under way?
    _compared_at = 0
    repeated = False  # did the latest recorded run take a path that was known?
    branched: tuple[Segment, Any] | None = None  # where it left the tree, if not
    proofs: Backoff | None = None
    latest_leaf: Leaf | None = None
    contradicted: Backoff | None = None
    crowded: Backoff | None = None
    closed: str | None
    unstable: str | None
    known_checks: dict[Any, Any]  # what paths turned out to depend on before the latest run
    leaving: Any = None  # where the call leaves the tree, and how, that is recorded next
    refused_ways: dict[Any, Backoff]  # ways to leave it by which runs came that cannot be recorded
    _serve: Callable[..., Any] | None

    @property
    def open(self) -> bool:
        """May another path be recorded?"""
        return self.failure is None and self.root.count_ends() < config.max_paths

    def grow(self, found: Recording, structure: Any) -> Recording:
        """Add a path to the tree; the first one may have its guards joined to be one."""
        self.part()
        plain = self.root.empty and not self.root.raises and not self.opened
        if plain and self.owner.plans.joins and self.signature.device < 0:
            one = joined(found, self.signature.builder)
            if one is not None:
                self.apart = found, structure
                found = one
        leaf = graft(self.root, found, self.signature, structure)
        self.repeated, self.branched = leaf.recording is not found, leaf.branched
        self.latest_leaf = leaf
        self.refused_ways.pop(self.leaving, None)
        self._compare_ways()
        if self.repeated or self.proofs is None:
            self.proofs = Backoff(PATIENCE)
        self.proofs.note("")
        return found

    def _compare_ways(self) -> None:
        """Note where compiled code left the tree, and eager code did not."""
        served, self._compared_at = self.replays - self._compared_at, self.replays
        if not self.repeated or served >= SERVED_BETWEEN:
            self.contradicted = None
        if self.repeated and self.compiled:
            self.contradicted = self.contradicted or Backoff(TOLD_OTHERWISE)
            self.contradicted.note(ROUNDED)

    def part(self) -> None:
        """Have the guards of the only path apart again; whoever asks holds the lock."""
        if self.apart is None:
            return
        (found, structure), self.apart = self.apart, None
        self.owner.plans.joins = False
        root = Segment()
        graft(root, found, self.signature, structure)
        self.root, self.symbolic, self.compiled = root, None, False
        self._serve = None

    def parts(self, end: Exception) -> bool:
        """Did a call end because guards were joined? Now they are apart, and it may start again."""
        if self.apart is None or not isinstance(end, (Parted, Refused)):
            return False
        with self._lock:
            self.part()
        self.owner.forget(None)  # native code leads to the old program
        self.owner.stats.other_calls -= 1  # which counts where it starts again
        return True

    def compile_by(self, compile: Callable[[], None]) -> bool:
        """Compile the tree, which has grown; False where what was compiled before has to do for now.

        Where each call decides in a way of its own (draws of actions, say), paths are without end, and each costs a
        recording and the programs of all that follows. One of many segments has to be met again before.
        """
        if self.failure is None and self.owner.background is False and not self.owner.strict:
            segments = list(self.root.segments())
            if sum(s.runner is None for s in segments) > UNPROVEN:
                if not self.repeated or self.latest_leaf is None:
                    return False
                with self._lock:
                    self.symbolic = None
                    prune(self.root, self.latest_leaf)
                segments = list(self.root.segments())
            if self._is_unpaid(sum(len(s.statements) + PER_SEGMENT for s in segments)):
                return False
        compile()
        self.proofs = None
        return True

    def _is_unpaid(self, size: int) -> bool:
        """Is the tree larger than the calls pay for that it has served? It is compiled all the same, now and then."""
        served = self.replays * size // self.root.count_ends()
        free = SERVING if served else STRAYED
        if size <= free + served // PAYS:
            self.strays = None
            return False
        self.strays = self.strays or Backoff(STRAYS)
        if self.strays.wait():
            self.unpaid = True
        else:
            self.strays.note("")
            self.unpaid = False
        return self.unpaid

    def serve_as_before(self, tensors: list[Tensor], numbers: Sequence[Any]) -> Any:
        """Serve a call by what was compiled before the tree grew, if its path is there.

        Others are recorded, ever more rarely, because one that comes again pays for the programs of its segments.
        """
        unpaid, self.unpaid = self.unpaid, False
        if self._serve is not None:
            try:
                return self._serve(tensors, numbers)
            except UnseenSegment as branch:
                if unpaid:
                    raise Astray from None
                if branch.outcome not in branch.segment.children:
                    self._search()
                    raise
        if unpaid:
            raise Astray
        self._search()
        raise Unproven(*(self.branched or (Segment(), None)))

    def keeps_out(self, branch: UnseenSegment) -> str | None:
        """Why a call whose path is not there is not recorded, if it is not."""
        if not self.open:
            return f"more than {config.max_paths} recorded paths ({self.unseen(branch)})"
        self.leaving = branch.segment, branch.outcome
        refused = self.refused_ways.get(self.leaving)
        if refused is not None and refused.wait():
            return refused.reason
        if self.contradicted is not None and self.contradicted.wait():
            return self.contradicted.reason
        ways = len(branch.segment.children)
        if branch.segment.guard is not None and ways >= WAYS and self.replays < ways:
            self.crowded = self.crowded or Backoff(0)
            if self.crowded.wait():
                return CROWDED
            self.crowded.note(CROWDED)
        return None

    def shut(self, reason: str | None) -> None:
        """The latest run cannot be recorded: calls that leave the tree as it did run eagerly, most of them.

        What changed Python state may do so once, as optimizers make theirs: that is seen at once.
        """
        self.signature.checks = self.known_checks
        passing, self.unstable = self.unstable is not None, None
        if reason is None:
            return
        if self.leaving not in self.refused_ways and len(self.refused_ways) >= config.max_paths:
            self.refused_ways.pop(next(iter(self.refused_ways)))
        known = self.refused_ways.setdefault(self.leaving, Backoff(PASSING_WAYS))
        if not passing:
            known.failures = max(known.failures, PASSING_WAYS + LASTING_WAYS - 1)
        known.note(reason)
        if known.hopeless:
            self.closed = reason

    def shut_ways(self) -> list[str]:
        """Why calls that leave the tree in some ways run eagerly."""
        return list({x.reason: None for x in self.refused_ways.values() if x.hopeless})

    def _search(self) -> None:
        """Record the call? Raises :class:`Astray` if not."""
        if self.proofs is not None and self.proofs.wait():
            raise Astray

    def held_so_far(self) -> bool:
        """Does the guard hold, asked before its comparison is there? That is made by the first call that finds it so.

        The call that records leaves it alone: native code may not be loaded yet, and nobody knows whether another call
        will come.
        """
        guard = self.guard
        if guard is None or any(check.difference() is not None for check in guard.checks):
            return False
        if loaded():
            self.holds = guard.holds
        return True

    def programs(self) -> Iterator[Program]:
        """Every program of the tree, forward then backward."""
        for segment in self.root.segments():
            if segment.runner is not None:
                yield segment.runner.program
        for leaf in self.root.leaves():
            if leaf.backward:
                yield from (
                    p.program for p in leaf.backward.programs.values() if hasattr(p, "program")
                )

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

    def difference(self, tensors: list[Tensor]) -> str:
        """Why this entry does not serve a call."""
        changed = self.guard.difference() if self.guard is not None else None
        if changed is not None:
            return changed
        if not self.accepts(tensors):
            return "an argument was a tensor that the function also reads from outside"
        return "another thread changed what it depends on"

    def unseen(self, branch: UnseenSegment) -> str:
        """A branch that was not recorded, in words."""
        if isinstance(branch, Unproven):
            return "a path of many branches is compiled when it comes again"
        segment = branch.segment
        if segment.choices is not None:
            return segment.unseen_choice()
        end = segment.guard or segment.finding
        where = describe_line(*end.line) if end is not None and end.line else ""
        kind = "size" if isinstance(end, Finding) else "branch"
        return f"an unseen {kind} at {where}" if where else f"an unseen {kind}"

    def refused(self) -> None:
        """A program refused what ops then served: after some times plans are made anew, so that none does any more."""
        if self.owner.plans.refused():
            self.owner.forget(self)

    def site(self, leaf: Leaf) -> Site:
        """What the backward nodes of a path share."""
        if leaf.site is None:
            backward = leaf.backward
            leaf.site = Site(
                self.owner.name,
                backward,
                backward.programs,
                leaf.types(leaf.shown),
                backward.seeds,
                tuple([v for v, _ in leaf.checked]),
                self.owner.compile_failed,
                self.refused,
                leaf.positions,
                leaf.tape,
                leaf.recording.later,
                part_reads=leaf.recording.part_reads,
                rewrites=len(leaf.recording.kept_writes),
            )
        found: Site = leaf.site
        return found
