"""Numbers in place of symbolic sizes, in anything made of tuples, lists, dicts and the records of plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...extents import Extents, is_symbolic
from ...sizes import Computed
from ...types import TensorType
from ..plan.records import Constant, HostCall, HostOperand, Slot

_RECORDS = (TensorType, HostCall, HostOperand, Slot, Constant)


def numbers_in(value: Any) -> Iterator[Any]:
    """The plain numbers in nested tuples, dicts and records."""
    stack = [value]
    while stack:
        x = stack.pop()
        if isinstance(x, (tuple, list)):
            stack.extend(x)
        elif isinstance(x, dict):
            stack.extend(x.values())
        elif isinstance(x, _RECORDS):
            stack.extend(getattr(x, f.name) for f in dataclasses.fields(x))
        elif is_symbolic(x):
            yield x


Filler = Callable[[Mapping[int, Any]], Any]


def filler(value: Any) -> Filler | None:
    """``value`` as a function of the numbers that take the place of its symbolic sizes, by identity; None without any.

    >>> n = Extents().symbol(5)
    >>> filler((1, [n, 2]))({id(n): 7}), filler((1, 2))
    ((1, [7, 2]), None)
    """
    if is_symbolic(value):
        key = id(value)
        return lambda found: found[key]
    kind: Any = type(value)
    if isinstance(value, (tuple, list)):
        return _joined(value, kind)
    if isinstance(value, dict):
        names = tuple(value)
        return _joined(tuple(value.values()), lambda parts: dict(zip(names, parts, strict=True)))
    if isinstance(value, _RECORDS):
        parts = tuple([getattr(value, f.name) for f in dataclasses.fields(value)])
        return _joined(parts, lambda parts: kind(*parts))
    return None


def _joined(parts: Sequence[Any], join: Callable[[list[Any]], Any]) -> Filler | None:
    """The filler of what ``join`` makes of ``parts``."""
    pairs = [(part, filler(part)) for part in parts]
    if all(fill is None for _, fill in pairs):
        return None
    return lambda found: join([part if fill is None else fill(found) for part, fill in pairs])


class Numbered:
    """``value`` (nested tuples, lists, dicts) as a function of the values of the symbols it is made of."""

    def __init__(self, scope: Extents, value: Any) -> None:
        self.value = value
        self.fill = filler(value)
        symbolic = {id(x): x for x in numbers_in(value)} if self.fill is not None else {}
        self.keys = tuple(symbolic)
        self.compute = Computed(scope, list(symbolic.values()))

    def __call__(self, sizes: Mapping[int, int]) -> Any:
        """``value`` with numbers in place of what is made of symbols."""
        if self.fill is None:
            return self.value
        return self.fill(dict(zip(self.keys, self.compute(sizes), strict=True)))


def bind_numbers(scope: Extents, sizes: Mapping[int, int], value: Any) -> Any:
    """``value`` with numbers in place of what is made of symbols."""
    return Numbered(scope, value)(sizes)
