"""Choices from a seed: what every generator of random programs makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Choices:
    """A random generator with words for what is asked of it.

    >>> Choices(0).pick("a")
    'a'
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        """True this often."""
        return bool(self.rng.random() < probability)

    def pick(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def whole(self, low: int, high: int) -> int:
        """An integer from ``low`` up to but not including ``high``."""
        return int(self.rng.integers(low, high))
