"""How many rounds make a loop, and what earlier recordings of a function tell about that.

One recording alone does not tell a loop over time from the four layers of a network, so few rounds or short bodies
stay a straight list, which makes better kernels. Once a line of code has been recorded another number of times, it is
in a loop whose rounds vary, and each number of them would have kernels of its own: then two rounds are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from ..ir.graph import Value

#: Fewer rounds than this are left as they are, unless their number is known to vary.
MIN_ROUNDS = 4
#: So many are enough where it does.
FEW_ROUNDS = 2
#: Left as they are are also loops that save fewer statements: a short straight list makes better kernels.
LEAST_SAVED = 16
#: Where a loop has more rounds, others of the recording are taken to have enough, too.
MANY_ROUNDS = 8

Line = tuple[str, int] | None


@dataclass(frozen=True)
class Least:
    """What a loop has at least: so many ``rounds``, and statements ``saved``; a body of others than ``lines`` more."""

    rounds: int = MIN_ROUNDS
    saved: int = LEAST_SAVED
    lines: Set[Line] = frozenset()

    def pays(self, saved: int, body: Sequence[Value]) -> bool:
        """Is a loop of this body worth it?"""
        return saved >= LEAST_SAVED or any(v.line in self.lines for v in body)


USUAL = Least()


class Evidence:
    """How often each line was recorded first, and the lines for which that varies."""

    def __init__(self) -> None:
        self.counts: Counter[Line] = Counter()
        self.varying: set[Line] = set()

    def note(self, statements: Sequence[Value]) -> None:
        """Another recording, as it was before any loops were made."""
        found = Counter(v.line for v in statements)
        self.varying.update(n for n, k in found.items() if self.counts.get(n, k) != k)
        self.counts.update({n: k for n, k in found.items() if n not in self.counts})

    def trials(self) -> Iterator[Least]:
        """What to demand of loops, the usual first; less where the number of rounds is known to vary.

        >>> evidence = Evidence()
        >>> [least.rounds for least in evidence.trials()]
        [4]
        >>> evidence.varying.add(("model.py", 3))
        >>> [least.rounds for least in evidence.trials()]
        [4, 3, 2]
        """
        yield USUAL
        if self.varying:
            lines = frozenset(self.varying)
            yield from (
                Least(rounds, 1, lines) for rounds in range(MIN_ROUNDS - 1, FEW_ROUNDS - 1, -1)
            )
