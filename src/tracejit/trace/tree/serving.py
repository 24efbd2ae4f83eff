"""What serves the calls of a compiled tree whose sizes are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..replay.replay import make_replay, writable
from .presumed import PresumingWalk, presumed
from .segments import Runner
from .walk import Walk

if TYPE_CHECKING:
    from ..entry import Entry


def serving(entry: Entry, root: Runner) -> tuple[Callable[..., Any], str]:
    """The function that serves calls, and its generated text where there is one."""
    if entry.signature.device >= 0 and presumed(root):
        return PresumingWalk(entry, root), ""
    if writable(root):
        return make_replay(entry, root)
    return Walk(entry, root), ""
