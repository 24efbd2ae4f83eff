"""Tensors of random values, as tests of operations want them."""

from __future__ import annotations

from typing import Any

import tracejit as tj
from tracejit.dtypes import DType

__all__ = ["make_tensor"]

_FLOATS = (-9.0, 9.0)
_RANGES = {tj.bool: (0, 2), tj.uint8: (0, 10)}


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> tj.Tensor:
    """A tensor of values drawn evenly from ``low`` to below ``high``: by default -9 to 9, of uint8 0 to 9.

    With ``noncontiguous`` every second element of its memory is left out; with ``exclude_zero`` zeros become the
    smallest positive number. Raises ``ValueError`` for an empty range.

    >>> import tracejit as tj
    >>> x = tj.testing.make_tensor(2, 3, dtype=tj.int64, device="cpu", low=1, high=2)
    >>> x
    tensor([[1, 1, 1],
            [1, 1, 1]])
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    floats = dtype.is_floating_point or dtype.is_complex
    first, last = _FLOATS if floats else _RANGES.get(dtype, (-9, 10))
    least, most = first if low is None else low, last if high is None else high
    if least >= most:
        raise ValueError(f"make_tensor: low must be below high, but they are {least} and {most}")
    if noncontiguous and sizes and sizes[-1] > 1:
        wide = _drawn((*sizes[:-1], 2 * sizes[-1]), dtype, least, most)
        found: Any = wide[..., ::2]
    else:
        found = _drawn(sizes, dtype, least, most)
    if exclude_zero:
        smallest = tj.finfo(dtype).tiny if floats else 1
        found[found == 0] = smallest
    made: tj.Tensor = found.to(device)
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made


def _drawn(sizes: tuple[int, ...], dtype: DType, least: float, most: float) -> Any:
    if dtype.is_complex:
        real, imaginary = (_drawn(sizes, dtype.to_real(), least, most) for _ in range(2))
        return tj.complex(real, imaginary)
    if dtype.is_floating_point:
        exact = tj.rand(sizes, dtype=tj.float64) * (most - least) + least
        return exact.clamp(max=most).to(dtype)
    return tj.randint(int(least), int(most), sizes, dtype=tj.int64).to(dtype)
