"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ... import dtypes
from ...dtypes import DType
from ...errors import ArgumentError, warn
from .. import elementwise as e
from .. import reduction as r
from .. import transcendental as t
from ..table import function
from .common import Tensor, as_type, check_tensor, dim_of, require_float, shape_of, upcast


def _centred(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """``x`` minus its largest element; the shift carries no gradient because it cancels."""
    if any(shape_of(x)[d] == 0 for d in dims):
        return x
    return e.sub(x, e.detach_copy(r.amax(x, dims=dims, keepdim=True)))


def _softmax_input(name: str, input: Tensor, dtype: DType | None) -> tuple[Tensor, DType]:
    check_tensor(name, input)
    x = input if dtype is None else as_type(input, dtypes.as_dtype(dtype))
    require_float(name, x)
    return upcast(x), x.dtype


def implicit_dim(dim: int | None, x: Tensor) -> int:
    """``dim``, or the one that was meant where none was said, before there were batches of anything."""
    return dim if dim is not None else (0 if x.ndim in (0, 1, 3) else 1)


def dim_left_out(name: str) -> None:
    """The warning of it."""
    warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument."
    )


def _dim_said(target: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``target``, with that warning."""

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) < 2 and kwargs.get("dim") is None:
            dim_left_out(target.__name__)
        if len(args) > 2 and type(args[2]) is int:  # the layers take ``_stacklevel`` before dtype
            args = (*args[:2], *args[3:])
        return target(*args, **kwargs)

    return call


@function(method=False, steady=True, within=_dim_said, large=True)
def softmax(
    input: Tensor, dim: int | None = None, dtype: DType | None = None, *, _stacklevel: int = 3
) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``, shifted by the maximum so that nothing overflows.

    Multiplied by the reciprocal of the sum, one division for each sum: within 1.5 units in the last place of a division
    for every element, which takes as long as the exponential. The sum is at least 1, so nothing over- or underflows.

    Raises ``RuntimeError`` for integers (give ``dtype``), ``IndexError`` for a dimension out of range.

    >>> import tracejit as tj
    >>> tj.softmax(tj.tensor([1.0, 1.0, 1.0, 1.0]), dim=0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    x, result = _softmax_input("softmax", input, dtype)
    d = dim_of(implicit_dim(dim, x), x)
    dims = (d,) if x.ndim else ()
    weights = t.exp(_centred(x, dims))
    share = e.reciprocal(r.sum(weights, dims=dims, keepdim=True))
    return as_type(e.mul(weights, share), result)


@function(method=False, steady=True, within=_dim_said, large=True)
def log_softmax(
    input: Tensor, dim: int | None = None, dtype: DType | None = None, *, _stacklevel: int = 3
) -> Tensor:
    """The logarithm of :func:`softmax`, computed without forming it.

    >>> import tracejit as tj
    >>> tj.log_softmax(tj.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    x, result = _softmax_input("log_softmax", input, dtype)
    d = dim_of(implicit_dim(dim, x), x)
    dims = (d,) if x.ndim else ()
    shifted = _centred(x, dims)
    total = r.sum(t.exp(shifted), dims=dims, keepdim=True)
    return as_type(e.sub(shifted, t.log(total)), result)


def _along(dim: int, name: str) -> int:
    if dim is None:
        raise ArgumentError(f"{name}(): argument 'dim' must be int, not NoneType")
    return dim


@function(namespace=False, method="softmax")
def softmax_method(self: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """:func:`tracejit.softmax` along ``dim``, which has to be said.

    >>> import tracejit as tj
    >>> tj.tensor([1.0, 1.0]).softmax(0)
    tensor([0.5000, 0.5000])
    """
    found: Tensor = softmax(self, _along(dim, "softmax"), dtype)
    return found


@function(namespace=False, method="log_softmax")
def log_softmax_method(self: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """:func:`tracejit.log_softmax` along ``dim``, which has to be said.

    >>> import tracejit as tj
    >>> tj.tensor([0.0, 0.0]).log_softmax(0)
    tensor([-0.6931, -0.6931])
    """
    found: Tensor = log_softmax(self, _along(dim, "log_softmax"), dtype)
    return found


@function(method=False, within=_dim_said, large=True)
def softmin(
    input: Tensor, dim: int | None = None, dtype: DType | None = None, *, _stacklevel: int = 3
) -> Tensor:
    """``softmax(-input)``.

    >>> import tracejit as tj
    >>> tj.softmin(tj.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return softmax(e.neg(input), implicit_dim(dim, input), dtype)


# --- what programs with a softmax of their own call -----------------------------------------------------------------


@function(method=False)
def _softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """:func:`softmax`; of float16 in float32 with ``half_to_float``.

    >>> import tracejit as tj
    >>> tj._softmax(tj.zeros(2), 0, False)
    tensor([0.5000, 0.5000])
    """
    return softmax(input, dim, dtypes.float32 if half_to_float else None)


@function(method=False)
def _log_softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """:func:`log_softmax`; of float16 in float32 with ``half_to_float``.

    >>> import tracejit as tj
    >>> tj._log_softmax(tj.zeros(2), 0, False)
    tensor([-0.6931, -0.6931])
    """
    return log_softmax(input, dim, dtypes.float32 if half_to_float else None)


@function(method=False)
def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Tensor:
    """The gradient of what :func:`softmax` had given ``output`` for, in the dtype that it had.

    >>> import tracejit as tj
    >>> tj._softmax_backward_data(tj.tensor([1.0, 0.0]), tj.tensor([0.5, 0.5]), 0, tj.float32)
    tensor([ 0.2500, -0.2500])
    """
    g, out = upcast(grad_output), upcast(output)
    dims = (dim_of(dim, out),) if out.ndim else ()
    total = r.sum(e.mul(g, out), dims=dims, keepdim=True)
    return as_type(e.mul(e.sub(g, total), out), dtypes.as_dtype(input_dtype))


@function(method=False)
def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Tensor:
    """The gradient of what :func:`log_softmax` had given ``output`` for, in the dtype that it had.

    >>> import tracejit as tj
    >>> tj._log_softmax_backward_data(tj.tensor([1.0, 0.0]), tj.tensor([0.5, 0.5]).log(), 0, tj.float32)
    tensor([ 0.5000, -0.5000])
    """
    g, out = upcast(grad_output), upcast(output)
    dims = (dim_of(dim, g),) if g.ndim else ()
    found = e.sub(g, e.mul(t.exp(out), r.sum(g, dims=dims, keepdim=True)))
    return as_type(found, dtypes.as_dtype(input_dtype))
