"""A number that tells whether tensors have equal bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ..shapes import normalize_dims
from ..table import FUNCTIONS, function
from .common import Tensor, check_tensor, shape_of


@function()
def hash_tensor(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, mode: int = 0
) -> Tensor:
    """The bits of the elements along ``dim`` (all by default), as float64 or int64, joined by exclusive or.

    Raises ``RuntimeError`` for another ``mode``, and for a tensor without elements and no ``dim``.

    >>> import tracejit as tj
    >>> tj.hash_tensor(tj.tensor([1, 2, 4])).item()
    7
    """
    check_tensor("hash_tensor", input)
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.is_complex:
        raise NotImplementedError(f"\"xor_sum\" not implemented for '{input.dtype.title}'")
    given = None if dim is None or (not isinstance(dim, int) and not len(dim)) else dim
    if given is None and not input.spec.numel:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    dims = normalize_dims(given, input.ndim)
    fixed = [d for d in range(input.ndim) if d not in dims]
    shape = shape_of(input)
    rows = _bits(input).permute(*fixed, *dims).reshape(*(shape[d] for d in fixed), -1)
    found = _combined(rows).view(dtypes.uint64)
    return found.reshape([1 if d in dims else n for d, n in enumerate(shape)]) if keepdim else found


def _bits(x: Tensor) -> Tensor:
    if x.dtype.is_floating_point:
        return x.to(dtypes.float64).contiguous().view(dtypes.int64)
    return x.view(dtypes.int64) if x.dtype is dtypes.uint64 else x.to(dtypes.int64)


def _combined(rows: Tensor) -> Tensor:
    """Exclusive or along the last dimension, by halves."""
    count: Any = shape_of(rows)[-1]
    while count > 1:
        half = count // 2
        first = rows.narrow(-1, 0, half).bitwise_xor(rows.narrow(-1, half, half))
        rest = [rows.narrow(-1, 2 * half, 1)] if count % 2 else []
        rows = FUNCTIONS["cat"]([first, *rest], -1) if rest else first
        count = shape_of(rows)[-1]
    return rows.select(-1, 0) if count else rows.sum(-1)
