"""Names that are free in a piece of generated code: one for each object, none of them Python's own."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from typing import Any, NamedTuple

import tracejit

from ..device import device
from ..utils import _pytree as pytree
from . import _pytree as fx_pytree

__all__ = ["CUSTOM_BUILTINS", "Namespace", "snake_case"]


class CustomBuiltin(NamedTuple):
    """An object that all generated code knows by a name, and the line that imports it."""

    import_str: str
    obj: Any


#: Their ``repr`` is no Python without an import.
CUSTOM_BUILTINS: dict[str, CustomBuiltin] = {
    "inf": CustomBuiltin("from math import inf", math.inf),
    "nan": CustomBuiltin("from math import nan", math.nan),
    "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
    "tracejit": CustomBuiltin("import tracejit", tracejit),
    "device": CustomBuiltin("from tracejit import device", device),
    "fx_pytree": CustomBuiltin("import tracejit.fx._pytree as fx_pytree", fx_pytree),
    "pytree": CustomBuiltin("import tracejit.utils._pytree as pytree", pytree),
}
#: Names that only their own object may have; keywords are nobody's.
_TAKEN: dict[str, Any] = {
    **{name: object() for name in keyword.kwlist},
    **vars(builtins),
    **{name: known.obj for name, known in CUSTOM_BUILTINS.items()},
}
_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NAME = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")


def snake_case(text: str) -> str:
    """The text as variables are spelled.

    >>> snake_case("MultiHead")
    'multi_head'
    """
    return _CAPITAL.sub(r"_\1", text).lower()


def _legal(candidate: str) -> tuple[str, str, str | None]:
    """A name that Python takes, and the two parts of it: what is before its number, and the number."""
    if _NAME.match(candidate) is None:
        candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
    found = _NAME.match(candidate)
    assert found is not None
    return candidate, found[1], found[2]


class Namespace:
    """Names, each of one object at most.

    >>> names = Namespace()
    >>> names.create_name("add", None), names.create_name("add", None), names.create_name("max", None)
    ('add', 'add_1', 'max_1')
    """

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A name like ``candidate``: that of ``obj`` where it has one, and its own from now on unless it is None."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        candidate, base, digits = _legal(candidate)
        if digits is None or candidate in self._used:
            number = self._counts.get(base, 0)
            if candidate in _TAKEN and _TAKEN[candidate] is not obj:
                number += 1
                candidate = f"{base}_{number}"
        else:
            number = int(digits)
        while candidate in self._used:
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Say whose name it is."""
        assert self._names.setdefault(obj, name) is name, "obj is already associated"

    def rename(self, obj: Any, name: str) -> None:
        """Give an object that has a name another one."""
        assert obj in self._names, f"Object {obj} is not known"
        self._names[obj] = name
        self._used.add(name)
