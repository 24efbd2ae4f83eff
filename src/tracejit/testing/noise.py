"""Noise of a rounding's size in whatever eager code computes: as far as it moves results, right answers may differ.

Every operation has its results moved by about a rounding of the dtype that it computes in, so the noise is that of the
narrowest dtype a value passed through. What an operation only selects or moves, and whole numbers made from whole
numbers, stay as they are: no other way to compute them gives anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..dtypes import DType
from ..ops import op as table
from ..ops.table import Elementwise, Movement, Op, Source
from ..tensor import Tensor

#: Relative to a value: some roundings of its dtype.
ROUNDING = {"f64": 3e-15, "f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}


def disturb(tensors: Iterable[Tensor], rng: np.random.Generator) -> None:
    """Move the values of tensors by about a rounding of their dtype; integers stay.

    >>> import tracejit as tj
    >>> x = tj.ones(2)
    >>> disturb([x], np.random.default_rng(0))
    >>> bool((x != 1).all()), bool(((x - 1).abs() < 2e-6).all())
    (True, True)
    """
    for tensor in tensors:
        size = _size(tensor.dtype)
        if size:
            tensor.data.mul_(Tensor._wrap(_factors(tensor.detach().numpy(), size, rng)))


@contextmanager
def disturbed(rng: np.random.Generator) -> Iterator[None]:
    """Inside, the results of operations on tensors are moved by about a rounding.

    >>> import tracejit as tj
    >>> x = tj.full((2,), 0.3)
    >>> with disturbed(np.random.default_rng(0)):
    ...     y, z = x * 0.5, x.flip(0)
    >>> bool((y == 0.15).any()), bool((z == x).all())
    (False, True)
    """
    apply = table._apply

    def noisy(op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        result = apply(op, operands, attributes)
        size = 0.0 if isinstance(op, (Movement, Source)) else _size(result.dtype)
        if size:
            _move(result.array, op, operands, size, rng)
        return result

    table.set_dispatcher(noisy)
    try:
        yield
    finally:
        table.set_dispatcher(apply)


def _size(dtype: DType) -> float:
    """How far values of a dtype are moved."""
    return ROUNDING.get(dtype.to_real().short, 0.0) if dtype.is_differentiable else 0.0


def _factors(array: Any, size: float, rng: np.random.Generator) -> Any:
    """Numbers close to one, in the dtype of an array."""
    return np.asarray(1.0 + size * rng.uniform(-1, 1, array.shape)).astype(array.dtype)


def _move(
    array: Any, op: Op, operands: tuple[Any, ...], size: float, rng: np.random.Generator
) -> None:
    """Move the elements of a result that were computed."""
    given = [np.asarray(x.array if isinstance(x, Tensor) else x) for x in operands]
    computed = np.ones(array.shape, bool)
    values = _magnitudes(array)
    for x in given:
        computed &= ~np.isin(values, _magnitudes(x))
    # Rounding up or down gives whole numbers; a sum of fractions that comes out whole is a coincidence.
    if _whole(values) and (isinstance(op, Elementwise) or all(map(_whole, given))):
        return
    if computed.any():
        np.multiply(array, _factors(array, size, rng), out=array, where=computed)


def _magnitudes(array: Any) -> Any:
    """Absolute values in double precision."""
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.abs(wide)


def _whole(values: Any) -> bool:
    return bool(np.all(values == np.round(values)))
