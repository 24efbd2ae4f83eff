"""The run that is recorded: the function's own code, with numbers that vary in the places where they are found."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..modes import MODES
from ..tensor import Tensor
from .number_arguments import standing_in
from .number_functions import following
from .outside import seen_outside
from .places import patched
from .recorder import Recorder
from .results import flatten_result, result_of
from .rounds import Rounds
from .signature import shows_sizes
from .state import StateGuard
from .state_calls import watching

if TYPE_CHECKING:
    from .entry import Entry


@dataclass(frozen=True)
class Given:
    """What a call was given: its tensors, one that hands over sizes too, and the objects that are its constants."""

    tensors: Sequence[Tensor]
    args: Any
    kwargs: Any
    statics: Sequence[Any]


def run_recorded(
    entry: Entry, recorder: Recorder, guard: StateGuard, given: Given, leaves: list[Any]
) -> Any:
    """Run the function; its result, and the structure of it, whose leaves are appended to ``leaves``.

    The caller takes the recorder away again.
    """
    if entry.owner.plans.opens and entry.behind is None and not guard.limits:
        recorder.rounds = Rounds(_run.__code__, guard.reached, guard.holds)
    listener = watching()
    if listener is not None:
        listener.base = _run.__code__
    recorder.codes, recorder.known_hooks = guard.codes, guard.hooks
    result, structure = _run(entry, recorder, guard, given, leaves)
    if recorder.apart:
        entry.apart = True
        entry.owner.uses.set_apart(entry, recorder.path)
    if recorder.scope is not None and shows_sizes(structure):
        result = result_of(structure, iter(leaves))
    return result, structure


def _run(
    entry: Entry, recorder: Recorder, guard: StateGuard, given: Given, leaves: list[Any]
) -> Any:
    """The result with sizes and numbers as they were recorded."""
    function, source = entry.owner.function, entry.signature.numbers.source
    standing = {source("place", p, p.kind, str(p.check.key)): p for p in guard.places}
    positions = iter(range(len(entry.number_names)))
    outside = partial(seen_outside, guard, given.statics)
    sizes: dict[int, Any] = {}

    def replace(value: Any) -> Any:
        position = next(positions)
        if position not in entry.varying:
            return sizes.get(position, value)
        number = source("argument", position, type(value), entry.number_names[position])
        return recorder.varying(number, value)

    recorder.item_lines = entry.owner.uses.item_lines
    later = ExitStack()
    follows = entry.varying or standing or recorder.item_lines
    if not follows:
        recorder.follow = lambda: later.enter_context(following(guard))
    try:
        MODES.recorder = recorder  # not by a context manager, whose own code could be interrupted
        if entry.sizes:  # before any number is handed out, which may vary beside them
            told = recorder.sizes_handed_over(given.tensors[-1])
            sizes.update(zip(entry.sizes, told, strict=True))
        if follows:
            later.enter_context(following(guard))
            later.enter_context(patched(standing, recorder.varying, recorder.stores))
        args, kwargs = given.args, given.kwargs
        if entry.varying or entry.sizes:
            args, kwargs = later.enter_context(standing_in(args, kwargs, replace))
        result = function(*args, **kwargs)
        return result, flatten_result(result, leaves, outside)
    finally:
        recorder.follow = None
        later.close()
