"""Recordings of few rounds, as loops of the form that recordings of many rounds had.

One round repeats nothing, and what two rounds share may be chance. But where a function was rolled before, its form is
known: the statements with their loops, and how their sizes follow from those of the inputs. A short recording is
compared with what the form gives for its own sizes: op by op on the same elements, loops run round by round. Where
every result comes out the same, the form is what the recording says, for one round and for none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...errors import TracejitError
from ...extents import Extents
from ...ir.graph import Value
from ...ir.loops import is_loop
from ...symbols import SMALLEST
from ..sizes.found_sizes import Registry
from ..tree.structure import Symbols, form_key
from .evidence import MIN_ROUNDS, Evidence
from .rolling import Rolled
from .same_elements import SameElements

#: Forms remembered for a function, and recordings of each.
MAX_FORMS = 4
MAX_EXAMPLES = 4
#: A recording of more statements has rounds enough to be rolled by itself.
MOST_STATEMENTS = 2000

#: Sizes of inputs that are no structure, and those of statements, in order.
Example = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass
class Form:
    """A rolled recording: from which inputs its statements compute which results, and the sizes of others like it."""

    inputs: tuple[Value, ...]
    statements: tuple[Value, ...]
    results: tuple[Value, ...]
    examples: list[Example] = field(default_factory=list)

    def sizes_of(self, inputs: Sequence[Value]) -> tuple[int, ...] | None:
        """The sizes of inputs that are no structure here; None where the others differ."""
        found: list[int] = []
        if len(inputs) != len(self.inputs):
            return None
        for mine, other in zip(self.inputs, inputs, strict=True):
            if mine.spec.dtype is not other.spec.dtype or mine.spec.ndim != other.spec.ndim:
                return None
            for a, b in zip(mine.spec.shape, other.spec.shape, strict=True):
                if a >= SMALLEST:
                    found.append(b)
                elif a != b:
                    return None
        return tuple(found)

    def instance(self, inputs: Sequence[Value]) -> tuple[list[Value], list[Value]] | None:
        """The statements and results it would have for these inputs."""
        given = self.sizes_of(inputs)
        guessed = None if given is None else guess(self.examples, given)
        if guessed is None:
            return None
        rest = iter(guessed)
        again = Again(lambda _: next(rest))
        again.mapping.update(zip(self.inputs, inputs, strict=True))
        try:
            made = [again.statement(v) for v in self.statements]
        except (TracejitError, ValueError, IndexError, AssertionError):
            return None  # the sizes are not those of a recording
        counts = [v.attributes["count"] for v in made if is_loop(v)]
        if min(counts, default=MIN_ROUNDS) >= MIN_ROUNDS:
            return None  # it can be rolled by itself
        return made, [again.mapping.get(v, v) for v in self.results]


class Again(Symbols):
    """Writes statements once more, with other numbers for their sizes."""

    def __init__(self, size: Callable[[int], int]) -> None:
        super().__init__(Extents(), Registry())
        self.other = size

    def size(self, value: int, numbers: list[int]) -> Any:
        """The number in the place of ``value``."""
        return self.other(value)


class Forms:
    """The forms of one function."""

    def __init__(self) -> None:
        self._known: dict[Any, Form] = {}
        #: What was rolled and not looked at yet: the call that recorded it does not wait for that.
        self.waiting: deque[tuple[Sequence[Value], Rolled, Sequence[Value]]] = deque()

    def note(self, inputs: Sequence[Value], rolled: Rolled, kept: Sequence[Value]) -> None:
        """A recording was rolled by itself."""
        self.waiting.append((inputs, rolled, kept))

    @property
    def known(self) -> dict[Any, Form]:
        """The forms by their keys."""
        while self.waiting:
            noted = None
            with suppress(IndexError):  # another thread took it
                noted = self.waiting.popleft()
            if noted is not None:
                self._look(*noted)
        return self._known

    def _look(self, inputs: Sequence[Value], rolled: Rolled, kept: Sequence[Value]) -> None:
        results = tuple(rolled.mapping[v] for v in kept)
        key = form_key(inputs, rolled.statements, results)
        form = self._known.get(key) or Form(tuple(inputs), rolled.statements, results)
        met: list[int] = []

        def same(size: int) -> int:
            met.append(size)
            return size

        again = Again(same)
        again.mapping.update(zip(inputs, inputs, strict=True))
        for value in rolled.statements:
            again.statement(value)
        sizes = form.sizes_of(inputs)
        if sizes is not None and (sizes, tuple(met)) not in form.examples:
            form.examples.append((sizes, tuple(met)))
            del form.examples[:-MAX_EXAMPLES]
        if form.examples:  # a form is known with an example, whenever an interrupt comes
            self._known.setdefault(key, form)
        if len(self._known) > MAX_FORMS:
            self._known.pop(next(iter(self._known)), None)

    def roll(
        self, inputs: Sequence[Value], statements: Sequence[Value], kept: Sequence[Value]
    ) -> Rolled | None:
        """A short recording as loops of a known form; None where none fits."""
        if len(statements) > MOST_STATEMENTS:
            return None
        recorded: SameElements | None = None
        for form in list(self.known.values()):  # another thread may add one
            made = form.instance(inputs)
            if made is None or len(form.results) != len(kept):
                continue
            recorded = recorded or SameElements(inputs, statements)
            found, results = made
            if recorded.holds(found, kept, results):
                mapping = dict(zip(kept, results, strict=True))
                return Rolled(tuple(found), mapping, sum(map(is_loop, found)))
        return None


@dataclass(frozen=True)
class Seen:
    """What earlier recordings of a function tell about its loops."""

    evidence: Evidence = field(default_factory=Evidence)
    forms: Forms = field(default_factory=Forms)

    def state(self) -> tuple[Any, ...]:
        """Something that differs once more has been seen that matters.

        >>> seen = Seen()
        >>> before = seen.state()
        >>> seen.evidence.varying.add(("model.py", 3))
        >>> seen.state() == before
        False
        """
        forms = [(id(form), len(form.examples)) for form in list(self.forms.known.values())]
        return len(self.evidence.varying), forms


def guess(examples: Sequence[Example], given: tuple[int, ...]) -> list[int] | None:
    """The sizes of statements for ``given`` sizes of inputs, as far as they follow from examples.

    >>> guess([((24, 8), (24, 8, 23, 72))], (1, 8))
    [1, 8, 0, 3]
    >>> guess([((24, 8), (24, 8)), ((8, 8), (8, 8))], (1, 8))
    [1, 8]
    """
    found = []
    for place in range(len(examples[0][1])):
        seen = [(inputs, sizes[place]) for inputs, sizes in examples]
        size = _size(seen, given)
        if size is None or size < 0:
            return None
        found.append(size)
    return found


def _size(seen: Sequence[tuple[tuple[int, ...], int]], given: tuple[int, ...]) -> int | None:
    """One size: that of an input that is another one now, a few more or less, or a multiple; or what it always was."""
    first, size = seen[0]
    for place, now in enumerate(given):
        slope = _slope([(xs[place], x) for xs, x in seen])
        if slope is not None:
            return size + slope * (now - first[place])
    for offset in (0, -1, 1, -2, 2):
        for place, now in enumerate(given):
            if now != first[place] and all(x == xs[place] + offset for xs, x in seen):
                return now + offset
    for place, now in enumerate(given):
        whole = now != first[place] and all(x % xs[place] == 0 for xs, x in seen)
        if whole and len({x // xs[place] for xs, x in seen}) == 1:
            return size // first[place] * now
    return size if all(x == size for _, x in seen) else None


def _slope(pairs: Sequence[tuple[int, int]]) -> int | None:
    """By how much a size grows with another one; None where that is not the same everywhere, or not known.

    >>> _slope([(3, 7), (5, 11), (4, 9)]), _slope([(3, 7), (3, 7)])
    (2, None)
    """
    (x, y), *rest = pairs
    others = [(a, b) for a, b in rest if a != x]
    if not others or any(b != y for a, b in rest if a == x):
        return None
    slope, remainder = divmod(others[0][1] - y, others[0][0] - x)
    if remainder or any(b - y != slope * (a - x) for a, b in others):
        return None
    return slope
