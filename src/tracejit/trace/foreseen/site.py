"""What an operation at one place of the user's code was given, and what it gave."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from ...deferred import Deferred
from ...dtypes import DType, get_default_dtype
from ...ir.graph import Value
from ...layout import MemoryLayout, layout_of
from ...ops.table import Op
from ...tensor import Tensor

__all__ = ["Place", "Site"]

#: Code, instruction, how many frames above the dispatcher's the user's is, and the line.
Place = tuple[CodeType, int, int, tuple[str, int]]
_NUMBERS = frozenset({bool, int, float})
#: Places that may come after one, before no more are looked for.
MOST_NEXT = 8


class Site:
    """An operation that ran, as it will be known again.

    ``code`` and ``instruction`` are the user's, whose frame is so many frames (``above``) above the dispatcher's;
    ``places`` are layouts of operands, or types and values of numbers. ``value`` is what was written down.
    """

    __slots__ = (
        "above",
        "attributes",
        "code",
        "default",
        "instruction",
        "is_view",
        "key",
        "layout",
        "line",
        "meta",
        "names",
        "nbytes",
        "next",
        "op",
        "places",
        "seconds",
        "steps",
        "value",
    )

    def __init__(
        self,
        op: Op,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        where: Place,
        value: Value,
    ) -> None:
        self.op = op
        self.code, self.instruction, self.above, self.line = where
        self.places = tuple(
            [layout_of(x) if isinstance(x, Tensor) else _Number.of(x) for x in operands]
        )
        self.attributes = attributes
        self.names = tuple(attributes)
        self.key = _key(attributes)
        self.default = get_default_dtype()
        self.value = value
        self.steps = ((op, attributes),)
        self.layout: MemoryLayout | None = (
            None  # of the result, which is put off; None: a view of what is there
        )
        self.meta: Any = None  # what lies like a view of what is put off
        self.is_view = False  # does the result show the operand?
        self.seconds = 0.0
        self.nbytes = 0
        #: What came after it, the latest first.
        self.next: list[Site] = []

    def leads_to(self, site: Site) -> None:
        """``site`` came after this one."""
        if site in self.next:
            self.next.remove(site)
        self.next.insert(0, site)
        del self.next[MOST_NEXT:]

    def is_at(self, above: int) -> bool:
        """Is the user's code there again? The dispatcher's frame is so many frames above."""
        try:
            frame = sys._getframe(above + 1 + self.above)
        except ValueError:
            return False
        return frame.f_code is self.code and frame.f_lasti == self.instruction

    def given(
        self, operands: Sequence[Any], attributes: dict[str, Any], versions: list[Any]
    ) -> list[Any] | None:
        """Arrays, and what stands for them, of operands like those of this; None where they, or options, are not.

        How often tensors among them were written to is added to ``versions``.
        """
        places = self.places
        if len(operands) != len(places):
            return None
        given: list[Any] = []
        for x, place in zip(operands, places, strict=False):
            if type(place) is _Number:
                if not place.is_again(x):
                    return None
                given.append(x)
            elif isinstance(x, Tensor):
                if x._layout is not place or x._requires_grad:
                    return None
                base = x._base
                if base is not None and base._requires_grad:
                    return None
                array = x._array
                if array is None:
                    block = x._block
                    array = block if type(block) is Deferred else x.array
                given.append(array)
                writes = x._writes
                versions.append((writes, writes.value))
            else:
                return None
        return given if (not attributes and not self.names) or self.has(attributes) else None

    def has(self, attributes: dict[str, Any]) -> bool:
        """Are the options the same ones?"""
        return tuple(attributes) == self.names and _key(attributes) == self.key

    def is_like(self, other: Site) -> bool:
        """Would whatever comes again as one of the two come again as the other?"""
        return (
            self.op is other.op
            and self.places == other.places
            and self.names == other.names
            and self.key == other.key
            and self.above == other.above
            and self.default is other.default
            and self.layout is other.layout
            and (self.meta is None) is (other.meta is None)
        )


def can_come_again(operands: Sequence[Any], attributes: dict[str, Any], out: Tensor) -> bool:
    """Is this an operation whose result is told by types, layouts and numbers, and that the tape knows nothing of?"""
    if _key(attributes) is None or out._requires_grad:
        return False
    for x in operands:
        if not isinstance(x, Tensor):
            if type(x) not in _NUMBERS:
                return False
            continue
        if x._requires_grad or (x._base is not None and x._base._requires_grad):
            return False
        layout = layout_of(x)
        if layout.device != -1 or layout.mirrored:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Number:
    """A number by type and value; zeros by their text, too, for the sign."""

    kind: type
    value: Any
    text: str

    @classmethod
    def of(cls, x: Any) -> _Number:
        return cls(type(x), x, "" if x else repr(x))

    def is_again(self, x: Any) -> bool:
        """Is a number the same one?"""
        same = type(x) is self.kind and x == self.value
        return same and (not self.text or repr(x) == self.text)


def _key(attributes: dict[str, Any]) -> bytes | None:
    """The values of options, by type and bits; None for what cannot be told so."""
    values = [x.short if type(x) is DType else x for x in attributes.values()]
    try:
        return marshal.dumps(values, 0)
    except ValueError:
        return None
