"""Why a call was recorded: the difference between its signature and the nearest one known, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from .numbers.structures import Varying
from .replay.read_places import Held, arguments_in
from .signature import statics_in
from .sizes.shape_uses import groups_in

if TYPE_CHECKING:
    from .entry import Entry

#: Signatures, the latest ones, that a new one is compared with.
NEIGHBOURS = 8
FIXED = ("grad mode", "inference mode", "the default dtype")


def why_new(entries: Mapping[Any, list[Entry]], key: Any, tensors: list[Tensor]) -> str:
    """Why no known entry serves a call with ``key``."""
    variants = entries.get(key)
    if variants:
        return variants[-1].difference(tensors)
    recent = list(entries.values())[
        -NEIGHBOURS:
    ]  # a search through all would grow with their number
    latest = [found[-1] for found in recent if found]
    if not latest:
        return "the first call"
    nearest = min(reversed(latest), key=lambda entry: sum(1 for _ in differences(entry, key)))
    return "; ".join(differences(nearest, key)) or "another combination of arguments"


def differences(entry: Entry, key: Any) -> Iterator[str]:
    """What in ``key`` is not as in the key of ``entry``."""
    known = entry.key
    for name, now, before in zip(FIXED, key, known, strict=False):
        if now != before:
            yield f"{name}: now {now}, before {before}"
    now, before = arguments_in(key[3]), arguments_in(known[3])
    if isinstance(now, Varying) and not isinstance(before, Varying):
        yield "numbers among the arguments changed, and vary from here on"
    elif isinstance(key[3], Held) and not isinstance(known[3], Held):
        yield "what the function leaves in its state is read at every call from here on"
    elif key[3] != known[3]:
        yield _structures(key[3], known[3])
    if groups_in(key) and not groups_in(known):
        yield "extents of the arguments changed again, and vary from here on"
        return
    tensors, places = _tensors_and_places(key[4:])
    known_tensors, known_places = _tensors_and_places(known[4:])
    if len(tensors) != len(known_tensors):
        yield (
            f"now {len(tensors)} tensors, before {len(known_tensors)}"
            if key[3] == known[3]
            else "other arguments"
        )
        return
    for name, now, before in zip(entry.names, tensors, known_tensors, strict=False):
        if now != before:
            yield _tensors(name, now, before)
    if places != known_places:
        yield "the same tensor is passed twice in another place"


def _tensors_and_places(keys: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    """The keys of tensors, and which of them are one tensor (None: no two are)."""
    if keys and not isinstance(keys[-1][0], type):
        return keys[:-1], keys[-1]
    return keys, None


def _tensors(name: str, now: Any, before: Any) -> str:
    kind, layout, *flags = now
    before_kind, before_layout, *before_flags = before
    if kind is not before_kind:
        return f"{name}: now a {kind.__name__}, before a {before_kind.__name__}"
    if layout != before_layout:
        return f"{name}: now {layout}, before {before_layout}"
    which = int(flags[0] == before_flags[0])
    what = ("requires_grad", "inference tensor")[which]
    return f"{name}: {what} now {flags[which]}, before {before_flags[which]}"


def _structures(now: Any, before: Any) -> str:
    new, old = list(statics_in(now)), list(statics_in(before))
    if len(new) == len(old):
        changed = [(a, b) for a, b in zip(new, old, strict=True) if a != b]
        if changed:
            return ", ".join(f"an argument was {b!r} and is {a!r}" for a, b in changed)
    return "the arguments are nested or named in another way"
