"""Which code must have the numbers themselves, and cleaning up where a recording left something else in their place.

Code in C sometimes takes nothing but a true ``float`` or ``int``, and ``type(x)`` tells the two apart. Functions that
mention such things keep their numbers as constants.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any

from ..varying import plain
from .numbers import UnfitError
from .places import Place, plain_parts
from .state_checks import Check, Read
from .state_reads import reads_of

if TYPE_CHECKING:
    from .recorder import Recorder

_GLOBALS = frozenset(
    {"ctypes", "datetime", "decimal", "Decimal", "json", "marshal", "pow", "timedelta", "type"}
)
_ATTRIBUTES = frozenset({"Decimal", "dumps", "dump", "isscalar", "from_float", "timedelta"})


def check_codes(codes: Iterable[CodeType]) -> None:
    """Raise :class:`UnfitError` when code that mentions these needs the numbers themselves."""
    for code in codes:
        if code.co_filename == "<string>" and code.co_name.startswith("__"):
            continue  # a method that a dataclass has by itself
        found = (_GLOBALS & reads_of(code).globals) | _ATTRIBUTES.intersection(code.co_names)
        if found:
            raise UnfitError(f"numbers are constants here, because the code uses {min(found)!r}")


def plain_state(checks: Iterable[Check]) -> None:
    """Put values where varying numbers were stored in the Python state that is checked."""
    for check in checks:
        if isinstance(check, Read) and check.writable:
            Place(check, object).put_plain()
        for snapshot in getattr(check, "snapshots", ()):
            own = vars(snapshot.module)
            found = {key: plain_parts(x) for key, x in own.items()}
            own.update({key: x for key, x in found.items() if x is not own[key]})


def check_error(error: Exception, recorder: Recorder) -> None:
    """Raise :class:`UnfitError` for an error that only true numbers would have avoided, if nothing was done yet."""
    misfit = "VaryingFloat" in str(error) or "VaryingInt" in str(error)
    if misfit and isinstance(error, TypeError) and not recorder.has_effects:
        raise UnfitError(f"numbers are constants here ({error})") from None


def take_back(numbers: Iterable[Any]) -> None:
    """Put values where these varying numbers were stored while a function ran."""
    found = {id(x): x for x in numbers}
    if not found:
        return
    for holder in gc.get_referrers(*found.values()):
        if holder is found:
            continue
        if isinstance(holder, list):
            for i, x in enumerate(holder):
                if id(x) in found:
                    list.__setitem__(holder, i, plain(x))
        elif isinstance(holder, dict):
            for key, x in list(dict.items(holder)):
                if id(x) in found:
                    dict.__setitem__(holder, key, plain(x))
        elif isinstance(holder, CellType):
            holder.cell_contents = plain(holder.cell_contents)
