"""Generated functions, and the one that looks at arguments of which a recording expects more than a signature says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...generated import define
from ...tensor import Tensor

if TYPE_CHECKING:
    from ..entry import Entry


def generate(
    name: str, lines: Sequence[str], names: dict[str, Any], entry_point: str
) -> tuple[Any, str]:
    """Compile generated lines; returns the function and its text."""
    text = "\n".join(lines) + "\n"
    return define(text, f"{entry_point} {name}", entry_point, names), text


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
