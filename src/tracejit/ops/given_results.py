"""Results that are written to tensors of the caller's (``out=``): which dtypes, sizes and shared memory are taken.

The lists follow PyTorch's functions on the CPU, of which some convert and others want the dtype of the result, and some
look whether what they write to is what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import dtypes
from ..errors import ArgumentError, AutogradError, DtypeError, ShapeError, warn
from ..modes import MODES
from ..types import Shape
from . import shapes
from .overlaps import refuse_overlap, refuse_shared

__all__ = ["put", "refuse_alike", "told_by"]


def _names(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


#: Functions whose ``out`` keeps its shape where it has as many elements.
_RANGES = _names("arange linspace logspace range")
#: Functions that compute in the dtype of ``out`` where nobody says another.
_TOLD = _names("cumprod cumsum mean nanmean nansum prod sum")
#: Functions whose ``out`` has the dtype of the result; others convert.
_EXACT = _names(
    "abs addbmm addmm addmv alias_copy amax amin aminmax argmax argmin as_strided_copy avg_pool2d avg_pool3d",
    "baddbmm bitwise_not bmm bucketize ceil cholesky_ex complex conj_physical cross cummax cummin cumprod cumsum",
    "det diag diagonal_copy diff dot eigh eigvalsh expand_copy float_power floor frac frexp gather gelu hardshrink",
    "hash_tensor heaviside histc histogram index_add index_copy index_reduce index_select inner inv_ex inverse isin",
    "isneginf isposinf kthvalue ldl_factor ldl_factor_ex ldl_solve lerp linear log_softmax logcumsumexp logsigmoid",
    "lu lu_factor lu_factor_ex lu_solve lu_unpack masked_select matmul matrix_norm matrix_power median mm mode",
    "msort multi_dot multinomial mv nan_to_num nanquantile narrow_copy neg nonzero nonzero_static norm ormqr",
    "orthogonal_factors permute_copy qr quantile renorm round scatter scatter_add scatter_reduce searchsorted sgn",
    "sign signbit slice_scatter slogdet softmax softplus softshrink solve solve_ex solve_triangular sort",
    "split_with_sizes_copy squeeze_copy svd svdvals t_copy take take_along_dim tensordot topk transpose_copy",
    "triangular_solve tril triu trunc unbind_copy unfold_copy unsqueeze_copy vdot vecdot vector_norm view_copy",
    "where",
)
#: What ``out`` has the dtype of the result for, of functions that otherwise convert.
_EXACT_FOR: dict[str, Callable[[Any, list[Any]], bool]] = {
    "abs": lambda result, read: not read[0].dtype.is_complex,
    "diff": lambda result, read: [x.shape for x in read] == [result.shape],  # of order 0
    "inner": lambda result, read: all(x.ndim for x in read),
    "lerp": lambda result, read: len(read) == 3,
}
#: Functions whose ``out`` is of logical values, or bytes where these are what was asked.
_LOGICAL = _names("all any")
#: Functions whose ``out`` has no imaginary parts.
_REAL = _names("hfft hfft2 hfftn irfft irfft2 irfftn")
#: Functions whose ``out`` may be of whole numbers.
_WHOLE = _names("bernoulli")
#: Functions that say with a ``TypeError`` which dtypes they cannot write.
_JOINED = _names("cat column_stack concat concatenate dstack hstack row_stack stack vstack")
#: Functions that may not read at all what they write to.
_APART = _names(
    "cat concat concatenate cross gather index_select kthvalue masked_select take take_along_dim",
)
#: Functions that read everything before they write, or do not look.
_UNASKED = _names(
    "addbmm addmm addmv addr alias_copy all amax amin any argmax argmin as_strided_copy avg_pool2d avg_pool3d baddbmm",
    "bmm cholesky cholesky_ex cholesky_inverse cholesky_solve cond count_nonzero cummax cummin det diag diagonal_copy",
    "diff eigh eigvalsh expand_copy geqrf hfft hfft2 hfftn histc histogram householder_product inner inv_ex inverse",
    "irfft irfft2 irfftn ldexp ldl_factor ldl_factor_ex ldl_solve linear log_softmax logsigmoid logsumexp lstsq lu",
    "lu_factor lu_factor_ex lu_solve lu_unpack matmul matrix_norm matrix_power mean mm mv mvlgamma nanmean",
    "nanquantile nansum narrow_copy native_batch_norm ndtr norm ormqr permute_copy pinv prod qr quantile",
    "slice_scatter slogdet softmax solve solve_ex solve_triangular split_with_sizes_copy squeeze_copy std sum svd",
    "svdvals t_copy tensordot tensorinv tensorsolve transpose_copy tril triu unbind_copy unfold_copy unsqueeze_copy",
    "var vecdot vector_norm view_copy",
)


def told_by(name: str, makes: bool, out: Any, kwargs: Mapping[str, Any]) -> Any:
    """The dtype that ``out`` tells the function ``name``, one that makes tensors or not; None where it does not.

    Raises ``RuntimeError`` where a tensor is made in another.

    >>> import tracejit as tj
    >>> told_by("zeros", True, tj.empty(0, dtype=tj.int64), {})
    tracejit.int64
    """
    if isinstance(out, (tuple, list)) or not (makes or name in _TOLD):
        return None
    given = kwargs.get("dtype")
    if given is None:
        return out.dtype
    if makes and given is not out.dtype:
        raise DtypeError(
            f"dtype {given.title} does not match dtype of out parameter ({out.dtype.title})"
        )
    return None


def refuse_alike(name: str, out: Any, operands: Iterable[Any]) -> None:
    """Refuse an ``out`` that shares memory with an operand where the function ``name`` would read what it has written.

    Raises ``RuntimeError``, and ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> x = tj.arange(4.0)
    >>> refuse_alike("add", x, [x])
    >>> refuse_alike("add", x[1:], [x[:-1]])
    Traceback (most recent call last):
    RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to ...
    """
    results = out if isinstance(out, (tuple, list)) else (out,)
    for one in results:
        if not hasattr(one, "_writes"):
            raise ArgumentError(
                f"{name}(): argument 'out' must be Tensor, not {type(one).__name__}"
            )
        if name in _UNASKED:
            continue
        read = [x for x in _tensors(operands) if x is not one or name in _APART]
        if name in _APART:
            refuse_shared(one, read)
        refuse_overlap(one, read)


def _tensors(operands: Iterable[Any]) -> Iterator[Any]:
    for x in operands:
        if hasattr(x, "_writes"):
            yield x
        elif isinstance(x, (tuple, list)):
            yield from _tensors(x)


def put(name: str, out: Any, result: Any, operands: Iterable[Any] = ()) -> Any:
    """Write the result of the function ``name`` to the tensor ``out``, or several to several; and return ``out``.

    Raises ``RuntimeError`` for another dtype than the function takes, where gradients would have to go through, and
    where one of the ``operands`` is ``out`` and of another size than all of them have in common;
    ``TypeError`` for another number of tensors.

    >>> import tracejit as tj
    >>> put("add", tj.empty(0), tj.ones(2))
    tensor([1., 1.])
    """
    if not isinstance(result, (tuple, list)):
        _refuse_wider(name, out, result, operands)
        return _put(name, out, result, _is_exact(name, result, operands))
    if not isinstance(out, (tuple, list)) or len(out) != len(result):
        count = len(out) if isinstance(out, (tuple, list)) else 1
        raise ArgumentError(
            f"{name}(): argument 'out': expected tuple of {len(result)} elements but got {count}"
        )
    exact = name in _EXACT or name in ("max", "min")
    written = [_put(name, one, value, exact) for one, value in zip(out, result, strict=True)]
    return type(result)(*written) if hasattr(result, "_fields") else tuple(written)


def _is_exact(name: str, result: Any, operands: Iterable[Any]) -> bool:
    """Does ``out`` have the dtype of the ``result`` that the function ``name`` has for ``operands``?"""
    asked = _EXACT_FOR.get(name)
    return name in _EXACT and (asked is None or asked(result, list(_tensors(operands))))


def _refuse_wider(name: str, out: Any, result: Any, operands: Iterable[Any]) -> None:
    """Refuse to resize an operand of a function whose result has the size that its operands are broadcast to."""
    if isinstance(out, (tuple, list)) or out.shape == result.shape or name in _UNASKED:
        return
    read = list(_tensors(operands))
    if any(x is out for x in read) and _common([x.spec.shape for x in read]) == result.spec.shape:
        raise ShapeError(
            f"output with shape {list(out.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )


def _common(sizes: Sequence[Shape]) -> Shape | None:
    """What sizes are broadcast to; None where they do not fit."""
    try:
        return shapes.broadcast("out", sizes)
    except ShapeError:
        return None


def _put(name: str, out: Any, result: Any, exact: bool) -> Any:
    if exact and out.dtype is not result.dtype:
        raise DtypeError(
            f"Expected out tensor to have dtype {result.dtype.name}, but got {out.dtype.name} instead"
        )
    if result.requires_grad or (MODES.grad and out.requires_grad):
        raise AutogradError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if out.dtype is not result.dtype:
        result = _in_dtype(name, out.dtype, result)
    if name in _RANGES and out.numel() == result.numel():  # which fill a tensor of any shape
        return out.copy_(result.reshape(out.shape))
    if out.shape != result.shape:
        _resize(out, result.shape)
    return out.copy_(result)


def _in_dtype(name: str, dtype: dtypes.DType, result: Any) -> Any:
    """The result, which is of another dtype than ``out``, as the function ``name`` writes it to that."""
    if name in _LOGICAL:
        if dtype not in (dtypes.bool_, dtypes.uint8):
            raise DtypeError(f"{name} only supports bool tensor for result, got: {dtype.title}")
        return result.to(dtype)
    if name in _REAL and dtype.is_complex:
        raise DtypeError(f"{name} expects a floating point output tensor, but got {dtype.title}")
    if name in _WHOLE:
        return result.to(dtype)
    if result.dtype.rank > dtype.rank:
        if name in _JOINED:
            raise ArgumentError(
                f"{name}(): input types can't be cast to the desired output type {dtype.title}"
            )
        raise DtypeError(
            f"result type {result.dtype.title} can't be cast to the desired output type {dtype.title}"
        )
    return result


def _resize(out: Any, shape: Sequence[int]) -> None:
    if out.numel():
        warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future release "
            "outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            "resizing it, inplace, to zero elements with t.resize_(0)."
        )
    out.resize_(shape)
