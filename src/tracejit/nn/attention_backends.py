"""Which implementation attention takes, for programs that choose: there is one."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """Implementations that PyTorch has."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Accepted and without effect: attention is written in ops and compiled like everything else.

    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     pass
    """
    yield
