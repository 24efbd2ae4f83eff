"""Which code must have the numbers themselves, and cleaning up where a recording left something else in their place.

Code in C sometimes takes nothing but a true ``float`` or ``int``, and ``type(x)`` tells the two apart. Functions that
mention such things keep their numbers as constants.
"""

from __future__ import annotations

import dis
import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import lru_cache, partial
from itertools import pairwise
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...varying import plain
from ..recording.transparent import attributes_of, is_transparent
from ..state.checks import Check, Read
from ..state.reads import is_library_class, owner_of, reads_of, steps
from ..state.special import CACHES
from .functions import (
    cache_is_called,
    leads_to,
    leads_to_cache,
    sum_is_followed,
    type_in_module,
    type_is_followed,
)
from .numbers import UnfitError
from .places import Place
from .plain_parts import plain_keys, plain_parts
from .same_objects import check_same_objects

if TYPE_CHECKING:
    from ..recording.recorder import Recorder
    from ..state.state import StateGuard

_EVERYWHERE = {"Decimal", "ldexp", "sleep", "timedelta"}
_EVERYWHERE |= {"asctime", "ctime", "fromtimestamp", "gmtime", "localtime", "strftime"}
_GLOBALS = frozenset(
    {"ctypes", "datetime", "decimal", "json", "marshal", "pow", "statistics", "type"} | _EVERYWHERE
)
_ATTRIBUTES = frozenset({"dumps", "dump", "isscalar", "from_float"} | _EVERYWHERE)

#: What takes an attribute.
_TAKING = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

_CONSTANT = "numbers are constants here, because the code uses"

_RAISE = dis.opmap["RAISE_VARARGS"]

_METHODS = (MethodType, MethodWrapperType, BuiltinMethodType)

#: Objects of a program that are looked through for sizes which were left there.
_MOST_OBJECTS = 10_000


def check_fit(
    guard: StateGuard, arguments: Iterable[str], statics: Iterable[Any], followed: bool = True
) -> None:
    """Raise :class:`UnfitError` where the code of a run, or what is called by it, needs the numbers themselves.

    ``arguments``: the names of those among the arguments, ``statics`` the others; ``followed`` as in
    :func:`check_codes`.
    """
    sums = bool(guard.limits) or sum_is_followed(guard, statics)  # behind limits no number varies
    check_codes(guard.codes, guard.checks, sums, followed)
    places = [str(place.check.key) for place in guard.places]
    check_same_objects(guard.codes, {*arguments, *places}, guard.checks)
    check_caches(guard)


def check_codes(
    codes: Sequence[CodeType], checks: Sequence[Check], sums: bool, followed: bool = True
) -> None:
    """Raise :class:`UnfitError` when code, which reads what ``checks`` are about, needs the numbers themselves.

    ``followed``: names lead to functions that know numbers that vary, so that code may ask for the type of one;
    ``sums``: so do all ways to ``sum``, where it needs one.
    """
    globals_ = _GLOBALS
    if followed and type_is_followed(codes, checks):
        globals_ = _GLOBALS - {"type"}
    elif any(leads_to(type, check) for check in checks):
        raise UnfitError(f"{_CONSTANT} 'type'")
    if type_in_module(codes, checks):
        raise UnfitError(f"{_CONSTANT} 'type'")
    if not sums:
        raise UnfitError(f"{_CONSTANT} 'sum'")
    if any(map(_leads_to_statistics, checks)):
        raise UnfitError(f"{_CONSTANT} 'statistics'")
    for code in codes:
        if code.co_filename == "<string>" and code.co_name.startswith("__"):
            continue  # a method that a dataclass has by itself
        found = (globals_ & reads_of(code).globals) | _ATTRIBUTES.intersection(code.co_names)
        found |= _methods_of_classes(code)
        if found:
            raise UnfitError(f"{_CONSTANT} {min(found)!r}")


@lru_cache(maxsize=1024)
def _methods_of_classes(code: CodeType) -> frozenset[str]:
    """The methods of numbers that code takes from their classes (``float.hex``), which want true ones.

    >>> _methods_of_classes((lambda x: float.hex(x) + float.fromhex("1")).__code__)
    frozenset({'float.hex'})
    """
    if not {"float", "int"}.intersection(code.co_names):
        return frozenset()
    pairs = pairwise(steps(code))
    return frozenset(
        f"{owner}.{name}"
        for (way, owner), (then, name) in pairs
        if way == "LOAD_GLOBAL" and owner in ("float", "int") and then in _TAKING
        if name not in ("fromhex", "from_bytes", "__name__", "__qualname__")
    )


