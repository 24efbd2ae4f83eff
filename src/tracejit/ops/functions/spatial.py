"""Arguments of functions over spatial dimensions: one number or one per dimension, samples with or without a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ArgumentError, ShapeError
from .. import movement as m
from .common import Tensor, alone, check_tensor, shape_of

Sizes = int | Sequence[int]
Shape = tuple[int, ...]


def per_dim(name: str, argument: str, value: Any, rank: int) -> Shape:
    """``value`` for each of ``rank`` dimensions; ``RuntimeError`` for another count, ``TypeError`` for no integers."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if any(not hasattr(n, "__index__") for n in given):
        bad = next(n for n in given if not hasattr(n, "__index__"))
        raise ArgumentError(
            f"{name}(): argument '{argument}' must be an int or a tuple of ints, not "
            f"{type(bad).__name__}"
        )
    if len(given) == 1:
        return given * rank
    if len(given) != rank:
        raise ShapeError(
            f"expected {argument} to be a single integer value or a list of {rank} values to match the "
            f"convolution dimensions, but got {argument}={list(given)} ({name})"
        )
    return given


def batched(name: str, x: Tensor, rank: int) -> tuple[Tensor, bool]:
    """(samples, channels, *size) and whether the batch was added; ``RuntimeError`` for other ranks."""
    check_tensor(name, x)
    if x.ndim == rank + 1:
        return m.unsqueeze(x, dims=(0,)), True
    if x.ndim != rank + 2:
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input "
            f"of size: {list(shape_of(x))}"
        )
    return x, False


def unbatched(x: Tensor, added: bool) -> Tensor:
    """``x`` without the batch that :func:`batched` added."""
    return alone(m.squeeze(x, dims=(0,))) if added else x
