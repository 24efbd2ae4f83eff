"""Patience with what cannot be recorded: try a few times, then ever more rarely."""

from __future__ import annotations

LONGEST = 1024


class Backoff:
    """Counts failures; after ``patience`` of them, attempts are skipped: 2, 4, 8, ... up to 1024 in a row.

    >>> backoff = Backoff(1)
    >>> backoff.note("why"), backoff.wait(), backoff.note("why"), [backoff.wait() for _ in range(3)]
    (None, False, None, [True, True, False])
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.failures = 0
        self.reason = ""
        self.served: tuple[int, int] = (
            0,
            0,
        )  # by what calls were served when it failed last, and how many
        self._skip = 0
        self._spared = 0

    @property
    def hopeless(self) -> bool:
        """True once attempts are skipped."""
        return self.failures > self.patience

    def note(self, reason: str) -> None:
        """One more failure."""
        self.failures += 1
        self.reason = reason
        if self._spared:
            self._spared -= 1
        elif self.hopeless:
            self._skip = min(2 ** (self.failures - self.patience), LONGEST)

    def try_anew(self) -> None:
        """Skip none for as many failures as at first: something else is tried."""
        self._skip, self._spared = 0, self.patience

    def wait(self) -> bool:
        """Should this attempt be skipped?"""
        if self._skip == 0:
            return False
        self._skip -= 1
        return True
