"""Guards on Python state: everything outside its tensors that a recorded function may have depended on.

Recording runs a function once; replaying does not run its Python. So whatever that Python can read (globals, closure
variables, defaults, attributes, methods, contents of containers, modules) is found from its code before the run, and
checked before each replay by one generated function that is a straight line of comparisons.

Plain values are compared by type and value, everything else by identity and, where its attributes or items can be
read, by those. Tensors are compared by identity: their values are inputs of the compiled program. Not visible are
state inside C extensions and in the standard library (a random generator, a clock, an open file).
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from types import CodeType, FunctionType, MethodType
from typing import Any

from ...generated import define
from ...runtime.native.native import loaded
from ..numbers.places import Place, PlaceKey, place_of
from .calls import current
from .checks import Check, Contents, Read
from .lists import Appended
from .modules import Structure
from .ran_codes import RanCodes, WideError
from .reach import Walk
from .reads import Names
from .words import comparison_of

__all__ = ["MANY", "StateGuard", "watch"]

#: Guards of at least so many checks are compared natively.
MANY = 24


class StateGuard:
    """Python state as it was when :func:`watch` looked.

    ``holds()`` is True while all of it is unchanged (about a microsecond); ``difference()`` says what changed;
    ``limits`` names what is not guarded because a bound was reached.
    """

    __slots__ = (
        "__weakref__",
        "_holds",
        "appended",
        "checks",
        "codes",
        "hidden",
        "hooks",
        "limits",
        "names",
        "places",
        "reached",
        "spared",
        "tools",
    )

    names: Names
    appended: Sequence[Appended]  # lists to which the code only appends
    places: Sequence[Place]
    tools: Collection[int]
    spared: Collection[int]  # the same, also of guards that became wider
    reached: Mapping[int, Any]  # by identity: what was looked at; while the run is recorded
    codes: Sequence[CodeType]
    hidden: Sequence[tuple[Any, str]]  # what C would call, unseen, where it does more than compute
    hooks: Mapping[int, tuple[int, ...]]  # those of leaves, by identity; while the run is recorded

    def __init__(self, checks: Sequence[Check], limits: Sequence[str] = ()) -> None:
        self.checks = tuple(checks)
        self.places, self.tools, self.codes, self.appended = (), (), (), ()
        self.reached, self.hooks, self.hidden = {}, {}, ()
        self.names, self.spared = Names(), ()
        self.limits = tuple(limits)
        self._holds: Callable[[], bool] | None = None

    def wider(self, checks: Iterable[Check]) -> StateGuard:
        """A guard on the state of the same code that has these ``checks``, too."""
        found = StateGuard((*self.checks, *checks), self.limits)
        found.names, found.spared = self.names, self.spared
        return found

    @property
    def holds(self) -> Callable[[], bool]:
        """A function without arguments: is everything as it was?"""
        if self._holds is None:
            native = comparison_of(self.checks, _generate) if len(self.checks) >= MANY else None
            self._holds = native or _generate(self.checks)
        return self._holds

    def steady(self) -> Callable[[], bool]:
        """The same for the run that is recorded, which does not wait until the native runtime is loaded."""
        return self.holds if loaded() else _generate(self.checks)

    @property
    def may_write_unseen(self) -> bool:
        """Can code reach memory of tensors besides the tensors, such as arrays of NumPy that share it?"""
        return bool(self.limits) or any(type(check) is Contents for check in self.checks)

    def difference(self) -> str | None:
        """The first change in words (``"global 'scale' was 2.0 and is 3.0"``), or None.

        After the recorded run it tells whether the function itself changes the state it can read.
        """
        for check in self.checks:
            change = check.difference()
            if change is not None:
                return change
        listener = current()
        return None if listener is None else listener.end()

    def changes(self) -> list[Read]:
        """Reads that give something else now, if these are all that changed.

        What was in a list or dict in whose place there is another one now is of no account.
        """
        reads: list[Read] = []
        gone: set[int] = set()
        for check in self.checks:
            inside = id(check.holder) in gone
            found = check.moved()
            replaced = [check] if inside and isinstance(check, Read) else found or ()
            gone |= {id(read.expected) for read in replaced if type(read.expected) in (list, dict)}
            if inside:
                continue
            if found is None:
                return []
            reads += found
        return [] if any(id(read.holder) in self.tools for read in reads) else reads

    def stored(self, places: Iterable[Place], values: Iterable[Any]) -> None:
        """Put ``values`` in ``places`` that are not looked at here."""
        modules = next((check for check in self.checks if isinstance(check, Structure)), None)
        if modules is not None:
            modules.stored(places, values)
            return
        for place, value in zip(places, values, strict=True):
            place.store(value)

    def moved(self) -> list[Place]:
        """The places of numbers, if other numbers there are all that changed."""
        reads = self.changes()
        places = [place_of(read, read.current()) for read in reads]
        return [] if None in places else [place for place in places if place is not None]

    def changed_by(self, run: Callable[[], Any]) -> tuple[Any, str | None]:
        """The result of ``run()``, and what it changed in words, or None.

        >>> calls = []
        >>> guard = watch(lambda: calls.insert(0, 1), ())
        >>> guard.changed_by(lambda: calls.insert(0, 1))
        (None, "the length of global 'calls' was 0 and is 1")
        """
        result = run()
        return result, self.difference()


def watch(
    function: Callable[..., Any],
    statics: Sequence[object] = (),
    varying: Mapping[PlaceKey, Place] | None = None,
    held: Collection[PlaceKey] = (),
    ran: RanCodes | None = None,
    appends: bool = True,
) -> StateGuard:
    """A guard on the Python state that calling ``function`` can read, as it is now.

    ``statics`` are the arguments of the call that are not tensors (``self``, settings, modules): their attributes and
    items are guarded, the arguments themselves are not, since the next call brings its own. Nothing of the user's is
    executed. Numbers in ``varying`` places may be any, ``held`` places are not looked at, nor are, with ``appends``,
    lists to which the code only appends. With ``ran``, only code in it
    counts once it is known, and ``WideError`` is raised before that where too much would have to be guarded. Raises
    ``TypeError`` when ``function`` is not callable.

    >>> scale = 2.0
    >>> guard = watch(lambda x: x * scale)
    >>> guard.holds()
    True
    >>> scale = 3.0
    >>> guard.holds(), guard.difference()
    (False, "global 'scale' was 2.0 and is 3.0")
    """
    if not callable(function):
        raise TypeError(f"watch takes a function, not {type(function).__name__}")
    walk = Walk(varying or {}, held, ran)
    walk.appended.wanted = appends
    _root(walk, function)
    for position, value in enumerate(statics):
        walk.reach(value, f"argument {position}")
    checks = walk.finish()
    if walk.may_narrow and (walk.limits or (ran is not None and ran.wanted)):
        raise WideError
    guard = StateGuard(checks, tuple(walk.limits))
    guard.names, guard.codes = walk.names, walk.codes
    guard.places, guard.tools, guard.spared = walk.places, walk.tools, walk.tools
    guard.appended = walk.appended.found
    guard.reached, guard.hooks, guard.hidden = walk.reached, walk.hooks, walk.hidden
    listener = current()
    if listener is not None:
        listener.begin(walk)
    return guard


def _root(walk: Walk, function: Any) -> None:
    while isinstance(function, (MethodType, partial)):
        walk.reach(function, "the function")
        function = function.func if isinstance(function, partial) else function.__func__
    if isinstance(function, FunctionType):
        walk.enter_code(function)
    else:
        walk.reach(function, "the function")


def _generate(checks: Sequence[Check]) -> Callable[[], bool]:
    """One function without arguments: True when no check is broken.

    What it compares are defaults of its parameters, the fastest names Python has.
    """
    bound: dict[int, tuple[str, Any]] = {}
    numbers = count()  # `len` may be the very name that was replaced

    def bind(value: Any) -> str:
        return bound.setdefault(id(value), (f"o{next(numbers)}", value))[0]

    tests = [f"        if {check.broken(bind)}: return False" for check in checks]
    failures = bind((LookupError, AttributeError, ValueError))
    names = [name for name, _ in bound.values()]
    assert not any(map(keyword.iskeyword, names))
    source = "\n".join(
        [
            f"def holds({', '.join(f'{name}={name}' for name in names)}):",
            "    try:",
            *tests,
            f"    except {failures}: return False",
            "    return True",
        ]
    )
    if not tests:
        return _always
    namespace = dict(bound.values())
    holds: Callable[[], bool] = define(source + "\n", "state guard", "holds", namespace)
    namespace.clear()  # it is the globals of the function, which would otherwise be part of a cycle
    return holds


def _always() -> bool:
    return True
