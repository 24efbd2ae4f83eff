"""How losses of elements become one: the mean, the sum, or none; also as flags, which are deprecated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ...errors import ArgumentValueError, warn
from .. import reduction as r
from ..precision import full_precision
from .common import Tensor
from .reductions import mean as mean_of


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, or what the flags say that were there before it."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def old_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """:func:`reduction_of`, with a ``UserWarning`` where it is the flags that say it."""
    found = reduction_of(size_average, reduce, reduction)
    if size_average is not None or reduce is not None:
        warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{found}' instead."
        )
    return found


def flags_seen(target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, in full precision, with the warning of :func:`old_reduction`: for what may not warn itself.

    >>> import tracejit as tj
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     tj.nn.functional.mse_loss(tj.ones(2), tj.zeros(2), size_average=False)
    tensor(2.)
    >>> [warning.category.__name__ for warning in found]
    ['UserWarning']
    """
    names = list(inspect.signature(target).parameters)
    first = min(names.index("size_average"), names.index("reduce"))

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > first or "size_average" in kwargs or "reduce" in kwargs:
            given = dict(zip(names, args, strict=False)) | kwargs
            old_reduction(given.get("size_average"), given.get("reduce"), "mean")
        return target(*args, **kwargs)

    return full_precision(call)


def check_reduction(reduction: str) -> None:
    """``ValueError`` unless it is one of the three."""
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentValueError(f"{reduction} is not a valid value for reduction")


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean, the sum, or the loss itself; ``ValueError`` for another ``reduction``."""
    check_reduction(reduction)
    if reduction == "mean":
        return mean_of(loss)
    if reduction == "sum":
        return r.sum(loss, dims=tuple(range(loss.ndim)), keepdim=False)
    return loss