def _leads_to_statistics(check: Check) -> bool:
    found = check.expected if isinstance(check, Read) else None
    return type(found) is FunctionType and found.__module__ == "statistics"


def check_caches(guard: StateGuard) -> None:
    """Raise :class:`UnfitError` where functions with a cache may be given what stands for numbers.

    They know a lone number by its type, keep what they are given, and run again for another.
    """
    for check in guard.checks:
        expected = check.expected if isinstance(check, Read) else None
        static = isinstance(expected, staticmethod) and isinstance(expected.__func__, CACHES)
        if static or (leads_to_cache(check) and not cache_is_called(check, guard)):
            raise UnfitError(f"{_CONSTANT} a function with a cache")


def plain_state(checks: Iterable[Check]) -> list[Read]:
    """Put values where varying numbers were stored in the Python state that is checked.

    Returned are the reads that now give what they gave before, by chance: the next call stores another number there.
    """
    found: list[Read] = []
    for check in checks:
        if isinstance(check, Read) and check.writable and Place(check, object).put_plain():
            found.append(check)
        for snapshot in getattr(check, "snapshots", ()):
            found += snapshot.put_plain()
    return [read for read in found if not read.moved()]


def stored_alike(reads: Sequence[Read]) -> str | None:
    """Where a run stored a number that varies and happened to be there already; None where it did not."""
    return f"{reads[0].name} is set to a number that varies" if reads else None


def check_error(error: Exception, recorder: Recorder, undone: Callable[[], bool]) -> None:
    """Raise :class:`UnfitError` for an error that only true numbers may have avoided, if the run can be made again.

    Code in C that takes nothing else says so in words of its own. ``undone``: Python state is as before, or is made so.
    Any other error is the user's, and so are the numbers in it.
    """
    if not recorder.showed_sizes_or_numbers:
        return
    nothing_done = isinstance(error, TypeError) and not (recorder.has_effects or _is_raised(error))
    if nothing_done and recorder.failure is None and undone():
        raise UnfitError(f"numbers are constants here ({error})") from None
    _plain_error(error)


def _is_raised(error: BaseException) -> bool:
    """Does an error come from a ``raise`` in code of the user's, rather than from C?"""
    way = error.__traceback__
    while way is not None and way.tb_next is not None:
        way = way.tb_next
    if way is None or owner_of(way.tb_frame.f_code, way.tb_frame.f_globals) != "user":
        return False
    return way.tb_frame.f_code.co_code[way.tb_lasti] == _RAISE


