"""How the work of `linear_cross_entropy` is parted, as a value: checked and kept, for programs that say it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from ..dtypes import DType, bfloat16, float16, float32, float64

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_KINDS = (None, float16, bfloat16, float32, float64)


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How others part the rows of :func:`nn.functional.linear_cross_entropy`; here it changes no number.

    ``batch_chunk_size`` rows at a time, or as many as ``chunking_method`` says ("auto", "aspect_ratio",
    "aspect_ratio:N", None), summed as ``acc_policy`` ("auto", "accurate", "balanced", "compact") and ``acc_dtype``
    say. Raises ``ValueError`` for anything else.

    >>> LinearCrossEntropyOptions(batch_chunk_size=64).acc_policy
    'auto'
    >>> LinearCrossEntropyOptions(chunking_method="rows")
    Traceback (most recent call last):
    ValueError: invalid chunking_method: 'rows'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None

    def __post_init__(self) -> None:
        method = self.chunking_method
        size: Any = self.batch_chunk_size
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if method not in (None, "auto") and not re.fullmatch(
            r"aspect_ratio(:0*[1-9][0-9]*)?", str(method)
        ):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in _KINDS:
            raise ValueError(
                f"acc_dtype must be one of {{None, float16, bfloat16, float32, float64}}, got {self.acc_dtype!r}"
            )
