"""Steps of attention that programs import from ``nn.functional`` to write an attention of their own."""

from __future__ import annotations

import warnings
from typing import Any

from ..dtypes import bool_
from ..ops.functions.factories import zeros_like
from ..tensor import Tensor
from . import functional as F

__all__: list[str] = []


def _none_or_dtype(input: Any) -> Any:
    """The dtype of a tensor; None for None.

    Raises ``RuntimeError`` for anything else.

    >>> import tracejit as tj
    >>> _none_or_dtype(None), _none_or_dtype(tj.ones(2))
    (None, tracejit.float32)
    """
    if input is None:
        return None
    if isinstance(input, Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or a tensor")


def _canonical_mask(
    mask: Any,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Any:
    """A mask as what is added to scores: of bools, minus infinity where it is true; others, and None, stay.

    Warns where its dtype is not ``other_type``. Raises ``AssertionError`` for a mask of integers.

    >>> import tracejit as tj
    >>> _canonical_mask(tj.tensor([True, False]), "mask", None, "other", tj.float32)
    tensor([-inf, 0.])
    """
    if mask is None:
        return None
    if not (mask.dtype.is_floating_point or mask.dtype is bool_):
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=2,
        )
    if mask.dtype.is_floating_point:
        return mask
    return zeros_like(mask, dtype=target_type).masked_fill(mask, float("-inf"))


def _in_projection(
    q: Any,
    k: Any,
    v: Any,
    w_q: Any,
    w_k: Any,
    w_v: Any,
    b_q: Any = None,
    b_k: Any = None,
    b_v: Any = None,
) -> tuple[Any, Any, Any]:
    """Queries, keys and values, each [..., E] and with a weight of its own, which has E rows.

    Raises ``AssertionError`` where a weight or bias does not fit.

    >>> import tracejit as tj
    >>> [x.shape for x in _in_projection(*[tj.ones(2, 4)] * 3, *[tj.ones(4, 4)] * 3)]
    [tracejit.Size([2, 4]), tracejit.Size([2, 4]), tracejit.Size([2, 4])]
    """
    width = q.shape[-1]
    for given, w, b in ((q, w_q, b_q), (k, w_k, b_k), (v, w_v, b_v)):
        if tuple(w.shape) != (width, given.shape[-1]):
            raise AssertionError(
                f"expecting a weight of shape {(width, given.shape[-1])}, but got {tuple(w.shape)}"
            )
        if b is not None and tuple(b.shape) != (width,):
            raise AssertionError(f"expecting a bias of shape {(width,)}, but got {tuple(b.shape)}")
    return F.linear(q, w_q, b_q), F.linear(k, w_k, b_k), F.linear(v, w_v, b_v)


def _in_projection_packed(q: Any, k: Any, v: Any, w: Any, b: Any = None) -> tuple[Any, Any, Any]:
    """Queries, keys and values by one weight of [3 E, E] and one bias of [3 E], packed in this order.

    Where the same tensor is projected more often, that is one product.

    >>> import tracejit as tj
    >>> x = tj.ones(5, 2, 4)
    >>> [p.shape for p in _in_projection_packed(x, x, x, tj.ones(12, 4), tj.ones(12))]
    [tracejit.Size([5, 2, 4]), tracejit.Size([5, 2, 4]), tracejit.Size([5, 2, 4])]
    """
    if q is k and k is v:
        together = F.linear(q, w, b)
        queries, keys, values = (part.contiguous() for part in together.chunk(3, dim=-1))
        return queries, keys, values
    width = q.shape[-1]
    w_q, w_rest = w.split([width, 2 * width])
    b_q, b_rest = (None, None) if b is None else b.split([width, 2 * width])
    queries = F.linear(q, w_q, b_q)
    if k is v:
        keys, values = (part.contiguous() for part in F.linear(k, w_rest, b_rest).chunk(2, dim=-1))
        return queries, keys, values
    w_k, w_v = w_rest.chunk(2)
    b_k, b_v = (None, None) if b_rest is None else b_rest.chunk(2)
    return queries, F.linear(k, w_k, b_k), F.linear(v, w_v, b_v)


def _verify_batch_size(size: Any) -> None:
    """Raise ``ValueError`` unless a batch of ``size`` has more than one value per channel.

    >>> _verify_batch_size([1, 4])
    Traceback (most recent call last):
    ValueError: Expected more than 1 value per channel when training, got input size [1, 4]
    """
    count = size[0]
    for extent in size[2:]:
        count *= extent
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )
