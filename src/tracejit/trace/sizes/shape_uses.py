"""Which extents of its tensors vary from call to call of a function, and which are constants.

The first two signatures that differ in nothing but extents are recorded as they are. With the third one, the extents
that changed become *sizes*: a call hands them over as the elements of a tensor of its own, inside they are like sizes
that a run tells (`found_sizes`), and one recording serves them all. Extents that were equal in all calls are one size.
Zero and one are never sizes: what they mean to broadcasting makes programs of their own. Where the recorded function
turns out to need the number (`range(n)`, text), the extent becomes a constant again, for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...layout import MemoryLayout
from ...symbols import SMALLEST
from ...tensor import Tensor
from ..signature import call_key, tensor_key
from ..tree.structure import stride_pattern
from .sized_walk import Unplanned

if TYPE_CHECKING:
    from ..entry import Entry

#: Signatures that differ in extents only before these vary, by what was asked for.
PLAIN = {None: 2, True: 1, False: 1 << 62}
#: Extents that one call may hand over.
MOST = 64
#: Forms of calls that are remembered, and layouts whose form is.
MAX_FORMS, MAX_LAYOUTS = 256, 1 << 14
#: Unseen decisions that are always allowed, and one more for each so many calls that were served.
PATIENCE, CALLS_PER_DECISION = 3, 8
#: What a call of a recording saves, in seconds, that is of one signature alone, and so many calls at the least before a
#: signature that is served with others is worth one.
SAVED, OFTEN = 20e-6, 32
#: Signatures served with others that are remembered.
MAX_SERVED = 512
#: Signatures whose recordings one that serves them too may replace, as long as they are not compiled.
REPLACED = 4
#: Operations of all rounds of native loops that are no reason to do without sizes.
FEW = 64
#: The name of the tensor in which a call hands over its extents.
EXTENTS = "extents"
#: Why an extent is a constant.
DECIDES, NUMBER = "decides what is computed at almost every call", "is used as a plain number"

Place = tuple[int, int]  # a tensor of the call, and a dimension of it
Groups = tuple[tuple[Place, ...], ...]


@dataclass(frozen=True, slots=True)
class Form:
    """What layouts have in common that may differ in extents."""

    dtype: str
    pattern: Any  # how strides follow from extents, or the strides
    aligned: bool
    device: int


@dataclass(frozen=True, slots=True)
class WideLayout:
    """The layouts of a tensor some of whose extents vary: these have names."""

    form: Form
    extents: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.form.dtype}[{', '.join(map(str, self.extents))}]"


_forms: dict[MemoryLayout, Form] = {}


def form_of(layout: MemoryLayout) -> Form:
    """The form of a layout, remembered."""
    found = _forms.get(layout)
    if found is None:
        if len(_forms) >= MAX_LAYOUTS:
            _forms.clear()
        shape, strides = layout.spec.shape, layout.strides
        pattern = stride_pattern(shape, strides)
        if pattern[0] == "free":
            pattern = strides
        found = Form(layout.spec.dtype.short, (len(shape), *pattern), layout.aligned, layout.device)
        _forms[layout] = found
    return found


class ShapeUse:
    """The extents in calls of one form, as one row of numbers."""

    def __init__(self, shapes: Sequence[Sequence[int]], plain: int) -> None:
        self.plain = plain  # signatures before extents vary
        self.places = tuple([(i, d) for i, shape in enumerate(shapes) for d in range(len(shape))])
        self.first: list[int | None] = [None] * len(self.places)
        self.classes = [0] * len(self.places)  # alike for extents that were equal in every call
        self.met = 0
        self.last: Sequence[int] | None = None
        self.varying: set[Place] = set()
        self.constant: dict[Place, str] = {}  # what was found to decide, and how
        self.groups: Groups = ()
        self.patience = OFTEN  # calls of one signature before it is recorded for itself
        self.before: list[Any] = []  # the signatures met before extents varied
        self.loops = False  # are there native loops, which do without sizes?
        self.rounds: tuple[int, ...] = ()  # of small ones

    def learn(self, extents: Sequence[int]) -> None:
        """A call with these extents has a new signature."""
        if extents == self.last:
            return  # something else about it is new
        self.last = extents
        self.met += 1
        numbers: dict[Any, int] = {}
        for i, n in enumerate(extents):
            self.classes[i] = numbers.setdefault((self.classes[i], n), len(numbers))
            if n >= SMALLEST and self.first[i] not in (None, n):
                self.varying.add(self.places[i])
            elif n >= SMALLEST:
                self.first[i] = n
        self._group()

    def settle(self, places: Iterable[Place], why: str) -> None:
        """These decide too much to vary."""
        self.constant.update(dict.fromkeys(places, why))
        self._group()

    def _group(self) -> None:
        """Extents that always were equal are one size."""
        groups: dict[int, list[Place]] = {}
        for number, place in zip(self.classes, self.places, strict=True):
            if place in self.varying and place not in self.constant:
                groups.setdefault(number, []).append(place)
        few = len(groups) <= MOST and self.met > self.plain and not self.loops
        self.groups = tuple(map(tuple, groups.values())) if few else ()


@dataclass(slots=True)
class Served:
    """A signature that is served with others: by which key, and the extents that it hands over."""

    use: ShapeUse
    key: Any
    extents: Tensor
    calls: int = 0

    @property
    def often(self) -> bool:
        """Is this the call from which on a recording of its own is worth what it costs?"""
        return self.calls == self.use.patience


class ShapeUses:
    """What is known about the extents of one function, by form of the call."""

    def __init__(self, dynamic: bool | None = None) -> None:
        self.plain = PLAIN[dynamic]
        self.known: dict[Any, ShapeUse] = {}
        self.of_keys: dict[Any, ShapeUse] = {}  # by the keys of wide signatures
        self.served: dict[Any, Served] = {}  # by their own signatures
        self.since = 0.0  # when the latest wide signature was met, in seconds
        self.active = False  # does any extent vary?
        self.constants: list[str] = []  # extents that may not, and why

    def wide(self, key: Any, tensors: list[Tensor]) -> tuple[Any, list[Tensor]] | None:
        """The key of the signature that serves all extents like those of a call, and its tensors."""
        served = self.served.get(key)
        if served is None:
            use = self.known.get(_form(key, len(tensors)))
            found = None if use is None or not use.groups else _widened(use, key, tensors)
            if use is None or found is None:
                return None
            if len(self.served) >= MAX_SERVED:
                self.served.clear()
            served = self.served[key] = Served(use, found[0], found[1][-1])
        served.calls += 1
        return None if served.often else (served.key, [*tensors, served.extents])

    def learn(self, key: Any, tensors: list[Tensor]) -> tuple[Any, list[Tensor]]:
        """The key and the tensors of a call that is new."""
        served = self.served.get(key)
        if not tensors or (served is not None and served.often):
            return key, tensors
        form = _form(key, len(tensors))
        shapes = [layout.spec.shape for _, layout, *_ in key[4 : 4 + len(tensors)]]
        use = self.known.get(form)
        if use is None:
            if len(self.known) >= MAX_FORMS:
                self.known.pop(next(iter(self.known)))
            use = self.known[form] = ShapeUse(shapes, self.plain)
        use.learn([n for shape in shapes for n in shape])
        found = _widened(use, key, tensors) if use.groups else None
        if found is None:
            use.before = [*use.before, key][-REPLACED:]
            return key, tensors
        self.active, self.since = True, perf_counter()
        self.served.clear()  # they may be served in another way from now on
        if len(self.of_keys) >= MAX_FORMS:
            self.of_keys.pop(next(iter(self.of_keys)))
        self.of_keys[found[0]] = use
        return found

    def has_loops(self, key: Any, loops: Sequence[tuple[int, int]]) -> None:
        """A run with this signature became native loops, which are made for the extents of the recording.

        Of each the number of rounds and of operations in a round: where they are few, and as many rounds as with other
        extents, a recording for all extents may as well have them one by one. There are none of loops that tensors end.
        """
        use = None if groups_in(key) else self.known.get(_form(key, tensors_in(key)))
        if use is None:
            return
        few = 0 < sum(rounds * operations for rounds, operations in loops) <= FEW
        rounds = tuple([rounds for rounds, _ in loops])
        use.loops = use.loops or not few or use.rounds not in ((), rounds)
        use.rounds = rounds

    def replaced(self, entry: Entry) -> list[Any]:
        """The signatures that ``entry`` serves too, from before extents varied."""
        use = self.of_keys.get(entry.key) if entry.extents else None
        if use is None:
            return []
        found, use.before = use.before, []
        return found

    def missed(self, entry: Entry, branch: Any) -> bool:
        """A call left ``entry`` at a decision; True when extents that it was taken from are constants from now on."""
        if not entry.extents or branch.segment.choices is None:
            return False
        chosen = [s.choices for s in entry.root.segments() if s.choices is not None]
        if sum(len(x) - 1 for x in chosen) < PATIENCE + entry.replays // CALLS_PER_DECISION:
            return False
        return self.without(entry, DECIDES)

    def unserved(self, entry: Entry, end: Exception) -> bool:
        """A call ended without a result; True when extents were the reason, which are constants from now on."""
        lasting = entry.failure is not None or isinstance(end, Unplanned)
        return lasting and not entry.alike and self.without(entry, str(end))

    def gives_up(self, entry: Entry) -> bool:
        """A run was recorded in ``entry``; True when extents that it takes for sizes are constants from now on."""
        if not entry.extents:
            return False
        use = self.of_keys.get(entry.key)
        if use is not None:
            use.patience = max(OFTEN, int((perf_counter() - self.since) / SAVED))
        reason = entry.failure or entry.closed
        if reason is not None:
            return self.without(entry, reason)
        return bool(entry.plain_extents) and self.without(entry, NUMBER, entry.plain_extents)

    def drop(self, key: Any) -> None:
        """No calls have this key any more."""
        if not groups_in(key):
            self.known.pop(_form(key, tensors_in(key)), None)
        self.of_keys.pop(key, None)
        self.served.pop(key, None)

    def without(self, entry: Entry, why: str, groups: Iterable[int] | None = None) -> bool:
        """Extents that ``entry`` takes for sizes are constants from now on; False where there are none."""
        numbers = range(len(entry.extents)) if groups is None else groups
        use = self.of_keys.get(entry.key)
        if not entry.extents or use is None:
            return False
        names = [", ".join(f"{entry.names[i]}[{d}]" for i, d in entry.extents[n]) for n in numbers]
        self.constants.append(f"{', '.join(names)} {why}")
        self.served.clear()
        use.settle([place for number in numbers for place in entry.extents[number]], why)
        return True


def _form(key: Any, count: int) -> Any:
    """What calls have in common that differ from one with ``key`` in extents only."""
    end = 4 + count
    parts = [(kind, form_of(layout), *flags) for kind, layout, *flags in key[4:end]]
    return (*key[:4], *parts, *key[end:])


def _widened(use: ShapeUse, key: Any, tensors: list[Tensor]) -> tuple[Any, list[Tensor]] | None:
    """Key and tensors of the signature that serves a call; None for extents that are no sizes, or not equal."""
    end = 4 + len(tensors)
    shapes: list[list[Any]] = [list(layout.spec.shape) for _, layout, *_ in key[4:end]]
    sizes = []
    for number, group in enumerate(use.groups):
        found = {shapes[i][d] for i, d in group}
        if len(found) > 1 or min(found) < SMALLEST:
            return None
        sizes.append(found.pop())
        for i, d in group:
            shapes[i][d] = f"n{number}"
    parts = [
        (kind, WideLayout(form_of(layout), tuple(shape)), *flags)
        for (kind, layout, *flags), shape in zip(key[4:end], shapes, strict=True)
    ]
    vector = Tensor._wrap(np.array(sizes, np.int64))
    return (*key[:4], *parts, tensor_key(vector), *key[end:]), [*tensors, vector]


def exact(key: Any, tensors: list[Tensor]) -> tuple[Any, list[Tensor]]:
    """The key of a call as it is, and its own tensors, from those of a signature that serves more."""
    if not groups_in(key):
        return key, tensors
    return call_key(key[:3], key[3], tensors[:-1]), tensors[:-1]


def tensors_in(key: Any) -> int:
    """How many tensors a call with this key has."""
    return sum(isinstance(part[0], type) for part in key[4:])


def groups_in(key: Any) -> Groups:
    """Which extents a call with this key hands over, in order."""
    groups: dict[str, list[Place]] = {}
    for i, part in enumerate(key[4:]):
        layout = part[1] if len(part) == 4 else None
        if type(layout) is WideLayout:
            for d, n in enumerate(layout.extents):
                if type(n) is str:
                    groups.setdefault(n, []).append((i, d))
    return tuple([tuple(groups[name]) for name in sorted(groups, key=lambda name: int(name[1:]))])
