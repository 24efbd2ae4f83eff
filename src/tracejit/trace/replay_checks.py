"""What is asked before a call is served: the Python state, the captured tensors, arguments that are known by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..generated import define
from ..layout import MemoryLayout, layout_of
from ..tensor import Tensor
from ..tensor_core import REBOUND

if TYPE_CHECKING:
    from .entry import Entry


def generate(
    name: str, lines: Sequence[str], names: dict[str, Any], entry_point: str
) -> tuple[Any, str]:
    """Compile generated lines; returns the function and its text."""
    text = "\n".join(lines) + "\n"
    return define(text, f"{entry_point} {name}", entry_point, names), text


def make_holds(entry: Entry) -> Callable[[], bool]:
    """A function that checks the Python state and the captured tensors of an entry."""
    assert entry.guard is not None
    if not entry.captured:
        return entry.guard.holds
    names = {
        "guard": entry.guard.holds,
        "rebound": REBOUND,
        "captured": Captured(tuple(entry.captured)),
    }
    lines = [
        "def holds():",
        "    return guard() and (rebound[0] == captured.seen or captured.hold())",
    ]
    function, _ = generate(entry.owner.name, lines, names, "holds")
    return function  # type: ignore[no-any-return]


def make_accepts(entry: Entry) -> Callable[[list[Tensor]], bool]:
    """A function that checks the arguments of which an entry expects more than a signature says."""
    names: dict[str, Any] = {}
    lines = ["def accepts(tensors):"]
    for number, (position, expected) in enumerate(entry.pinned):
        lines.append(f"    t = tensors[{position}]")
        if isinstance(expected, Tensor):
            names[f"p{number}"] = expected
            lines.append(f"    if t is not p{number}: return False")
        else:
            lines += [f"    if {part}: return False" for part in expected.broken(names)]
    function, _ = generate(entry.owner.name, [*lines, "    return True"], names, "accepts")
    return function  # type: ignore[no-any-return]


class Captured:
    """Captured tensors as they were; looked at again only when some captured tensor of the process changed."""

    __slots__ = ("seen", "tensors")

    def __init__(self, tensors: tuple[tuple[Tensor, MemoryLayout, bool], ...]) -> None:
        self.tensors = [(t, layout, flag, t.is_leaf) for t, layout, flag in tensors]
        for tensor, *_ in self.tensors:
            tensor._watch()
        self.seen = -1

    def hold(self) -> bool:
        """Are layouts, ``requires_grad`` and leaves the same?"""
        # Read before comparing: a change that another thread makes meanwhile is seen by the next check.
        seen = REBOUND[0]
        for tensor, layout, requires_grad, leaf in self.tensors:
            if layout_of(tensor) is not layout:
                return False
            if tensor.requires_grad is not requires_grad or tensor.is_leaf is not leaf:
                return False
        self.seen = seen
        return True
