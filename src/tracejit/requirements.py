"""Conditions that programs require, as functions: each raises its own kind of error where one does not hold.

Models call them on what they are given, and PyTorch's compiler takes them as hints; here they are ordinary checks, so a
compiled function has a guard on what a condition depends on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from .dtypes import bool_
from .tensor import Tensor

__all__: list[str] = []

_UNSAID = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _check_with(
    error_type: type[BaseException], cond: Any, message: Callable[[], Any] | None = None
) -> None:
    """Raise ``error_type`` unless ``cond``, a bool, holds; ``message()`` says why.

    Raises ``TypeError`` where ``cond`` is no bool, or ``message`` is needed and not callable.

    >>> _check_with(ValueError, 1 > 2, lambda: "one is less than two")
    Traceback (most recent call last):
    ValueError: one is less than two
    """
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use _check_tensor_all() to assert that "
            "all elements are true."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if not issubclass(error_type, Exception) or issubclass(error_type, Warning):
        raise AssertionError(
            f"error_type must be a subclass of Exception but not Warning, got {error_type}"
        )
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(_UNSAID if message is None else str(message()))


def _check_tensor_all_with(
    error_type: type[BaseException], cond: Any, message: Callable[[], Any] | None = None
) -> None:
    """Raise ``error_type`` unless all elements of ``cond``, a tensor of bools, are true.

    Raises ``TypeError`` where ``cond`` is no tensor of bools.

    >>> import tracejit as tj
    >>> _check_tensor_all_with(IndexError, tj.tensor([True, False]), lambda: "one is not")
    Traceback (most recent call last):
    IndexError: one is not
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None, *, max: Any = None) -> None:
    """Raise ``RuntimeError`` unless ``i`` can be an extent, of at most ``max``. PyTorch is about to remove it."""
    warnings.warn("_check_is_size is deprecated. Use _check(i >= 0) instead.", FutureWarning, 2)
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


_check = partial(_check_with, RuntimeError)
_check_index = partial(_check_with, IndexError)
_check_value = partial(_check_with, ValueError)
_check_type = partial(_check_with, TypeError)
_check_not_implemented = partial(_check_with, NotImplementedError)
_check_tensor_all = partial(_check_tensor_all_with, RuntimeError)

#: What the package offers under the same names.
REQUIREMENTS: dict[str, Callable[..., None]] = {
    "_check": _check,
    "_check_index": _check_index,
    "_check_is_size": _check_is_size,
    "_check_not_implemented": _check_not_implemented,
    "_check_tensor_all": _check_tensor_all,
    "_check_tensor_all_with": _check_tensor_all_with,
    "_check_type": _check_type,
    "_check_value": _check_value,
    "_check_with": _check_with,
}
