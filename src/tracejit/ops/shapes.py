"""Arithmetic on shapes: broadcasting, dimensions, sizes; every error here is PyTorch's in class and wording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, DimensionError, HostMemoryError, ShapeError
from ..extents import is_symbolic
from ..types import Shape


def broadcast(name: str, shapes: Sequence[Shape], operands: Sequence[Any] = ()) -> Shape:
    """The common shape of ``shapes``; :class:`ShapeError` naming the operands when there is none."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for position in range(1, len(shape) + 1):
            extent = shape[-position]
            known = result[-position]
            if type(known) is int and known == 1:
                result[-position] = extent
            elif extent is known or (type(extent) is int and extent == 1) or extent == known:
                continue
            elif known == 1:
                result[-position] = extent
            elif extent != 1:
                listing = " and ".join(map(str, operands or shapes))
                raise ShapeError(
                    f"The size of tensor a ({known}) must match the size of tensor b ({extent}) at "
                    f"non-singleton dimension {ndim - position} ({name}: {listing})",
                    "Sizes must be equal, or one of them 1, counted from the last dimension.",
                )
    return tuple(result)


def normalize_dim(dim: Any, ndim: int, *, extra: int = 0) -> int:
    """A non-negative dimension; ``extra=1`` also allows the position after the last (unsqueeze)."""
    if type(dim) is not int:
        if hasattr(dim, "__index__"):
            dim = int(dim.__index__())
        else:
            raise ArgumentError(f"dimension must be an int, not {type(dim).__name__}")
    count = ndim + extra or 1
    if not -count <= dim < count:
        raise DimensionError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})"
        )
    return int(dim % count)


def refuse_number(dim: int, ndim: int) -> None:
    """``IndexError`` for a tensor without dimensions, where none stands for them."""
    if not ndim:
        raise DimensionError(f"Dimension specified as {dim} but tensor has no dimensions")


def normalize_dims(dims: int | Sequence[int] | None, ndim: int) -> Shape:
    """Sorted non-negative dimensions; ``None`` or an empty sequence means all of them."""
    if dims is None:
        return tuple(range(ndim))
    if type(dims) is int and -ndim <= dims < ndim:
        return (dims % ndim,)
    if isinstance(dims, int) or hasattr(dims, "__index__"):
        dims = (dims,)  # type: ignore[assignment]
    found = [normalize_dim(d, ndim) for d in dims]  # type: ignore[union-attr]
    for dim in found:
        if found.count(dim) > 1:
            raise ShapeError(f"dim {dim} appears multiple times in the list of dims")
    if not found:
        return tuple(range(ndim))
    return tuple(sorted(found)) if ndim else ()


def reduced(shape: Shape, dims: Shape, keepdim: bool) -> Shape:
    """Shape after a reduction along ``dims``."""
    if keepdim:
        return tuple(1 if d in dims else extent for d, extent in enumerate(shape))
    return tuple(extent for d, extent in enumerate(shape) if d not in dims)


def numel(shape: Sequence[int]) -> int:
    """Number of elements of a shape."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def refuse_vast(shape: Sequence[int], itemsize: int) -> None:
    """Raise ``RuntimeError`` where there is no memory for a result whose positions would be listed first.

    >>> refuse_vast((2, 3), 4)
    """
    if not all(type(extent) is int for extent in shape):  # a size that is only known later
        return
    size = numel(shape) * itemsize
    if size >= 1 << 63:
        raise ShapeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    if size >> 32:
        try:
            np.empty(size, np.uint8)
        except MemoryError as error:
            raise HostMemoryError(f"cannot allocate {size:,} bytes for a tensor") from error


def resolve_size(shape: Sequence[int], count: int) -> Shape:
    """Replace a single -1 in ``shape`` so that it holds ``count`` elements."""
    found = _resolved(shape, count) if type(count) is int else None
    if found is not None:
        return found
    sizes = [as_size(extent) for extent in shape]
    if any(extent < -1 for extent in sizes):
        raise ShapeError(f"invalid shape dimension {min(sizes)}")
    unknown = [d for d, extent in enumerate(sizes) if extent == -1]
    if len(unknown) > 1:
        raise ShapeError("only one dimension can be inferred")
    known = numel([extent for extent in sizes if extent != -1])
    if unknown:
        if known == 0:
            if count:
                raise ShapeError(f"shape '{list(sizes)}' is invalid for input of size {count}")
            raise ShapeError(
                f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified "
                "dimension size -1 can be any value and is ambiguous"
            )
        if count % known == 0:
            sizes[unknown[0]] = count // known
    if numel(sizes) != count or -1 in sizes:
        raise ShapeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return tuple(sizes)


def _resolved(shape: Sequence[int], count: int) -> Shape | None:
    """:func:`resolve_size` for plain numbers that fit; None for everything else."""
    known, unknown = 1, -1
    for d, extent in enumerate(shape):
        if type(extent) is not int or extent < -1:
            return None
        if extent != -1:
            known *= extent
        elif unknown >= 0:
            return None
        else:
            unknown = d
    if unknown < 0:
        return tuple(shape) if known == count else None
    if not known or count % known:
        return None
    return (*shape[:unknown], count // known, *shape[unknown + 1 :])


def as_size(extent: Any) -> int:
    """An extent as an int; symbolic ones stay what they are."""
    return extent if is_symbolic(extent) else extent.__index__()  # type: ignore[no-any-return]


def whole(number: Any) -> int:
    """``int(number)``; symbolic sizes stay what they are."""
    return number if is_symbolic(number) else int(number)


def refuse_negative(shape: Sequence[Any]) -> None:
    """``RuntimeError`` for extents that no tensor can be made with."""
    for extent in shape:
        if extent < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {extent}: {list(shape)}"
            )


def size_arguments(sizes: tuple[Any, ...]) -> Shape:
    """``f(2, 3)`` and ``f((2, 3))`` alike; every extent as an int."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    try:
        return tuple(map(as_size, sizes))
    except (AttributeError, TypeError):
        bad = next((s for s in sizes if not hasattr(s, "__index__")), sizes[0])  # or an array
        raise ArgumentError(f"sizes must be ints, not {type(bad).__name__}") from None
