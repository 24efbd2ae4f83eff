"""What a compiled function keeps: entries by signature, the bounds on how many, and when not to record again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import config, meta
from ..backoff import Backoff
from .arrays.unread import ArgumentPart, given_arguments
from .idle_objects import has_objects
from .numbers.strays import run_beside
from .routes import open_door, route_of
from .signature import flatten, statics_of
from .sizes.shape_uses import exact
from .state.state import watch
from .tree.tree import loops_besides_walks

if TYPE_CHECKING:
    from ..bound_function import Stats
    from ..tensor import Tensor
    from .arrays.arguments import ArrayUses
    from .arrays.unread import UnreadUses
    from .entry import Entry
    from .idle_objects import IdleObjects
    from .numbers.uses import NumberUses
    from .objects import ObjectUses
    from .sizes.shape_uses import ShapeUses
    from .state.calls import Listener

__all__ = ["ALIKE", "CHURN", "ENDLESS", "HEARD", "HOOKED", "Keeping"]

log = logging.getLogger("tracejit")

#: Signatures recorded in a row, none of which was met again, before recording becomes rare.
CHURN = 64
#: What stands for the structure of arguments that cannot be taken apart, which is why such a call runs eagerly.
ENDLESS = "its arguments contain themselves"
HEARD = "a mode is told of every operation: compiled code has none to tell of"
HOOKED = "saved_tensors_hooks are active: compiled code keeps no single ones"
#: Why a call ran eagerly while another was recorded.
BUSY = "another thread was recording"
#: Those of them that are recorded at first sight: a recording costs several eager calls.
STREAK = 16
#: Signatures in a row that had to run eagerly for one reason before others are believed to do so, too.
ALIKE = 2
#: Recordings in a row that saw Python state change before it is told why none of them is kept.
UNKEPT = 3
#: Calls that one recording served before those that had failed are forgotten: by then they have paid. State that a
#: program replaces from time to time (sums of an epoch) is learned anew each time.
FORGIVEN = 32


class Keeping:
    """The part of a compiled function that remembers its entries."""

    name: str
    function: Callable[..., Any]
    strict: bool
    background: bool
    stats: Stats
    _call: Callable[..., Any]
    _recorded: Callable[..., Any]
    _explain: Callable[[str], None]
    _note: Callable[[str], None]
    entries: dict[Any, list[Entry]]
    uses: NumberUses
    shapes: ShapeUses
    arrays: ArrayUses
    unread: UnreadUses
    objects: ObjectUses
    idle: IdleObjects
    _routes: tuple[Any, ...]
    _backoffs: dict[Any, Backoff]
    _met: dict[Any, None]
    _churn: Backoff
    _refused: Backoff
    _compiled_before: int
    _imported: frozenset[str] = frozenset()
    _leaves_numbers = False
    _unkept: int = 0

    def _entry_for(self, key: Any, tensors: list[Tensor]) -> Entry | None:
        """The entry that serves a call."""
        known = self.entries.get(key, ())
        return next((e for e in known if e.holds() and (not e.pinned or e.accepts(tensors))), None)

    def _wide_entry_for(self, key: Any, tensors: list[Tensor]) -> tuple[Entry | None, list[Tensor]]:
        """The entry for all extents like those of a call, and the tensors to give it."""
        wide = self.shapes.wide(key, tensors)
        return (None, tensors) if wide is None else (self._entry_for(*wide), wide[1])

    def _find_route(self, entry: Entry, tensors: list[Tensor], args: Any, kwargs: Any) -> None:
        """Have native code recognise calls like this one."""
        if any(type(x) is ArgumentPart for x in (*args, *kwargs.values())):
            return  # native code would look at all of them
        found = route_of(entry, tensors, args, kwargs, self.stats.served, self._routes)
        if found is not None:
            self._routes = (*self._routes, found)
            open_door(type(self))

    def _with_constants(
        self, entry: Any, tensors: list[Tensor], args: Any, kwargs: Any, why: str | None
    ) -> Any:
        """The result of a recorded run with numbers for the extents that ``entry`` takes for sizes.

        They are constants from then on, unless it ends in an error as well, which is the user's.
        """
        key, own = exact(entry.key, tensors)
        made = type(entry)(entry.owner, key, own, args, kwargs)
        result = self._recorded(made, own, args, kwargs, f"extents are numbers: {why}")
        if self.shapes.without(entry, str(why)):
            self.forget(entry)
        return result

    def _with_numbers(
        self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any
    ) -> tuple[Any, list[Any]]:
        """The key of a new call, after noting what is replaced from call to call; and its numbers, if any vary."""
        wide = self.shapes.served.get(key)
        for known in {key, key if wide is None else wide.key}:
            if self.uses.learn_replaced(known, self.entries.get(known, ())):
                self.entries.pop(known, None)  # calls like these have other keys from now on
                self._routes = ()
        if key[3] is None and not self.uses.held.known:
            return key, []
        return self.uses.learn_call(key, tensors, (args, kwargs))

    def _changes_always(self) -> bool:
        """Has no signature been met twice for so long that recording this one is in vain?"""
        compiled = self.stats.compiled_calls
        if compiled != self._compiled_before:
            self._compiled_before, self._churn = compiled, Backoff(CHURN)
        return self._churn.wait()

    def _always_new(self, key: Any, tensors: Sequence[Tensor] = ()) -> bool:
        """Is this signature new, as so many were that one is recorded only where it turns up a second time?

        Or are there no numbers to compute with?
        """
        if meta.ANY[0] and any(x.is_meta for x in tensors):
            self._explain("an argument lies on the device meta: there are no numbers to compute")
            return True
        if self.strict or self._churn.failures < STREAK:
            return False
        if self.stats.compiled_calls != self._compiled_before or not self._is_first(key):
            return False
        self._note(
            f"{STREAK} signatures in a row were new: others are recorded when they are met again"
        )
        return True

    def _waits(self, key: Any, tensors: list[Tensor]) -> bool:
        """Is this signature to be met once more before it is recorded, or never to be?"""
        later = (self.background and self._is_first(key)) or self._always_new(key, tensors)
        return later or self._refuses_all(key)

    def _refuses_all(self, key: Any) -> bool:
        """Is this signature new, and did all that were recorded lately come to the same thing that cannot be?"""
        if self.strict or key in self.entries or key in self._backoffs:
            return False
        if not self._refused.wait():
            return False
        self._explain(self._refused.reason)
        return True

    def _gives_up(self, entry: Entry) -> bool:
        """Are numbers or extents, with which a run could not be recorded, to be constants of the next one?

        Not where it ended as all others did, with constants, too.
        """
        reason = entry.failure
        same = reason is not None and reason == self._refused.reason
        entry.alike = same and entry.unstable is None and not entry.parted
        if entry.alike:
            return False
        return self.shapes.gives_up(entry) or (
            reason is not None and self.uses.without_sizes(entry, reason)
        )

    def _learns(self, listener: Listener) -> bool:
        """Is the next call to be recorded because this one loaded a module, or ran code that did not count?

        What has been loaded once is there from then on; where loading fails, every call tries.
        """
        name = listener.imported
        loaded = name is not None and name in sys.modules and name not in self._imported
        if name is not None and loaded:
            self._imported |= {name}
        learned = self.uses.changes_arguments and not self._leaves_numbers
        self._leaves_numbers |= learned
        return loaded or learned or listener.learned

    def _note_outcome(self, entry: Entry) -> None:
        """Count recordings in a row that ended for one reason.

        A change of Python state is none: what changes is learned, and another recording may follow it.
        """
        reason = entry.failure if entry.unstable is None else None
        if reason is None or reason != self._refused.reason:
            self._refused = Backoff(ALIKE)
        if reason is not None:
            self._refused.note(reason)

    def _eager(self, args: Any, kwargs: Any) -> Any:
        self.stats.eager_calls += 1
        return run_beside(self.function, args, kwargs)

    def _structure_of(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> tuple[Any, Any]:
        """The structure of a call's arguments, and the numbers among them; fills ``tensors``."""
        try:
            return self.uses.structure((args, kwargs), tensors)
        except RecursionError:
            return ENDLESS, []

    def _learns_arguments(self, args: Any, kwargs: Any) -> bool:
        """Are arrays or objects among the arguments to be taken in another way than they were?"""
        args, kwargs = given_arguments(args, kwargs)
        arrays = self.arrays.learn(self.function, args, kwargs)
        unread = self.unread.learn(self.function, args, kwargs)
        return self.objects.learn(args, kwargs) or arrays or unread

    def _anew(self, args: Any, kwargs: Any) -> Any:
        """A call that is looked up once more, because its arguments are taken in another way from now on."""
        self.stats.other_calls -= 1
        args, kwargs = given_arguments(args, kwargs)
        return self._call(*args, **kwargs)

    def _collected(self, args: Any, kwargs: Any) -> Any:
        """The result of an eager run whose code is collected; with ``strict``, what has no guard is told at once."""
        result = self.uses.ran.run(self.function, *given_arguments(args, kwargs))
        if self.strict:
            statics = statics_of(flatten((args, kwargs), []))
            for limit in watch(self.function, statics, ran=self.uses.ran).limits[:1]:
                self._explain(limit)
        return result

    def _is_first(self, key: Any) -> bool:
        """Was this signature never called? Asked where a first call is to cost what an eager one costs."""
        if key in self._met or key in self.entries:
            return False
        if len(self._met) >= config.max_signatures:
            self._met.pop(next(iter(self._met)), None)
        self._met[key] = None
        return True

    def _judge(self, entry: Entry, doubt: str | None) -> None:
        """Give up a recording of which it is not certain that replaying it does the same."""
        if doubt is None or entry.failure is not None:
            return
        entry.failure, entry.closed = doubt, None
        log.info("%s is not replayed: %s", self.name, doubt)

    def _keep(self, entry: Entry) -> None:
        """Remember an entry; forget the oldest where there are too many."""
        self._routes = ()
        self._note_outcome(entry)
        self._unkept = 0 if entry.usable else self._unkept
        if not entry.usable:
            if entry.unstable is None and entry.failure is not None:
                self._note(entry.failure)
                self._back_off(entry.key, entry.failure)
                return
            self._note_change(entry)
            return
        if entry.behind is not None:
            entry.behind.request(entry)
        variants = self.entries.setdefault(entry.key, [])
        if entry in variants:
            return
        if len(variants) >= config.max_variants:
            reason = f"more than {config.max_variants} Python states: {variants[-1].difference([])}"
            self._back_off(entry.key, reason, patience=0)
            variants = self.entries[entry.key] = variants[1:]
        variants.append(entry)
        for key in self.idle.learn(entry.key, self.entries):
            self._drop(key)
        loops = loops_besides_walks(entry.root)
        if entry.opened or loops:
            self.shapes.has_loops(entry.key, loops)
        for key in self.shapes.replaced(entry):
            if not any(known.compiled for known in self.entries.get(key, ())):
                self.entries.pop(key, None)
        if len(self.entries) > config.max_signatures:
            oldest = next(iter(self.entries))
            self.entries.pop(oldest)
            self._backoffs.pop(oldest, None)

    def _note_change(self, entry: Entry) -> None:
        """A run saw Python state change: where that goes on, only code that runs is to count."""
        self.uses.unkept[entry.key] = entry
        self._unkept += 1
        if self._unkept > UNKEPT:
            self._note(str(entry.failure or entry.unstable))
        self._back_off(entry.key, f"it changes Python state at every call: {entry.unstable}")
        if self._unkept >= UNKEPT and not self.uses.ran.wanted:
            self.uses.ran.wanted = True  # other code may be why the change matters
            self._backoffs[entry.key].try_anew()

    def _drop(self, key: Any) -> None:
        """Calls bring other objects than those in a key."""
        for entry in self.entries.get(key, ()):
            if has_objects(entry.form):
                self.uses.held.known.pop(entry.form, None)
        for known in (self.entries, self._backoffs, self._met, self.uses.unkept):
            known.pop(key, None)
        self.shapes.drop(key)

    def forget(self, entry: Entry | None) -> None:
        """Another recording takes the place of an entry."""
        self._routes = ()
        if entry is not None and entry.key in self.entries:
            self.entries[entry.key] = [x for x in self.entries[entry.key] if x is not entry]

    def _back_off(self, key: Any, reason: str, patience: int = 2) -> None:
        if len(self._backoffs) >= config.max_signatures and key not in self._backoffs:
            self._backoffs.pop(next(iter(self._backoffs)))
        known = self.entries.get(key)
        served = (id(known[-1]), known[-1].replays) if known else (0, 0)
        backoff = self._backoffs.setdefault(key, Backoff(patience))
        before = backoff.served[1] if backoff.served[0] == served[0] else 0
        if served[1] - before >= FORGIVEN:
            backoff = self._backoffs[key] = Backoff(patience)
        backoff.served = served
        backoff.note(reason)
