"""The part of a recorder that lets others take its place while what happens is foreseen."""

from __future__ import annotations

from ...modes import MODES
from .foresight import Foresight


class ForeseenInside:
    """The part of a recorder that knows whether something waits to be written down."""

    aside: str
    #: What the dispatcher asks first, where something is foreseen.
    foresee = None

    foresight: Foresight | None = None

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
        if self.foresight is not None and self.foresight.count:
            self.aside += f"; {self.foresight.count} operations came as foreseen"
        self.foresight = None
