"""Which code must have the numbers themselves, and cleaning up where a recording left something else in their place.

Code in C sometimes takes nothing but a true ``float`` or ``int``, and ``type(x)`` tells the two apart. Functions that
mention such things keep their numbers as constants.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import CellType
from typing import Any

from ..varying import plain
from .numbers import UnfitError
from .state_reads import Names

_GLOBALS = frozenset(
    {"ctypes", "datetime", "decimal", "Decimal", "json", "marshal", "pow", "timedelta", "type"}
)
_ATTRIBUTES = frozenset({"Decimal", "dumps", "dump", "isscalar", "from_float", "timedelta"})


def check_names(names: Names) -> None:
    """Raise :class:`UnfitError` when code that mentions these needs the numbers themselves."""
    found = sorted((_GLOBALS & names.globals) | (_ATTRIBUTES & names.used))
    if found:
        raise UnfitError(f"numbers are constants here, because the code uses {found[0]!r}")


def is_misfit(error: TypeError) -> bool:
    """Is this about something that takes nothing but true numbers?"""
    return "VaryingFloat" in str(error) or "VaryingInt" in str(error)


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
