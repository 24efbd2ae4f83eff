"""Scaled dot product attention."""

from __future__ import annotations

import math

from ...cuda.arrays import MODULES
from ...dtypes import bool_, float32
from ...errors import DtypeError, ShapeError
from ...types import Shape
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from ..attention import attention
from ..contraction import matmul as product
from ..contraction import transposed
from ..precision import lower_precision
from ..shapes import numel
from ..table import function
from .common import Tensor, as_type, refuse, shape_of, upcast
from .dropout import dropout
from .matrices import matmul
from .sampling import draw_uniform
from .slicing import slice_along
from .softmax import softmax
from .triangles import positions


@function(method=False, within=lower_precision, steady=True)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.mT * scale + mask) @ value``: (..., L, E), (..., S, E), (..., S, V) to (..., L, V).

    A bool mask is True where attention is allowed. ``scale`` is ``1 / sqrt(E)`` by default. Raises
    ``RuntimeError`` when a mask is given together with ``is_causal``, or shapes or dtypes do not fit.

    >>> import tracejit as tj
    >>> q = tj.ones(1, 2, 4)
    >>> tj.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    tracejit.Size([1, 2, 4])
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    _check_dtypes(query, key, value, attn_mask)
    if enable_gqa:
        heads = shape_of(query)[-3] // shape_of(key)[-3]
        key, value = (x.repeat_interleave(heads, -3) for x in (key, value))
    factor = 1.0 / math.sqrt(shape_of(query)[-1]) if scale is None else scale
    if _is_in_tiles(query, key, value, attn_mask, dropout_p):
        masked = attn_mask is not None
        options = {"scale": factor, "causal": is_causal, "masked": masked, "dropout": dropout_p}
        mask, drawn = attn_mask if masked else query, query
        if dropout_p:  # the draw that dropout would make of the scores
            drawn = draw_uniform((*shape_of(query)[:-1], shape_of(key)[-2]), float32, None, query)
        return attention(query, key, value, mask, drawn, index=-1, **options)
    if is_causal and not dropout_p and _is_worth_blocks(query, key, value):
        return _causal_in_blocks(query, key, value, factor)
    scores = _masked(_scores(query, key, factor), attn_mask, is_causal)
    weights = softmax(scores, -1) if attn_mask is None else _softmax_or_zero(scores)
    weights = as_type(weights, query.dtype)
    return matmul(dropout(weights, dropout_p) if dropout_p else weights, value)


def _check_dtypes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    refuse("scaled_dot_product_attention", query.dtype, "bool int")
    own = query.dtype
    if own is not key.dtype or own is not value.dtype:
        raise DtypeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {own.name} key.dtype: "
            f"{key.dtype.name} and value.dtype: {value.dtype.name} instead."
        )
    if mask is not None and mask.dtype not in (bool_, float32, own):
        raise DtypeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype.name} and query.dtype: {own.name} instead."
        )


#: Queries that are told apart from later keys together are at least so many: the scores of a block stay in the cache,
#: and of later keys only half a block's width is computed. The number changes far from usual lengths.
BLOCK = 96
#: The number of blocks is a power of two up to this, so that lengths alike are programs alike, with the same kernels.
MOST_BLOCKS = 32


