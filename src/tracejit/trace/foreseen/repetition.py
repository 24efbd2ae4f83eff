"""A rule that runs on one tensor after the other, as an optimizer's does, is followed once for all that are alike.

What it does to the first is recorded as ever, and learned: the operations, and the statements that were written down
for them. On others, which lie like the first in every respect, the operations run on plain arrays and the statements
are written down again on other operands. The recording is the one that it would have been, and so are the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...cuda.arrays import MODULES
from ...deferred import Deferred
from ...ir.graph import Value
from ...layout import layout_of
from ...meta import ANY
from ...mirrored import Mirrored
from ...modes import MODES
from ...ops.kinds import Elementwise
from ...ops.table import Op
from ...tensor import Tensor

if TYPE_CHECKING:
    from ..recording.recorder import Recorder

__all__ = ["Learning", "Repetition"]

_NUMBERS = frozenset({bool, int, float})


@dataclass(frozen=True)
class Pattern:
    """What a rule did to some operands.

    A step is an operation, its options, and its operands: numbers of what is there, operands of the rule first, or,
    where that is negative, what stands beside it. ``computed`` tells by what statement each step's result is known,
    ``over`` what nobody needs after it.
    """

    shared: Any  # what all runs of the rule are given, and what was computed of that alone
    steps: tuple[tuple[Op, dict[str, Any], tuple[tuple[int, Any], ...]], ...]
    inputs: dict[Value, int]
    statements: tuple[Value, ...]
    computed: tuple[Value, ...]
    results: tuple[int, ...]
    over: tuple[tuple[int, ...], ...]

    def arrays(self, operands: Sequence[Tensor]) -> list[Any]:
        """The arrays of other operands, and what the operations give for them."""
        known = [x.array for x in operands]
        for (op, attributes, places), over in zip(self.steps, self.over, strict=True):
            given = [x if i < 0 else known[i] for i, x in places]
            known.append(op.evaluate(given, attributes))
            del given
            for i in over:  # the next one finds its memory in the caches
                known[i] = None
        return known

    def written(self, recorder: Recorder, operands: Sequence[Tensor]) -> dict[Value, Value]:
        """Write the statements down on other operands; what stands for those of the first ones."""
        mapping: dict[Value, Value] = {}
        for statement in self.statements:
            found: list[Any] = []
            values: list[Value] = []
            for x in statement.operands:
                if not isinstance(x, Value):
                    found.append(x)
                    continue
                value = mapping.get(x)
                if value is None:
                    place = self.inputs.get(x)
                    value = x if place is None else recorder.value_of(operands[place])
                    mapping[x] = value
                found.append(value)
                values.append(value)
            again = recorder.builder.again(statement, found, values, statement.line)
            recorder.path.setdefault(again)
            mapping[statement] = again
        return mapping


class Repetition:
    """Runs one rule on many rows of operands while a function is recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.patterns: dict[Any, Pattern | None] = {}

    def results(
        self,
        rule: Callable[[], Sequence[Tensor]],
        operands: Sequence[Tensor],
        shared: tuple[Any, ...],
    ) -> Sequence[Tensor]:
        """What ``rule()`` gives, which computes it of ``operands`` and ``shared``, and of nothing else."""
        key = self._key(operands, shared)
        if key is None:
            return rule()
        if key not in self.patterns:
            learning = Learning(operands, shared)
            with self.recorder.learned(learning):
                found = rule()
            self.patterns[key] = learning.pattern(found)
            return found
        pattern = self.patterns[key]
        return rule() if pattern is None else self._again(pattern, operands)

    def _key(self, operands: Sequence[Tensor], shared: tuple[Any, ...]) -> Any:
        """What operands have to have in common to be alike; None where more may matter."""
        if MODULES or MODES.inference or MODES.grad or not self.recorder.only_listens():
            return None
        key: list[Any] = [id(shared)]
        for x in operands:
            is_odd = type(x._block) is Mirrored or (ANY[0] and x.is_meta)
            if is_odd or x._base is not None or x._run_time_type is not None:
                return None
            if type(x._block) is Deferred:
                x.array  # noqa: B018  (now, for what is computed of it is written to memory at once)
            key += (type(x), layout_of(x), x._requires_grad, x._flows)
        return tuple(key)

    def _again(self, pattern: Pattern, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        """The results for operands like those of a pattern."""
        recorder, first = self.recorder, len(operands)
        arrays = pattern.arrays(operands)
        made = {i: Tensor._wrap(arrays[i]) for i in pattern.results if i >= first}
        with recorder.careful("what a rule did again"):
            mapping = pattern.written(recorder, operands)
            for i, out in made.items():
                recorder.alive.append(out)
                recorder.roots[id(out)] = mapping[pattern.computed[i - first]]
            recorder.check_length()
            recorder.repeated += len(pattern.steps)
        return [made[i] if i >= first else operands[i] for i in pattern.results]


class Learning:
    """Is told what happens while a rule runs for the first time."""

    def __init__(self, operands: Sequence[Tensor], shared: tuple[Any, ...]) -> None:
        self.shared: list[Any] = [shared]
        self.same = {id(x): x for x in shared if isinstance(x, Tensor)}
        self.places = {id(x): i for i, x in enumerate(operands)}
        self.fails = len(self.places) < len(operands)  # one stands for two
        self.first = len(operands)
        self.tensors = list(operands)  # which keep their identities
        self.inputs: dict[Value, int] = {}
        self.known: set[Value] = set()
        self.steps: list[Any] = []
        self.statements: list[Value] = []
        self.computed: list[Value] = []

    def met(
        self,
        recorder: Recorder,
        op: Op,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        out: Tensor,
    ) -> None:
        """An operation was recorded."""
        if self.fails:
            return
        value = recorder.roots.get(id(out))
        ordinary = isinstance(op, Elementwise) and not op.dynamic and not out._requires_grad
        if value is None or not ordinary or out._base is not None:
            self.fails = True
            return
        places = [self._place(recorder, x) for x in operands]
        if None in places:
            self.fails = True
        elif all(i < 0 for i, _ in places):  # type: ignore[misc]
            self.same[id(out)] = out
            self.shared.append(out)
            self.known.add(value)
        elif self._note(value):
            self.places[id(out)] = len(self.tensors)
            self.tensors.append(out)
            self.steps.append((op, attributes, tuple(places)))
            self.computed.append(value)

    def _place(self, recorder: Recorder, x: Any) -> tuple[int, Any] | None:
        """Where an operand comes from; None where that is not known."""
        if not isinstance(x, Tensor):
            return (-1, x) if type(x) in _NUMBERS else None
        value = recorder.roots.get(id(x))
        if value is None:
            return None
        place = self.places.get(id(x))
        if place is None:
            self.known.add(value)
            return (-1, x.array) if id(x) in self.same else None
        if place < self.first and self.inputs.setdefault(value, place) != place:
            return None
        return place, None

    def _note(self, value: Value) -> bool:
        """Take down the statements that led to ``value`` from what is known; False where there are others."""
        if value in self.known or value in self.inputs:
            return True
        if value.op is None:
            self.fails = True
            return False
        if not all(self._note(x) for x in value.value_operands):
            return False
        self.known.add(value)
        self.statements.append(value)
        return True

    def pattern(self, results: Sequence[Tensor]) -> Pattern | None:
        """What was learned of a rule that gave ``results``; None if it may do something else for others alike."""
        places = [self.places.get(id(x)) for x in results]
        if self.fails or None in places or any(x in self.inputs for x in self.computed):
            return None
        found = tuple(i for i in places if i is not None)
        return Pattern(
            self.shared,
            tuple(self.steps),
            self.inputs,
            tuple(self.statements),
            tuple(self.computed),
            found,
            tuple(self._over(found)),
        )

    def _over(self, results: Sequence[int]) -> list[tuple[int, ...]]:
        """What each step is the last to need, results left out."""
        needed, found = set(results), []
        for _, _, places in reversed(self.steps):
            last = {i for i, _ in places if i >= 0} - needed
            needed |= last
            found.append(tuple(last))
        return found[::-1]
