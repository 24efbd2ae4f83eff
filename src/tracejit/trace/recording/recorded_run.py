"""The run that is recorded: the function's own code, with numbers that vary in the places where they are found."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from operator import is_not
from typing import TYPE_CHECKING, Any

from ...dtypes import get_default_dtype
from ...modes import MODES
from ...tensor import Tensor
from ..numbers.arguments import standing_in
from ..numbers.drawn import follow_draws
from ..numbers.functions import following, following_sums, sum_is_followed
from ..numbers.left import ELSEWHERE, Elsewhere, LeftNumber, noticing, reached_otherwise
from ..numbers.left_parts import parts_before, parts_left
from ..numbers.places import Place, patched
from ..objects import note_reached, withdraw
from ..replay.held import Filled, contents, is_same, see, standing_for, with_held
from ..replay.read_places import seen_in
from ..rounds.rounds import Rounds
from ..rounds.settled import resume, settle
from ..signature import HANDED_IN, containers, flatten, is_number, statics_of
from ..state.calls import watching
from ..state.state import StateGuard
from ..state.values import same
from .outside import seen_outside
from .printed_lines import following_prints
from .recorder import Recorder
from .results import flatten_run

if TYPE_CHECKING:
    from ..entry import Entry


@dataclass(frozen=True)
class Given:
    """What a call was given: its tensors, one that hands over sizes too, and the objects that are its constants.

    ``held`` is what lay in the places of the Python state that it reads like arguments: copies of lists and dicts,
    which are ``lying`` there.
    """

    tensors: Sequence[Tensor]
    args: Any
    kwargs: Any
    held: Sequence[Any]
    lying: Sequence[Any]
    structure: Any
    statics: Sequence[Any]
    shape: Any
    numbers: Sequence[Any]

    @classmethod
    def of(cls, entry: Entry, tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Given:
        """What a call of ``entry`` was given."""
        lying = seen_in(entry.held)
        held = [contents(value) for value in lying]
        structure = flatten((args, kwargs, held), [])
        numbers: list[Any] = []
        shape = flatten((args, kwargs), [], numbers), flatten(held, [])
        return cls(
            tensors, args, kwargs, held, lying, structure, statics_of(structure), shape, numbers
        )

    @property
    def parts(self) -> Any:
        """Everything that its tensors and constants are parts of."""
        return self.args, self.kwargs, self.held

    @property
    def appends(self) -> bool:
        """Can what is appended to a list not change the arguments?"""
        return not any(type(x) is list for x in containers((self.args, self.kwargs), []))

    @property
    def changed(self) -> bool:
        """Is it made of other parts now?"""
        leaves: list[Any] = []
        try:
            if flatten(self.parts, leaves) != self.structure:
                return True
        except RecursionError:  # a part of it contains itself now
            return True
        return any(now is not t for now, t in zip(leaves, self.tensors, strict=False))

    def put_back(self, places: Sequence[Place]) -> None:
        """Let these places, which it was found in, hold what they held."""
        for place, value, held in zip(places, self.lying, self.held, strict=True):
            if place.read() is not value:
                place.store(value)
            if not is_same(value, held):
                Filled(place).put(held)

    def changed_by(self, entry: Entry, recorder: Recorder) -> bool:
        """Did the run change it, and not only by numbers that a replay leaves there, too?"""
        if not self.changed:
            return False
        leaves: list[Any] = []
        numbers: list[Any] = []
        try:
            shape = flatten((self.args, self.kwargs), leaves, numbers), flatten(self.held, leaves)
        except RecursionError:
            return True
        if not entry.owner.uses.changes_arguments:  # from the next recording on
            entry.owner.uses.changes_arguments = not entry.owner.verify
            return True
        if recorder.in_arguments:
            return False
        if shape != self.shape or any(map(is_not, leaves, self.tensors)):
            withdraw(containers(self.parts, []))
            return True
        left = {x.position for x in recorder.stores if isinstance(x, LeftNumber)}
        pairs = enumerate(zip(numbers, self.numbers, strict=True))
        return not all(i in left or same(now, before) for i, (now, before) in pairs)


def run_recorded(
    entry: Entry, recorder: Recorder, guard: StateGuard, given: Given, leaves: list[Any]
) -> Any:
    """Run the function; its result, and the structure of it, whose leaves are appended to ``leaves``.

    The caller takes the recorder away again.
    """
    entry.owner.uses.held.forget(entry.form, guard.reached)
    if note_reached(entry, HANDED_IN.containers, guard.reached):
        recorder.unsupported(ELSEWHERE)
    if reached_otherwise([place.read() for place in entry.filled], guard.reached):
        recorder.unsupported(Elsewhere.reason)
    if given.changed or see(entry.held, guard.names):
        recorder.overtaken = "what it reads there changed meanwhile"
    steady_enough = (
        not guard.limits and not guard.appended
    )  # rounds that append differ in what they leave
    steady_enough = steady_enough and not entry.owner.uses.changes_arguments
    if entry.owner.plans.opens and entry.behind is None and steady_enough:
        steady = cache(guard.steady)  # made when it is first asked for: most runs never do
        recorder.rounds = Rounds(_run.__code__, guard.reached, lambda: steady()())
        recorder.rounds.settle = settle if entry.owner.plans.settles else None
        recorder.alive.notes = weakref.ref(recorder.rounds)
    listener = watching()
    if listener is not None:
        listener.base = _run.__code__
    recorder.codes, recorder.state_checks = guard.codes, guard.checks
    recorder.sums_followed = sum_is_followed(guard, given.statics)
    recorder.known_hooks = guard.hooks
    uses = entry.owner.uses
    if not guard.limits:
        recorder.item_lines, recorder.size_lines = uses.item_lines, uses.size_lines
    recorder.value_lists = uses.value_lists
    recorder.hands_out_arrays = uses.unfit is None
    recorder.reads_clocks = not entry.owner.verify
    recorder.standing = frozenset([place.key for place in guard.places])
    recorder.found_in_places = {place: place.read() for place in guard.places}
    try:
        return _run(entry, recorder, guard, given, leaves)
    finally:
        recorder.line = _home(entry.owner.function)  # what is found out from here on has no line
        recorder.foreseen_as_they_are()


def _home(function: Any) -> tuple[str, int] | None:
    """Where the code of a function begins, of a module that of ``forward``."""
    found = inspect.unwrap(function, stop=lambda f: hasattr(f, "__code__"))
    code = getattr(found, "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)


def _run(
    entry: Entry, recorder: Recorder, guard: StateGuard, given: Given, leaves: list[Any]
) -> Any:
    """The result with sizes and numbers as they were recorded."""
    function, uses, source = entry.owner.function, entry.owner.uses, entry.signature.numbers.source
    varying, places = _varying(entry, guard)
    standing = {source("place", p, p.kind, str(p.check.key)): p for p in places}
    positions = iter(range(len(entry.number_names)))
    outside = partial(seen_outside, guard, given.statics)
    sizes: dict[int, Any] = {}
    left: dict[Place, Any] = {}

    def replace(value: Any) -> Any:
        position = next(positions, -1)  # another thread may have put more in a place meanwhile
        if position not in varying or not is_number(value):  # one stands there already
            return sizes.get(position, value)
        number = source("argument", position, type(value), entry.number_names[position])
        return recorder.varying(number, value)

    recorder.python_state = partial(_python_state, recorder, guard, entry.held)
    later = ExitStack()
    follows = entry.varying or standing or recorder.item_lines or recorder.size_lines
    if not follows:
        recorder.foresees()
        recorder.follow = lambda: later.enter_context(following(guard))
    try:
        MODES.recorder = recorder  # not by a context manager, whose own code could be interrupted
        _hand_over_sizes(entry, recorder, given, sizes, left)
        later.enter_context(following(guard) if follows else following_sums(guard))
        if follows:
            later.enter_context(patched(standing, recorder.varying, recorder.stores))
        follow_draws(recorder, guard)
        later.enter_context(following_prints(guard, recorder))
        later.enter_context(recorder.told_identities(guard))
        args, kwargs = given.args, given.kwargs
        if entry.own_numbers:
            args, kwargs = later.enter_context(standing_in(args, kwargs, replace))
        for tail in guard.appended:
            tail.begin()
        before = later.enter_context(standing_for(entry.held, left, entry.within and replace))
        later.enter_context(noticing(uses, recorder, (args, kwargs), guard.reached))
        args, kwargs = recorder.arrays_given(args, kwargs)
        parts = parts_before() if uses.changes_arguments else []
        result = function(*args, **kwargs)
        recorder.all_written()
        resume(recorder.rounds)
        recorder.in_arguments = parts_left(parts, guard.reached) if parts else []
        result = with_held(recorder, entry.held, before, result, outside, guard.appended)
        entry.plain_extents = recorder.plain_extents()
        return result, _structure_of(entry, result, leaves, outside)
    except BaseException:
        for place in entry.held:  # what it left there is the user's again
            place.put_plain()
        for appended in guard.appended:
            appended.put_plain()
        raise
    finally:  # without what leads back to it
        recorder.foresees_no_more()
        recorder.follow, recorder.python_state, recorder.state_checks = None, tuple, ()
        later.close()


#: The code that calls the function.
RUN = _run.__code__


def _structure_of(
    entry: Entry, result: Any, leaves: list[Any], outside: Callable[[], Collection[int]]
) -> Any:
    """The structure of a result, which may contain what the call was given."""
    structure, given_again = flatten_run(result, leaves, outside, HANDED_IN.containers)
    entry.handed_in |= given_again
    return structure


def _varying(entry: Entry, guard: StateGuard) -> tuple[Collection[int], Collection[Place]]:
    """Which arguments and places hold numbers that vary: none behind limits, where what is recorded is dropped."""
    return ((), ()) if guard.limits else (entry.varying, guard.places)


def _hand_over_sizes(
    entry: Entry,
    recorder: Recorder,
    given: Given,
    sizes: dict[int, Any],
    left: dict[Place, Any],
) -> None:
    """Sizes come first: no number that may vary beside them is handed out before."""
    if entry.extents:
        recorder.extents_handed_over(given.tensors, entry.extents)
    if entry.sizes or entry.sized:
        told = recorder.sizes_handed_over(given.tensors[-2 if entry.extents else -1])
        sizes.update(zip(entry.sizes, told, strict=False))
        left.update(zip(entry.sized, told[len(entry.sizes) :], strict=True))


def is_undone(entry: Entry, recorder: Recorder, guard: StateGuard, given: Given) -> bool:
    """Has a run left arguments, Python state, random streams and the world alone, or can what it left be taken back?

    What it appended to lists, and put in single places, is.
    """
    if guard.limits or recorder.sent or recorder.random_calls or recorder.drawn or given.changed:
        return False
    known = recorder.stores.keys() <= recorder.found_in_places.keys()
    if not known or any(x.shrunk for x in guard.appended) or not _taken_back(guard):
        return False
    for appended in guard.appended:
        appended.put([])
    for place, value in recorder.found_in_places.items():
        if place.read() is not value:
            place.store(value)
    given.put_back(entry.held)
    return True


def _taken_back(guard: StateGuard) -> bool:
    """Do the places that ``guard`` compares hold what they held, perhaps from now on?"""
    if guard.difference() is None:
        return True
    reads = guard.changes()
    if not reads or not all(read.writable for read in reads):
        return False
    places = [Place(read, object, read.owner) for read in reads]
    left = [place.read() for place in places]
    for place in places:
        place.store(place.check.expected)
    if guard.difference() is None:
        return True
    for place, value in zip(places, left, strict=True):
        place.store(value)
    return False


def changing_modes() -> tuple[Any, ...]:
    """The thread's modes that code can change."""
    return (
        MODES.grad,
        MODES.inference,
        MODES.autocast,
        MODES.unusual,
        MODES.anomaly,
        MODES.saved_hooks,
        get_default_dtype(),
    )


def _python_state(recorder: Recorder, guard: StateGuard, held: Sequence[Place]) -> list[Any]:
    """What a run can change besides tensors: what the guard compares, and what it leaves to others."""
    changed = (check.difference() for check in guard.checks)
    places = [place.read() for place in (*guard.places, *held)]
    return [
        "; ".join(change for change in changed if change is not None),
        len(recorder.sent),
        len(recorder.drawn),
        *places,
        *[len(x.target) for x in guard.appended],
    ]