def _is_worth_blocks(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Are there later keys to leave out, on the host, and heads that go together without broadcasting?"""
    shapes = [shape_of(x) for x in (query, key, value)]
    if getattr(query, "is_cuda", False) or not _go_together(*shapes):
        return False
    return bool(shapes[0][-2] >= 2 * BLOCK)


def _causal_in_blocks(query: Tensor, key: Tensor, value: Tensor, factor: float) -> Tensor:
    """Causal attention, block of queries by block: keys later than all of a block are neither multiplied nor read."""
    queries, keys = shape_of(query)[-2], shape_of(key)[-2]
    blocks = min(MOST_BLOCKS, 1 << (queries // BLOCK).bit_length() - 1)
    height = -(-queries // blocks)
    axis, found = query.ndim - 2, []
    numbers = positions(queries, -1)
    for first in range(0, queries, height):
        count = min(height, queries - first)
        seen = min(first + count, keys)
        rows = slice_along(query, axis, first, count)
        columns, values = (slice_along(x, axis, 0, seen) for x in (key, value))
        scores = _scores(rows, columns, factor)
        weights = softmax(_causal(scores, slice_along(numbers, 0, first, count)), -1)
        found.append(matmul(as_type(weights, query.dtype), values))
    return m.cat(*found, dim=axis)


#: The widest heads, and dtypes, for which a device has a kernel.
WIDEST, DTYPES = 128, ("f32", "f16", "bf16")
#: Up to so many scores, products and a softmax are faster there than tiles, which keep nothing of them: on an H100, 33
#: million take 1.3 ms and 3.0 ms in single precision with their gradients, 0.65 and 3.2 in half. More would take much
#: memory: 256 MiB, two or three times.
FEW_SCORES = 1 << 26


def _is_in_tiles(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> bool:
    """Is attention one op here: on a device, of what kernels there can compute, and not all of it dropped?"""
    if not MODULES or not getattr(q, "is_cuda", False) or not 0.0 <= dropout < 1.0:
        return False
    shapes = [shape_of(x) for x in (q, k, v)]
    if any(x.dtype.short not in DTYPES or x.dtype is not q.dtype for x in (q, k, v)):
        return False
    if not _go_together(*shapes) or any(s[-1] > WIDEST for s in shapes):
        return False
    if any(not x.is_cuda for x in (k, v)):
        return False
    if numel(shapes[0][:-1]) * shapes[1][-2] <= FEW_SCORES:
        return False
    if mask is None:
        return True
    plain = mask.dtype is bool_ or mask.dtype in (float32, q.dtype)
    wanted = (*shapes[0][:-1], shapes[1][-2])
    shown = shape_of(mask)
    broadcast = len(shown) <= len(wanted) and all(
        own in (1, full) for own, full in zip(reversed(shown), reversed(wanted), strict=False)
    )
    return bool(plain and broadcast and mask.is_cuda and not mask.requires_grad)


def _go_together(query: Shape, key: Shape, value: Shape) -> bool:
    """Are there as many heads of each, as wide, as many values as keys, and is there something of all?"""
    if any(len(s) < 2 or numel(s) == 0 for s in (query, key, value)):
        return False
    heads = query[:-2] == key[:-2] and query[-1] == key[-1]
    return heads and key[:-1] == value[:-1]


def _scores(query: Tensor, key: Tensor, factor: float) -> Tensor:
    """What goes into the softmax. Of half precision they are not rounded: large ones would be far off."""
    turned = transposed(key)
    if query.dtype.is_half and key.dtype is query.dtype and not getattr(query, "is_cuda", False):
        return e.mul(product(query, turned, dtype=float32), factor)
    return upcast(e.mul(matmul(query, turned), factor))


def _softmax_or_zero(scores: Tensor) -> Tensor:
    """The softmax, and zeros for queries that may attend to nothing."""
    nothing = r.all_true(c.eq(scores, float("-inf")), dims=(scores.ndim - 1,), keepdim=True)
    return e.where(nothing, 0.0, softmax(e.where(nothing, 0.0, scores), -1))


def _masked(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    if is_causal:
        rows, _ = shape_of(scores)[-2:]
        return _causal(scores, positions(rows, -1))
    if mask is None:
        return scores
    if mask.dtype is bool_:
        return e.where(mask, scores, float("-inf"))
    return e.add(scores, mask)


def _causal(scores: Tensor, numbers: Tensor) -> Tensor:
    """Scores of the queries of these ``numbers`` (a column), without those of later keys."""
    visible = c.le(positions(shape_of(scores)[-1], 0), numbers)
    return e.where(visible, scores, float("-inf"))
