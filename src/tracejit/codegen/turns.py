"""Operands that take turns in memory: slices that begin one after the other and go on in equal, small steps.

What all windows of a pooling see at neighbouring elements of their kernel lies so, and what is written back there. Such
operands share one pointer, and their step is part of the text: then the vectoriser sees that they fill the memory
together, and moves whole vectors where it would move one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..extents import hint, is_symbolic
from ..ir.graph import Value
from ..passes.fusion.groups import varies
from .nest import Access, Layout

#: Vectors of larger steps would be mostly what is not asked for.
MOST_STEPS = 4
#: So many elements of several short axes are printed one after the other, and lie side by side. Where they begin is
#: part of the text, but for sizes that vary: there would soon be as many plans as a tree may have.
MOST_APART = 16
#: From so many points on a kernel of its own is worth while for a step that is small now.
MANY_POINTS = 1 << 13


class Turns:
    """The pointers that operands of one function share, which goes over so many ``points``."""

    def __init__(self, overwritten: Iterable[Value], points: int = 0) -> None:
        self.overwritten = set(overwritten)
        self.many = points >= MANY_POINTS
        self.first: dict[tuple[object, ...], list[tuple[str, Layout]]] = {}
        self.shared: dict[Access, tuple[str, Layout]] = {}
        self.rows: int | None = None  # the axis of short rows, many of which are worked on at once
        self.apart: tuple[int, ...] = ()  # axes whose elements are printed one after the other

    def clear(self) -> None:
        """Another function begins."""
        self.first.clear()
        self.shared.clear()

    def takes(self, access: Access) -> bool:
        """Does an operand go on in small steps? For many points they are decided to be what they are now."""
        step = access.strides[-1] if access.strides else 1
        if is_symbolic(step) and not self.many:
            return False
        if not 1 < hint(step) <= MOST_STEPS or not _may_step(access):
            return False
        return int(step) > 1

    def term(self, access: Access, axis: int, variable: str) -> str | None:
        """What is added to an address along an axis, where the step is part of the text."""
        step = access.strides[axis]
        if axis == self.rows or axis in self.apart:
            known = not varies(step) and 0 < step <= MOST_APART and _may_step(access)
            return f"{variable} * {int(step)}" if known else None
        if axis < len(access.strides) - 1:
            return None
        if not is_symbolic(step) and step == -1 and _may_step(access):
            return f"(0 - {variable})"  # vectors of it need only be turned round
        return f"{variable} * {int(step)}" if self.takes(access) else None

    def pointer(self, name: str, access: Access, written: bool) -> tuple[str, Layout]:
        """The name of the pointer of an operand that would be called ``name``, and where it points."""
        layout = access.layout
        assert layout is not None
        if not self.takes(access) or layout.root in self.overwritten:
            return name, layout
        key = (layout.root, written, access.strides)
        known = self.first.setdefault(key, [])
        for found in known:
            ahead = layout.offset - found[1].offset
            if is_symbolic(ahead) and not self.many:
                continue
            if abs(hint(ahead)) < hint(access.strides[-1]):
                self.shared[access] = found
                return found
        known.append((name, layout))
        return name, layout

    def ahead(self, access: Access, name: str) -> list[str]:
        """The term of an address for an operand that begins behind its pointer."""
        found = self.shared.get(access)
        if found is None or found[0] != name or access.layout is None:
            return []
        ahead = int(access.layout.offset - found[1].offset)
        return [str(ahead)] if ahead else []


def _may_step(access: Access) -> bool:
    """Not half precision: LLVM 22 stops with a failed assertion at some loops with steps."""
    return access.layout is not None and not access.layout.root.spec.dtype.is_half
