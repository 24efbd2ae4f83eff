"""Attention whose scores a function changes, and whose masks a function tells, under PyTorch's names.

Both functions are called once, with positions that broadcast to all scores; what they compute is fused with the softmax
in compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dtypes import bool_
from ...errors import ArgumentValueError
from ...ops.functions.common import as_type, shape_of, upcast
from ...ops.functions.factories import zeros
from ...ops.functions.matrices import matmul
from ...ops.functions.ranges import arange
from ...ops.functions.softmax import softmax

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

#: The size of blocks where none is told.
_DEFAULT_SPARSE_BLOCK_SIZE = 128
Mask = Callable[[Any, Any, Any, Any], Any]
Change = Callable[[Any, Any, Any, Any, Any], Any]


class AuxRequest(NamedTuple):
    """What to return besides the attention: the logarithm of the sum of exponentials, the largest score."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by :class:`AuxRequest`."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, q: Any, kv: Any) -> Any:
    """The mask that allows everything.

    >>> import tracejit as tj
    >>> zero = tj.tensor(0)
    >>> noop_mask(zero, zero, zero, zero)
    tensor(True)
    """
    return (q == q) & (kv == kv)


def and_masks(*mask_mods: Mask) -> Mask:
    """The mask that allows what all of ``mask_mods`` allow.

    >>> and_masks(noop_mask, noop_mask).__name__
    'both'
    """

    def both(batch: Any, head: Any, q: Any, kv: Any) -> Any:
        found = noop_mask(batch, head, q, kv)
        for mask in mask_mods:
            found = found & mask(batch, head, q, kv)
        return found

    return both


def or_masks(*mask_mods: Mask) -> Mask:
    """The mask that allows what any of ``mask_mods`` allows.

    >>> or_masks(noop_mask).__name__
    'either'
    """

    def either(batch: Any, head: Any, q: Any, kv: Any) -> Any:
        found = ~noop_mask(batch, head, q, kv)
        for mask in mask_mods:
            found = found | mask(batch, head, q, kv)
        return found

    return either


def _positions(sizes: tuple[int, ...]) -> list[Any]:
    """Numbers along each of four dimensions, which broadcast to all of them."""
    shapes = [tuple(n if i == d else 1 for i in range(4)) for d, n in enumerate(sizes)]
    return [arange(n).reshape(shape) for n, shape in zip(sizes, shapes, strict=True)]


def create_mask(
    mod_fn: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """A bool tensor (B, H, Q_LEN, KV_LEN) of what a mask function allows; without B or H those are one.

    >>> import tracejit as tj
    >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return as_type(mod_fn(*_positions(sizes)), bool_).expand(sizes)


class BlockMask:
    """A mask function with the sizes it is for; blocks of ``BLOCK_SIZE`` tell which parts hold anything.

    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256)
    >>> mask.shape, mask.to_dense()[0, 0]
    ((1, 1, 256, 256), tensor([[1, 0],
            [1, 1]], dtype=tracejit.int32))
    """

    def __init__(self, mask_mod: Mask, sizes: tuple[int, ...], block_size: tuple[int, int]) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE = mask_mod, sizes, block_size

    @property
    def seq_lengths(self) -> tuple[int, ...]:
        """How many queries and keys there are."""
        return self.shape[2:]

    def to_dense(self) -> Any:
        """1 for each block in which anything is allowed, int32."""
        from ...dtypes import int32

        batch, heads, rows, columns = self.shape
        height, width = self.BLOCK_SIZE
        down, across = -(-rows // height), -(-columns // width)
        whole = zeros(batch, heads, down * height, across * width, dtype=bool_)
        whole[:, :, :rows, :columns] = create_mask(self.mask_mod, *self.shape)
        blocks = whole.reshape(batch, heads, down, height, across, width)
        return blocks.any(5).any(3).to(int32)

    def sparsity(self) -> float:
        """The percentage of scores in blocks that hold nothing."""
        used = int(self.to_dense().sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100.0 * (1 - used / math.prod(self.shape))


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    **_options: Any,
) -> BlockMask:
    """The mask that ``mask_mod(batch, head, query, key)`` tells.

    >>> create_block_mask(noop_mask, 1, 1, 8, 8).seq_lengths
    (8, 8)
    """
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), (block[0], block[1]))


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Change | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention over (B, H, L, E), (B, H, S, E) and (B, H, S, V) with ``score_mod(score, batch, head, query, key)``.

    Where ``block_mask`` allows nothing at all, the result is zero. ``scale`` is ``1 / sqrt(E)`` by default; the
    logarithms of the sums of exponentials (B, H, L) come with ``return_lse`` or as ``return_aux`` asks. Raises
    ``ValueError`` for other ranks and for masks of other sizes.

    >>> import tracejit as tj
    >>> q = tj.ones(1, 1, 2, 4)
    >>> flex_attention(q, q, q, lambda score, b, h, i, j: score + (i - j)).shape
    tracejit.Size([1, 1, 2, 4])
    """
    if any(x.ndim != 4 for x in (query, key, value)):
        raise ArgumentValueError("flex_attention: query, key and value must be 4D tensors")
    heads = shape_of(query)[1] // shape_of(key)[1] if enable_gqa else 1
    if heads > 1:
        key, value = (x.repeat_interleave(heads, 1) for x in (key, value))
    factor = 1.0 / math.sqrt(shape_of(query)[-1]) if scale is None else scale
    scores = upcast(matmul(query, key.mT)) * factor
    sizes = (*shape_of(query)[:3], shape_of(key)[2])
    at = _positions(sizes)
    if score_mod is not None:
        scores = as_type(score_mod(scores, *at), scores.dtype)
    if block_mask is not None:
        _fits(block_mask, sizes)
        scores = scores.masked_fill(~as_type(block_mask.mask_mod(*at), bool_), -math.inf)
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    weights = softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    found = matmul(as_type(weights, query.dtype), value)
    if not (return_lse or return_aux is not None):
        return found
    lse = scores.logsumexp(-1)
    if return_aux is None:
        return found, lse
    largest = scores.amax(-1) if return_aux.max_scores else None
    return found, AuxOutput(lse if return_aux.lse else None, largest)


def _fits(mask: BlockMask, sizes: tuple[int, ...]) -> None:
    wanted = mask.shape
    same = all(n in (1, own) for n, own in zip(wanted[:2], sizes, strict=False))
    if not same or wanted[2:] != sizes[2:]:
        raise ArgumentValueError(
            f"block_mask was created for block_mask.shape={wanted} but got scores of shape {sizes}. "
            "As the block mask was created for other sizes, create a new one."
        )
