"""One signature of a compiled function: its trace tree, captured tensors, state guard, and how to replay a call."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backoff import Backoff
from ..ir.builder import Builder
from ..ir.graph import Value
from ..ir.rules import SplitRuleError
from ..layout import layout_of
from ..locks import renewed_lock
from ..modes import MODES
from ..runtime.ahead import TooLong
from ..runtime.plan.loops import NotNativeError
from ..tensor import Tensor
from .behind import PASSING, Behind, compile_backwards, why_failed
from .numbers.arguments import without_varying
from .numbers.fitness import check_error, check_fit, plain_state, stored_alike, take_back
from .numbers.places import Place, PlaceKey
from .numbers.uses import SIZES
from .recording.collection import Collection, collecting_rarely
from .recording.inputs import Signature
from .recording.kept_alive import give_back
from .recording.outside import known_objects, seen_outside, unrepeatable, with_facts
from .recording.recorded_run import Given, changing_modes, is_undone, run_recorded
from .recording.recorder import Recorder
from .recording.recording import Recording
from .replay.checks import make_accepts
from .replay.ending import Overtaken
from .replay.held import form_of, without_held
from .replay.read_places import leaf_names_of, number_positions, places_in
from .rolling.tree import roll_tree, unroll_tree
from .rounds.loops import lasting, roll_rounds
from .signature import leaf_names, unique
from .sizes.shape_uses import EXTENTS, groups_in
from .sizes.sized_walk import SizedWalk
from .state.calls import watching
from .state.state import StateGuard, watch
from .tree.graft import graft_error
from .tree.made import Made
from .tree.plan import SymbolicTree, TreePlan
from .tree.segments import Runner
from .tree.serving import serving
from .tree.structure import Structure
from .tree.tree import Divergence, Raise, Segment, is_rolled
from .tree.walk import NotReplayable, Refused, UnseenSegment

if TYPE_CHECKING:
    from ..jit import CompiledFunction

log = logging.getLogger("tracejit")

#: From which plan on for sizes told at run time one is made for exactly those of the call.
EXACT = 2
#: How often a call starts again because another thread drew from its random generator.
TRIALS = 8


class Entry(Made):
    """Everything known about one signature under one Python state."""

    signature: Signature

    def __init__(
        self, owner: CompiledFunction, key: Any, tensors: list[Tensor], args: Any, kwargs: Any
    ) -> None:
        self.owner = owner
        self.key = key
        found = number_positions(owner.function, key, args, kwargs)
        self.varying, self.sizes, self.number_names, self.own_numbers = found
        self.within = len(self.number_names) > self.own_numbers  # do some vary that lie in places?
        self.form, self.held, self.sized = form_of(args, kwargs), *places_in(key[3])
        names = [*leaf_names(owner.function, args, kwargs), *leaf_names_of(key[3])]
        self.filled = getattr(key[3], "filled", ())
        self.extents = groups_in(key)
        self.plain_extents: list[int] = []  # groups of which the latest run made plain numbers
        told = [SIZES] if self.sizes or self.sized else []
        self.names = unique([*names, *told, *([EXTENTS] if self.extents else [])])
        self.signature: Signature = Signature(Builder(owner.name), graphs=owner.capture)
        self.root = Segment()
        self.guard: StateGuard | None = None
        self.failure: str | None = None
        self.closed: str | None = None  # why the latest run cannot be recorded while others can
        self.refused_ways: dict[Any, Backoff] = {}
        self.unstable: str | None = None  # the Python state that recording saw change
        self.places: dict[PlaceKey, Place] = {}
        self.errors_passed = 0  # how often an eager run went on where a recorded one ended in one
        self.opened = False  # are there loops whose end values decide about?
        self.diverged = False  # something other than a tensor decided on the path
        self.parted = self.compiled = False  # did what cannot be recorded lie behind a branch?
        self.alike = False  # can it be recorded for no numbers and extents at all, as it seems?
        self.tried = False  # to compile, in vain, for a reason that may pass
        self.pinned: tuple[tuple[int, Any], ...] = ()  # arguments, and what is expected of each
        self.types = [str(layout) for _, layout, *_ in key[4 : 4 + len(tensors)]]
        self.wants: list[bool] = [t._flows is True for t in tensors]
        self.strides: dict[Value, Any] = {}
        self.history: list[str] = []
        self.source = ""
        self.behind = Behind() if owner.background else None
        self.symbolic: SymbolicTree | None = None
        self._planned: tuple[TreePlan, Structure]
        self._lock = renewed_lock()
        self.handed_out: list[Any] = []  # the numbers of the latest recording, referred to weakly
        self._serve: Callable[..., Any] | None = None
        self.latest: Recording | None = None  # what the tree grew by last
        self.replays = self.routeless = 0  # the latter: native code did not recognise the next call

    # --- can it serve a call? -----------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """False when nothing was recorded, or another call may well go another way."""
        return self.guard is not None and self.unstable is None and not self.parted

    def holds(self) -> bool:
        """Is the Python state the one this entry was recorded under, are captured tensors as they were?"""
        return False  # replaced by a generated function once something was recorded

    @property
    def ready(self) -> Callable[..., Any] | None:
        """What serves a call if there is nothing to do or to ask before."""
        return self._serve if self.compiled and self.failure is None else None

    def accepts(self, tensors: list[Tensor]) -> bool:
        """Are the arguments that the function also knows from outside the recorded ones?"""
        return True  # replaced by a generated function where there are such arguments

    # --- recording -----------------------------------------------------------------------------------------------

    def record(self, tensors: list[Tensor], args: Any, kwargs: Any, why: str) -> Any:
        """Run the function eagerly and add what it did to the tree."""
        call = Given.of(self, tensors, args, kwargs)
        guard = self._watched(call)
        recorder = Recorder(self.signature, list(zip(self.names, tensors, strict=True)))
        recorder.watched = watching()
        self.handed_out = recorder.handed_out
        modes, count = changing_modes(), len(self.signature.sources)
        leaves: list[Any] = []
        kept = False
        collection = Collection()
        try:
            collection.rarely()
            result, structure = run_recorded(self, recorder, guard, call, leaves)
            kept = True
        except Exception as error:
            MODES.recorder = MODES.builder = None
            check_error(error, recorder, lambda: is_undone(self, recorder, guard, call))
            with recorder.careful("an error"):
                end = Raise.of(error, recorder.failure is None)
                kept = self._end_in(end, recorder, guard, tensors, why)
            raise
        finally:
            MODES.recorder = MODES.builder = None
            collection.as_before()
            if not kept:
                recorder.close()
                self.signature.rollback(count)
        self.history.append(why + recorder.aside)
        guard = recorder.widened(guard)
        alike = plain_state(guard.checks if recorder.showed_sizes_or_numbers else ())
        with recorder.flags_as_found():
            self.unstable = guard.difference() or recorder.overtaken or stored_alike(alike)
        if self.unstable is not None:
            self.owner.uses.learn_run(self.form, guard, alike)
            recorder.unsupported(f"it changes Python state: {self.unstable}")
        if modes != changing_modes():
            recorder.unsupported("it changes modes: gradients, autocast, default dtype or device")
        if call.changed_by(self, recorder):
            recorder.unsupported("it changes its arguments")
        reason = unrepeatable(result, structure, leaves, call, guard, recorder)
        if reason is not None:
            recorder.unsupported(reason)
        with self._lock:
            self._take(recorder, leaves, structure, tensors)
        recorder.close()
        if recorder.showed_sizes_or_numbers:
            result = without_varying(result, lambda: seen_outside(guard, call.statics))
        result = without_held(recorder, result)
        if recorder.failure is not None:
            self.signature.rollback(count)
            leaves.clear()  # numbers among them would be looked for
            take_back(recorder, result, known_objects(guard))
            if self.root.leaves() and not self.diverged:
                self.shut(lasting(recorder.failure))
                return result
            self.failure = recorder.failure
            self.parted = bool(recorder.guards) and not self.owner.strict
        self._guard_by(recorder, guard, tensors)
        return result

    def _watched(self, call: Given) -> StateGuard:
        """The Python state that a run hangs on."""
        self.closed, self.known_checks = None, dict(self.signature.checks)
        uses = self.owner.uses
        if self.guard is None:
            self.places = dict(uses.places)  # all its paths are recorded with the same ones
        ways = self.places, {place.key for place in self.held}, uses.ran, call.appends
        guard = watch(self.owner.function, call.statics, *ways)
        if guard.may_write_unseen:
            MODES.deferral = None
        if self.varying or uses.item_lines or guard.places or self.extents:
            names = [self.number_names[i] for i in (*self.varying, *self.sizes)]
            check_fit(guard, names, call.statics, followed=not self.extents)
        return guard

    def _end_in(
        self, end: Raise, recorder: Recorder, guard: StateGuard, tensors: list[Tensor], why: str
    ) -> bool:
        """The run ended in an error: calls that come here again run eagerly. True when the tree has grown."""
        guard = recorder.widened(guard)
        alike = plain_state(guard.checks if recorder.showed_sizes_or_numbers else ())
        with recorder.flags_as_found():
            unstable = guard.difference() or stored_alike(alike)
        grown = False
        with self._lock:
            try:
                opened = roll_rounds(recorder, (), self.owner.plans)
                if recorder.scope is None and opened >= self.opened:  # else another run may do well
                    self.opened |= opened
                    self.part()
                    grown = graft_error(self.root, tuple(recorder.path), end)
            except Divergence as divergence:
                self.diverged, self.failure = True, str(divergence)
            if grown:
                self._note_strides(tensors)
                self.compiled = False
        self.history.append(f"{why}; it ended in {end}")
        if self.guard is None or unstable is None:
            self.unstable = unstable
            self._guard_by(recorder, guard, tensors)
        return grown

    def _guard_by(self, recorder: Recorder, guard: StateGuard, tensors: list[Tensor]) -> None:
        """From now on, calls are served under the state that a run was recorded under."""
        captured = self.signature.captured_by_name()
        with recorder.flags_as_found():
            self.guard = with_facts(recorder.settled(guard, known_objects(guard)), captured)
        expected = (*recorder.argument_gradients(), *recorder.without_attributes())
        expected += (*recorder.places_in_storage(),)
        self.pinned = (*recorder.pinned_arguments(self.guard, tensors), *expected)
        if self.pinned:
            self.accepts = make_accepts(self)  # type: ignore[assignment, method-assign]
        self.holds = self.held_so_far  # type: ignore[method-assign]

    def _take(
        self, recorder: Recorder, leaves: list[Any], structure: Any, tensors: list[Tensor]
    ) -> None:
        """Add the recorded path, unless something could not be recorded."""
        if recorder.failure is None:
            with recorder.careful("the result"):
                self.opened |= roll_rounds(recorder, leaves, self.owner.plans)
                found = recorder.finish(leaves, structure)
        if recorder.failure is not None:
            return
        try:
            self.latest = self.grow(found, structure)
        except Divergence as divergence:
            self.diverged = True
            recorder.unsupported(str(divergence))
        self._note_strides(tensors)
        self.compiled = False
        if self.behind is None:  # now, so that no later call meets the long record
            with contextlib.suppress(Exception):  # compiling meets it again, and reports it
                self._roll()

    def _roll(self) -> bool:
        """Make loops of what repeats; True where there are some."""
        if self.owner.plans.rolls:
            roll_tree(self.root, self.signature, self.wants_gradient, self.owner.plans.seen)
        return is_rolled(self.root)

    def _note_strides(self, tensors: list[Tensor]) -> None:
        """How the inputs lie in memory."""
        for source in self.signature.sources:
            if source.kind == "argument":
                self.strides[source.value] = layout_of(tensors[source.position]).strides
            elif source.tensor is not None:
                self.strides[source.value] = layout_of(source.tensor).strides
            elif source.strides is not None:
                self.strides[source.value] = source.strides

    # --- compiling -----------------------------------------------------------------------------------------------

    def compile(self) -> None:
        """Make programs for every segment (again after a path was added), by a plan of equal structure or a new one."""
        rolled = self._roll()
        try:
            root = self._bound()
            if rolled or self.opened:  # now, while the loops can still be taken back
                self.root.prepare_backward()
        except (NotNativeError, SplitRuleError) as error:
            if not rolled:
                self._record_anew(error)
                raise
            log.debug("%s: loops stay unrolled: %s", self.owner.name, error)
            self.owner.plans.rolls = False
            unroll_tree(self.root)
            self.symbolic = None
            root = self._bound()
        self._serve, self.source = serving(self, root)
        if self.behind is not None:
            compile_backwards(self.root)
        self.compiled = True

    def _record_anew(self, error: Exception) -> None:
        """Where native code cannot run an open loop: forget the tree, whose rounds are gone."""
        if self.opened:
            self.owner.plans.opens = self.opened = False
            self.root, self.symbolic, self._serve = Segment(), None, None
            raise NotReplayable(f"a loop is recorded anew: {error}")

    def _bound(self) -> Runner:
        """Programs for the tree as it is."""
        wants = [self.wants_gradient(s.value) for s in self.signature.sources]
        found, plan = self.owner.plans.look_up(self.root, self.signature, self.strides, wants)
        if plan is None:
            if self.symbolic is None or not self.symbolic.whole:
                self.symbolic = SymbolicTree(self.owner.name, self.signature)
            plan = self.owner.plans.make(
                self.symbolic, self.root, self.strides, found, self.wants_gradient
            )
        self._planned = plan, found
        runner: Runner = plan.bind(self.root, found)
        return runner

    def planned_for(self, told: dict[int, int], number: int) -> SizedWalk:
        """A walk by a plan for sizes told at run time, for which the plans there are do not hold."""
        with self._lock:
            if not self.compiled:
                raise NotReplayable("another path is being compiled")
            _, found = self._planned
            tree = SymbolicTree(self.owner.name, self.signature, told, number >= EXACT)
            plan = tree.plan(self.root, self.strides, found, self.wants_gradient)
            return SizedWalk(self, plan.bind(self.root, found), plan, found, number)

    def wants_gradient(self, value: Value) -> bool:
        """Is a gradient wanted with respect to an input?"""
        source = self.signature.source_of(value)
        if source.tensor is not None:
            return self.signature.flows(source.tensor)
        return source.kind == "argument" and (source.leaf or self.wants[source.position])

    # --- replaying -----------------------------------------------------------------------------------------------

    def replay(self, tensors: list[Tensor], numbers: Sequence[Any] = ()) -> Any:
        """Run the compiled programs for these arguments; :class:`NotReplayable`, :class:`Refused` say why not."""
        if not self.compiled or self.failure is not None:
            if self.root.empty and self.failure is None:  # every run so far ended in an error
                raise UnseenSegment(self.root, None)
            if not self.compile_by(self._compile_or_fail):
                return self.serve_as_before(tensors, numbers)
        assert self._serve is not None
        try:
            return self._serve(tensors, numbers)
        except Overtaken:
            return self._again(tensors, numbers)

    def _again(self, tensors: list[Tensor], numbers: Sequence[Any]) -> Any:
        """Another thread drew random numbers in between: nothing that can be seen happened yet."""
        assert self._serve is not None
        for _ in range(TRIALS):
            try:
                return self._serve(tensors, numbers)
            except Overtaken:
                continue
        return self._serve(tensors, numbers)

    def _compile_or_fail(self) -> None:
        if self.behind is not None:
            self.behind.serve(self)
            return
        with self._lock:
            if not self.compiled and self.failure is None:
                try:
                    collecting_rarely(self.compile)
                    give_back()
                except (NotReplayable, TooLong):
                    raise
                except Exception as error:
                    log.debug("compilation failed", exc_info=True)
                    reason = why_failed(error)
                    if isinstance(error, PASSING) and not self.tried:
                        self.tried = True
                        raise NotReplayable(f"{reason}; it is tried once more") from None
                    self.failure = reason
                    if not self.extents:  # else they are constants of the next recording
                        self.owner.compile_failed(self.failure)
        if self.failure is not None:
            raise NotReplayable(self.failure)


__all__ = ["Entry", "NotReplayable", "Refused", "UnseenSegment"]