def _plain_error(error: BaseException) -> None:
    """Put values for numbers in an error, and in those it came from."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        _replace_in(found, {id(x): plain_parts(x) for x in _parts_of(found)})
        waiting += (found.__cause__, found.__context__)


def take_back(recorder: Recorder, result: Any, known: Iterable[Any]) -> None:
    """Put values where a run left numbers that stood for others, be it as keys or in tuples.

    Sizes are looked for in the ``result`` of the run, in all that it can reach, and in ``known`` objects and what these
    contain: methods and functions among those lead to everything there is.
    """
    if recorder.scope is not None:
        _plain_sizes([result], wide=True)
        _plain_sizes(known, wide=False)
    put_back(recorder.handed_out)


def put_back_everywhere(numbers: Sequence[ref[Any]]) -> None:
    """Put values where some of these numbers are held, be it in objects that ``gc.freeze()`` put aside.

    Python does not tell what refers to a number among those. Where numbers are left that no garbage refers to, they are
    brought back meanwhile.
    """
    put_back(numbers)
    if gc.get_freeze_count() and any(r() is not None for r in numbers):
        gc.collect()
        if any(r() is not None for r in numbers):
            gc.unfreeze()
            try:
                put_back(numbers)
            finally:
                gc.freeze()


def put_back(numbers: Iterable[ref[Any]]) -> None:
    """Put values where some of these numbers are held."""
    held = [x for x in [r() for r in numbers] if x is not None]
    values = {id(x): plain(x) for x in held}
    while held:
        _replace_in_context(values)
        tuples: list[Any] = []
        asked = tuple(held)  # since CPython 3.13 among what refers to its items
        for holder in gc.get_referrers(*asked):
            if isinstance(holder, (tuple, slice)):
                if holder is not asked:
                    tuples.append(holder)
            elif holder is not held:
                _replace_in(holder, values)
        held = [x for x in tuples if plain_parts(x) is not x]
        values = {id(x): plain_parts(x) for x in held}


def _replace_in_context(values: Mapping[int, Any]) -> None:
    """The same for context variables of this thread."""
    for variable, value in copy_context().items():
        if id(value) in values:
            variable.set(values[id(value)])


def _replace_in(holder: Any, values: Mapping[int, Any]) -> None:
    """Let ``holder`` hold the values of what it holds, which are given by the identities of that."""
    if isinstance(holder, (list, deque)):
        for i, x in enumerate(holder):
            if id(x) in values:
                holder[i] = values[id(x)]
    elif isinstance(holder, dict):
        for key, x in list(dict.items(holder)):
            if id(x) in values:
                dict.__setitem__(holder, key, values[id(x)])
        plain_keys(holder)
    elif isinstance(holder, set):
        old = [x for x in holder if id(x) in values]
        holder.difference_update(old)
        holder.update([values[id(x)] for x in old])
    elif isinstance(holder, BaseException):
        holder.args = values.get(id(holder.args), holder.args)
        _replace_in(vars(holder), values)
    else:
        _replace_in_function(holder, values)
    for name, x in _attributes(holder):
        if id(x) in values:
            object.__setattr__(holder, name, values[id(x)])


def _replace_in_function(holder: Any, values: Mapping[int, Any]) -> None:
    """The same for what functions hold."""
    if isinstance(holder, CellType):
        holder.cell_contents = values.get(id(holder.cell_contents), holder.cell_contents)
    elif isinstance(holder, FunctionType):
        holder.__defaults__ = values.get(id(holder.__defaults__), holder.__defaults__)
    elif type(holder) is partial:
        arguments = values.get(id(holder.args), holder.args)
        made: Any = holder  # which is known to have more than its stub says
        made.__setstate__((holder.func, arguments, holder.keywords, vars(holder)))


def _plain_sizes(objects: Iterable[Any], wide: bool) -> None:
    """Put values where these objects, or what they contain, hold sizes that were symbols in a recording."""
    waiting, seen = deque(objects), set[int]()
    while waiting and len(seen) < _MOST_OBJECTS:
        holder = waiting.popleft()  # what is near comes first
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        parts = _parts_of(holder, wide)
        values = {id(x): plain_parts(x) for x in parts if plain_parts(x) is not x}
        if values and not isinstance(holder, tuple):
            _replace_in(holder, values)
        waiting += parts


def _parts_of(holder: Any, wide: bool = False) -> list[Any]:
    """What a container or an object of a program holds; ``wide``: functions and the like, too."""
    if isinstance(holder, (list, tuple, set, frozenset, deque)):
        found = list(holder)
    elif isinstance(holder, dict):
        found = [*dict.keys(holder), *dict.values(holder)]
    elif isinstance(holder, BaseException):
        found = [holder.args, *vars(holder).values()]
    else:
        found = _parts_behind(holder) if wide else []
    return found + [x for _, x in _attributes(holder, wide)]


def _parts_behind(holder: Any) -> list[Any]:
    """What functions, methods and iterators hold."""
    kind = type(holder)
    if kind is FunctionType:
        return [*(holder.__closure__ or ()), holder.__defaults__, holder.__kwdefaults__]
    if kind is partial:
        return [holder.func, holder.args, holder.keywords]
    if kind in _METHODS:
        return [holder.__self__]
    iterates = isinstance(holder, Iterator) and kind.__module__ in ("builtins", "itertools")
    return gc.get_referents(holder) if iterates or kind is CellType else []  # a cell may be empty


def _attributes(holder: Any, wide: bool = True) -> list[tuple[str, Any]]:
    """The names and values of what an object of a program is made of; nothing for other objects."""
    kind: type = type(holder)
    known = is_transparent(kind) or (wide and not is_library_class(kind))
    return [pair for some in attributes_of(holder) for pair in some.items()] if known else []
