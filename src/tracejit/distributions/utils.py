"""Helpers of distributions that programs write their own with."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import get_default_dtype
from ..errors import ArgumentValueError
from ..number_limits import finfo
from ..ops.functions.sampling import randn
from ..ops.functions.triangles import tril_indices
from .distribution import broadcast
from .lazy import lazy_property

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape.

    >>> import tracejit as tj
    >>> broadcast_all(tj.zeros(2), 1.0)[1]
    tensor([1., 1.])
    """
    return tuple(broadcast(*values))


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dimensions.

    >>> import tracejit as tj
    >>> _sum_rightmost(tj.ones(2, 3, 4), 2)
    tensor([12., 12.])
    """
    return value.sum(tuple(range(-dim, 0))) if dim else value


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Draws of mean 0 and deviation 1, without gradients.

    >>> import tracejit as tj
    >>> _standard_normal((2, 3), tj.float64, "cpu").shape
    tracejit.Size([2, 3])
    """
    return randn(shape, dtype=dtype, device=device)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept from 0 and 1 by the precision of their dtype.

    >>> import tracejit as tj
    >>> bool(clamp_probs(tj.tensor(0.0)) > 0)
    True
    """
    eps = finfo(probs.dtype if probs.dtype.is_floating_point else get_default_dtype()).eps
    return probs.clamp(min=eps, max=1 - eps)


def _clipped_sigmoid(x: Any) -> Any:
    """The sigmoid, kept from 0 and 1 by the precision of its dtype: its inverse is finite.

    >>> import tracejit as tj
    >>> bool(_clipped_sigmoid(tj.tensor(1000.0)) < 1)
    True
    """
    limits = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log-odds, or of unnormalised logarithms along the last dimension.

    >>> import tracejit as tj
    >>> logits_to_probs(tj.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log-odds of probabilities, or their logarithms.

    >>> import tracejit as tj
    >>> probs_to_logits(tj.tensor(0.5), is_binary=True)
    tensor(0.)
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Matrices whose lower triangles, up to diagonal ``diag``, hold ``vec``, row by row; zero elsewhere.

    >>> import tracejit as tj
    >>> vec_to_tril_matrix(tj.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    count, shift = vec.shape[-1], 1 + 2 * diag
    n = (math.isqrt(shift**2 + 8 * count + 4 * abs(diag) * (diag + 1)) - shift) // 2
    if tril_indices(n, n, diag).shape[1] != count:
        raise ArgumentValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    rows, columns = tril_indices(n, n, diag)
    matrix = vec.new_zeros((*vec.shape[:-1], n, n))
    matrix[..., rows, columns] = vec
    return matrix


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangles of matrices up to diagonal ``diag``, row by row.

    >>> import tracejit as tj
    >>> tril_matrix_to_vec(tj.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ArgumentValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = tril_indices(n, n, diag)
    return mat[..., rows, columns]
