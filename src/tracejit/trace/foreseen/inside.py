"""The part of a recorder that lets others take its place while what happens is foreseen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...ir.graph import Value
from ...modes import MODES
from ...ops.table import Op
from ...tensor import Tensor
from .foresight import Foresight
from .repetition import Learning, Repetition


class ForeseenInside:
    """The part of a recorder that knows whether something waits to be written down."""

    aside: str
    #: What the dispatcher asks first, where something is foreseen.
    foresee = None

    foresight: Foresight | None = None
    learning: Learning | None = None
    repeated = 0  # operations of rules that ran again
    failure: str | None
    watched: Any
    scope: Any
    trial: Any
    pending: Any
    line: tuple[str, int] | None
    packs: Any
    parts: Any
    rounds: Any

    def foresees(self) -> None:
        """From here on, operations are expected to come again, if some may be put off."""
        if MODES.deferral is not None:
            self.foresight = Foresight(self, MODES.deferral)  # type: ignore[arg-type]

    def all_written(self) -> None:
        """From here on, everything that ran is written down."""
        if self.foresight is not None:
            self.foresight.end()

    def foresees_no_more(self) -> None:
        """The run is over."""
        self.all_written()
        count = self.repeated + (0 if self.foresight is None else self.foresight.count)
        if count:
            self.aside += f"; {count} operations came as foreseen"
        self.foresight = None

    def comes_again(
        self,
        op: Op,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        out: Tensor,
        value: Value,
    ) -> None:
        """An operation was recorded, and ``value`` written down for its result: it may run again."""
        if self.learning is not None:
            self.learning.met(self, op, operands, attributes, out)  # type: ignore[arg-type]
        elif self.foresight is not None:
            self.foresight.met(op, operands, attributes, out, value)

    # --- rules of optimizers -------------------------------------------------------------------------------------

    def repetition(self) -> Repetition:
        """What runs one rule on the tensors of many parameters."""
        return Repetition(self)  # type: ignore[arg-type]

    @contextmanager
    def learned(self, learning: Learning) -> Iterator[None]:
        """Meanwhile ``learning`` is told of all that runs, and nothing is put off."""
        self.all_written()
        if self.foresight is not None:
            self.foresight.last = None
        self.learning, deferral, MODES.deferral = learning, MODES.deferral, None
        try:
            yield
        finally:
            self.learning, MODES.deferral = None, deferral

    def only_listens(self) -> bool:
        """Is what runs written down, and nothing else?"""
        others = self.failure, self.watched, self.scope, self.trial, self.pending, self.line
        if any(x is not None for x in others) or self.packs or self.parts:
            return False
        return self.rounds is None or not self.rounds.visits
