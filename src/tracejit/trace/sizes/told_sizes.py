"""Sizes that runs tell, in keys of structures and in plans: named in the order in which they are found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...extents import Extent
from ...ir.builder import attribute_key
from ...polynomial import Terms
from ...sizes import float_bits, largest, smallest
from ...symbols import SMALLEST
from .found_sizes import Registry

_SYMBOL = re.compile(r"\bn(\d+)\b")


class Told:
    """Names the symbols of a registry independently of how they are numbered there."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.order: dict[int, int] = {}

    def number(self, number: int) -> None:
        """A found size: the next name."""
        self.order.setdefault(number, len(self.order))

    def name(self, number: int) -> Any:
        """The name of a symbol: a number, or what computes it."""
        statement = self.registry.symbols[number].statement
        if not statement:
            return self.order[number]
        text = statement.split(" = ", 1)[1]
        return _SYMBOL.sub(lambda found: f"<{self.name(int(found[1]))}>", text)

    def terms(self, terms: Terms) -> Any:
        """A polynomial in names."""
        return tuple([(tuple(map(self.name, monomial)), factor) for monomial, factor in terms])

    def key(self, extent: Extent, met: list[int]) -> Any:
        """An extent in names; its factors from two on are sizes."""
        parts = []
        for names, factor in self.terms(extent.terms):
            if abs(factor) >= SMALLEST:
                met.append(abs(factor))
                parts.append((names, "size", factor < 0))
            else:
                parts.append((names, factor, False))
        return tuple(parts)

    def fixed(self, x: Any) -> Any:
        """``x`` (nested) with extents in names, all numbers as they are."""
        if isinstance(x, tuple):
            return tuple([self.fixed(part) for part in x])
        return self.terms(x.terms) if type(x) is Extent else attribute_key(x)


class Mapped:
    """The symbols of a registry as extents of a plan."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.extents: dict[int, Any] = {}

    def given(self, number: int, new: Any) -> None:
        """``new`` stands for a found size."""
        self.extents.setdefault(number, new)

    def symbol(self, number: int) -> Any:
        """What stands for a symbol."""
        found = self.extents.get(number)
        if found is None:
            statement = self.registry.symbols[number].statement
            text = statement.split(" = ", 1)[1]
            names = {f"n{n}": self.symbol(int(n)) for n in _SYMBOL.findall(text)}
            functions = {"max": largest, "min": smallest, "float_bits": float_bits}
            found = self.extents[number] = eval(text, {"__builtins__": {}, **functions}, names)
        return found

    def extent(self, x: Extent, size: Callable[[int], Any]) -> Any:
        """What stands for an extent; ``size`` makes its factors from two on sizes."""
        total: Any = 0
        for monomial, factor in x.terms:
            part: Any = size(abs(factor)) if abs(factor) >= SMALLEST else abs(factor)
            for number in monomial:
                part = part * self.symbol(number)
            total = total + part if factor > 0 else total - part
        return total
