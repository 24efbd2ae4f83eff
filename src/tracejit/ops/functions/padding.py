"""Padding by a constant, by reflection, by the border or around."""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import bool_, float64, int64
from ...varying import is_varying
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import shapes
from .. import source as s
from ..leaning import leaned, leaning
from ..precision import widened
from ..table import function
from .common import Number, Tensor, as_type, constant, refuse, refuse_overflow, shape_of
from .slicing import flipped, slice_along


@function(method=False, steady=True, large=True)
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: Number | None = None
) -> Tensor:
    """``input`` with elements added (or, for negative widths, removed) at the ends of its last dimensions.

    ``pad`` lists (before, after) from the last dimension on. ``mode`` is "constant", "reflect", "replicate" or
    "circular". Raises ``RuntimeError`` for widths that do not fit, ``NotImplementedError`` for other modes.

    >>> import tracejit as tj
    >>> tj.pad(tj.tensor([1, 2, 3]), (1, 2))
    tensor([0, 1, 2, 3, 0, 0])
    """
    widths = [shapes.whole(n) for n in pad]
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) // 2 > input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(widths)} and input of dimension {input.ndim}"
        )
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    if mode == "constant":
        return _constant(input, pairs, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if widths and input.ndim - len(widths) // 2 not in (1, 2):  # a batch, if any, and channels
        raise NotImplementedError(
            f"Padding size {len(widths)} is not supported for {input.ndim}D input tensor."
        )
    if mode == "replicate" or (mode == "reflect" and len(widths) < 6):
        input = widened(input)
    for offset, (before, after) in enumerate(pairs):
        input = _indexed(input, input.ndim - 1 - offset, before, after, mode)
    return input


def _constant(x: Tensor, pairs: list[tuple[int, int]], value: Number) -> Tensor:
    refuse_overflow(x.dtype, value)
    full = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    for d, (before, after) in enumerate(full):
        x = _cut(x, d, before, after)
    widths = tuple((max(a, 0), max(b, 0)) for a, b in full)
    if not is_varying(value):
        return m.pad(x, widths=widths, value=value)
    if x.dtype.is_differentiable:
        return _joined(x, widths, value)
    inside = m.pad(constant(True, bool_, shape_of(x)), widths=widths, value=False)
    nothing = constant(0, float64 if isinstance(value, float) else int64)
    filling = as_type(e.where(inside, nothing, value), x.dtype)  # it would decide about the dtype
    return e.where(inside, m.pad(x, widths=widths, value=0), filling)


def _joined(x: Tensor, widths: tuple[tuple[int, int], ...], value: Number) -> Tensor:
    """``x`` between pieces filled with ``value``, whatever it is: steps that keep as little as padding does."""
    padded = [d for d, ends in enumerate(widths) if ends != (0, 0)]
    for d in padded:
        shape = shape_of(x)
        first, last = [
            constant(value, x.dtype, (*shape[:d], width, *shape[d + 1 :])) for width in widths[d]
        ]
        x = m.cat(first, x, last, dim=d)
    return x if padded else m.pad(x, widths=widths, value=0)


def _cut(x: Tensor, d: int, before: int, after: int) -> Tensor:
    """``x`` without what negative widths remove at the ends of dimension ``d``."""
    if min(before, after) >= 0:
        return x
    start, end = max(-before, 0), max(-after, 0)
    count = shape_of(x)[d] - start - end
    if count < 0:
        raise RuntimeError(
            f"narrow(): length must be non-negative, but {start} and {end} elements are to be cut off dimension "
            f"{d} of input {list(shape_of(x))}"
        )
    return slice_along(x, d, start, count)


def _indexed(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    """Repeat positions of the input itself."""
    if mode != "circular":
        refuse(f"{mode}_pad", x.dtype, "bool")
    if mode == "circular":  # what is cut off does not come round again
        x = _cut(x, d, before, after)
        before, after = max(before, 0), max(after, 0)
    n = shape_of(x)[d]
    limit = n - 1 if mode == "reflect" else n
    if mode != "circular" and n + before + after < 1:
        raise RuntimeError(
            f"input of size {n} is too small. Calculated output size {n + before + after} at dimension {d} of input "
            f"{list(shape_of(x))}"
        )
    if mode != "replicate" and max(before, after) > limit:
        raise RuntimeError(
            "Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {d} of input {list(shape_of(x))}"
        )
    if min(before, after) <= -n:
        return _by_positions(x, d, before, after, mode)
    inside = _cut(x, d, before, after)
    pieces = [inside]
    if before > 0:
        pieces.insert(0, _piece(x, d, before, mode, behind=False))
    if after > 0:
        pieces.append(_piece(x, d, after, mode, behind=True))
    if len(pieces) > 1:
        return m.cat(*pieces, dim=d)
    return e.clone(inside) if mode == "circular" else leaning(inside)


def _piece(x: Tensor, d: int, count: int, mode: str, behind: bool) -> Tensor:
    """What is put in front of dimension ``d``, or behind it."""
    shape = shape_of(x)
    last = shape[d] - 1
    if mode == "reflect":
        start = last - count if behind else 1
        return flipped(leaned(slice_along(x, d, start, count)), (d,))
    if mode == "circular":
        return slice_along(x, d, 0 if behind else shape[d] - count, count)
    edge = leaned(slice_along(x, d, last if behind else 0, 1))
    return m.expand(edge, shape=(*shape[:d], count, *shape[d + 1 :]))


def _by_positions(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    """The same where more than everything is cut off at one end, and so of what is put at the other end, too."""
    n = shape_of(x)[d]
    places = range(-before, n + after)
    if mode == "reflect":
        found = [abs(i) if i < n else 2 * (n - 1) - i for i in places]
    else:
        found = [min(max(i, 0), n - 1) for i in places]
    index = s.literal(values=tuple(found), shape=(len(found),), dtype=int64)
    return ix.take(x, index, dim=d)
