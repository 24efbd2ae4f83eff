"""How matrix products of float32 compute on a GPU."""

from __future__ import annotations

_PRECISIONS = ("highest", "high", "medium")
_chosen = ["highest"]


def set_float32_matmul_precision(precision: str) -> None:
    """Compute float32 matrix products in float32 ("highest"), or by tensor cores that round operands to TF32.

    "high" and "medium" both allow TF32 in compiled programs. Raises ``ValueError`` for other names.

    >>> set_float32_matmul_precision("highest")
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(_PRECISIONS)}, not {precision!r}")
    _chosen[0] = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was last given.

    >>> get_float32_matmul_precision()
    'highest'
    """
    return _chosen[0]
