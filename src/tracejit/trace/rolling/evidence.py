"""How many rounds make a loop, and what earlier recordings of a function tell about that.

One recording alone does not tell a loop over time from the four layers of a network, so few rounds or short bodies
stay a straight list, which makes better kernels. Once an operation of a line of code has been recorded another number
of times, it is in a loop whose rounds vary, and each number of them would have kernels of its own: then two rounds are
enough, where all that a round does varies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from ...ir.graph import Value
from ...passes.fusion.groups import is_view

#: Fewer rounds than this are left as they are, unless their number is known to vary.
MIN_ROUNDS = 4
#: So many are enough where it does.
FEW_ROUNDS = 2
#: Left as they are are also loops that save fewer statements: a short straight list makes better kernels.
LEAST_SAVED = 16
#: Where a loop has more rounds, others of the recording are taken to have enough, too.
MANY_ROUNDS = 8

#: What tells statements of several recordings apart: the line, the operation, and the rank of the result, because the
#: whole backward pass of a training step has one line.
Place = tuple[Any, ...]


def place(value: Value) -> Place:
    """Where a statement comes from, as far as other recordings have the same."""
    return value.line, value.op and value.op.name, getattr(value.spec, "ndim", None)


@dataclass(frozen=True)
class Least:
    """What a loop has at least: ``rounds``, and statements ``saved``; a body that is not ``varying`` more."""

    rounds: int = MIN_ROUNDS
    saved: int = LEAST_SAVED
    varying: Set[Place] = frozenset()

    def pays(self, rounds: int, saved: int, body: Sequence[Value]) -> bool:
        """Is a loop of this body worth it?"""
        if rounds >= MIN_ROUNDS and saved >= LEAST_SAVED:
            return True
        return all(is_view(v) or place(v) in self.varying for v in body)


USUAL = Least()


class Evidence:
    """How often each place was recorded first, and the places for which that varies."""

    def __init__(self) -> None:
        self.counts: Counter[Place] = Counter()
        self.varying: set[Place] = set()
        self.first: Sequence[Value] = ()  # the first recording, counted when there is another

    def note(self, statements: Sequence[Value]) -> None:
        """Another recording, as it was before any loops were made."""
        if not (self.first or self.counts):
            self.first = statements
            return
        first, self.first = self.first, ()
        self._compare(first)
        self._compare(statements)

    def _compare(self, statements: Sequence[Value]) -> None:
        found = Counter(map(place, statements))
        self.varying.update(n for n, k in found.items() if self.counts.get(n, k) != k)
        self.counts.update({n: k for n, k in found.items() if n not in self.counts})

    def trials(self) -> Iterator[Least]:
        """What to demand of loops, the usual first; less where the number of rounds is known to vary.

        >>> evidence = Evidence()
        >>> [least.rounds for least in evidence.trials()]
        [4]
        >>> evidence.varying.add((("model.py", 3), "mul", 2))
        >>> [least.rounds for least in evidence.trials()]
        [4, 3, 2]
        """
        yield USUAL
        if self.varying:
            varying = frozenset(self.varying)
            yield from (
                Least(rounds, 1, varying) for rounds in range(MIN_ROUNDS - 1, FEW_ROUNDS - 1, -1)
            )
