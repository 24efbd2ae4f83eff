"""A call that is recorded, and what gives its result: the run itself, or the program that its recording becomes.

Large operations are put off while the function runs (`deferral`). If much waits at the end, and the program can be
there soon, it computes the result, fused and with all threads; what nobody looks at is never computed. Otherwise what
waits is computed op by op, as it would have been.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import config
from ..deferral import Deferral
from ..modes import MODES
from ..runtime.ahead import TooLong, within
from ..tensor import Tensor
from .behind import Pending
from .recording.kept_alive import give_back
from .recording.recording import Recording
from .replay.ending import NotReplayable, Refused
from .state.package import replaced
from .tree.walk import UnseenSegment

if TYPE_CHECKING:
    from .entry import Entry

__all__ = ["record"]

#: What the explanation of a recording says of its result then.
SERVED = "; the result is the program's"
#: The eager work that has to wait, as a part of the time that planning takes. With a warm store that is all it takes.
WORTH = 0.4
#: How much longer than the eager work that waits it may take to make the program, which later calls need not do.
PATIENCE = 6.0
#: About how long planning takes, for a program and for each of its statements, in seconds.
_PER_PROGRAM, _PER_STATEMENT = 8e-3, 6e-4


def record(
    recorded: Callable[..., Any],
    entry: Entry,
    tensors: list[Tensor],
    args: Any,
    kwargs: Any,
    why: str,
) -> Any:
    """What ``recorded`` gives, which runs the function for these arguments and adds what it did to the tree.

    >>> import tracejit as tj
    >>> f = tj.compile(lambda x: (x * 0.25).exp().sum())
    >>> f(tj.zeros(1 << 24)), f.stats.recordings
    (tensor(16777216.), 1)
    >>> SERVED in str(f.explain())
    True
    """
    if not config.defers or entry.behind is not None or entry.owner.verify:
        return recorded(entry, tensors, args, kwargs, why)
    deferral = MODES.deferral = Deferral()
    try:
        result = [recorded(entry, tensors, args, kwargs, why)]
        MODES.deferral = None
        planning = _planning(entry)
        if deferral.seconds > WORTH * planning and _can_serve(entry, entry.latest):
            _serve(entry, tensors, PATIENCE * deferral.seconds - planning, result)
        return result[0]
    finally:
        entry.latest = None
        deferral.end()
        give_back()


def _can_serve(entry: Entry, found: Recording | None) -> bool:
    """Does the program do nothing but compute the result once more?"""
    guard = entry.guard
    if found is None or guard is None or not (entry.usable and entry.open):
        return False
    if entry not in entry.owner.entries.get(entry.key, ()):
        return False
    if any(name.startswith("Tensor.") for name, _ in replaced()):
        return False  # by which eager code goes backward, too
    drawn = found.random_calls or entry.signature.numbers.generators
    told = any(
        (entry.varying, entry.sizes, entry.sized, entry.extents, entry.held, entry.handed_in)
    )
    left = found.writes or found.kept_writes or found.stores or found.held or found.later
    shown = found.numbers or found.walks or found.freed
    return not (told or left or drawn or shown or guard.appended or found.effects or found.sizes)


def _planning(entry: Entry) -> float:
    """About how long it takes to plan the program, in seconds."""
    count = sum(len(segment.statements) for segment in entry.root.segments())
    return _PER_PROGRAM + _PER_STATEMENT * count


def _serve(entry: Entry, tensors: list[Tensor], seconds: float, result: list[Any]) -> None:
    """Put the program's result in the place of the run's, unless compiling its kernels takes longer than this.

    They are compiled all the same, by other threads while this one computes what waits, for the next call.
    """
    try:
        with within(seconds):
            result[0] = entry.replay(tensors)
        entry.history[-1] += SERVED
    except (TooLong, Refused, Pending, NotReplayable, UnseenSegment):
        pass
