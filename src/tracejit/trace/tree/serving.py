"""What serves the calls of a compiled tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..numbers.drawn import Rewinding
from ..replay.replay import make_replay, writable
from ..sizes.sized_walk import SizedWalk
from .presumed import PresumingWalk, presumed
from .segments import Runner
from .walk import Walk

if TYPE_CHECKING:
    from ..entry import Entry


def serving(entry: Entry, root: Runner) -> tuple[Callable[..., Any], str]:
    """The function that serves calls, and its generated text where there is one."""
    serve, text = _serving(entry, root)
    generators = entry.signature.numbers.generators
    return (Rewinding(serve, generators.values()) if generators else serve), text


def _serving(entry: Entry, root: Runner) -> tuple[Callable[..., Any], str]:
    if entry.root.finds_sizes:
        return SizedWalk(entry, root, *entry._planned), ""
    if entry.signature.device >= 0 and presumed(root):
        return PresumingWalk(entry, root), ""
    if writable(root):
        return make_replay(entry, root)
    return Walk(entry, root), ""
