"""In which precision composite functions compute where autocast is on, as PyTorch lists it for the CPU.

Products take the dtype of autocast by themselves. Functions on PyTorch's other lists say so where they are declared
(``within=full_precision``); autocast is off inside them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..dtypes import DType, bfloat16, float16, float32
from ..modes import MODES
from .elementwise import cast
from .mixin import OperatorMixin
from .tensors_only import refuse_others

__all__ = ["full_precision", "given_precision", "lower_precision", "widened"]

_HALVES = (float16, bfloat16)
Function = Callable[..., Any]


def _converting(target: Function, convert: Callable[[Any, DType], Any]) -> Function:
    @functools.wraps(target)
    def inside(*args: Any, **kwargs: Any) -> Any:
        before = MODES.autocast
        try:
            if before is None:
                return target(*args, **kwargs)
            args = tuple(convert(x, before) for x in args)
            kwargs = {name: convert(x, before) for name, x in kwargs.items()}
            MODES.autocast = None
            return target(*args, **kwargs)
        except AttributeError:
            refuse_others(target, args, kwargs)
            raise
        finally:
            if before is not None:
                MODES.autocast = before

    return inside


def full_precision(target: Function) -> Function:
    """Losses and the like: numbers of half precision count as float32.

    >>> import tracejit as tj
    >>> with tj.autocast("cpu"):
    ...     tj.nn.functional.l1_loss(tj.ones(2).bfloat16(), tj.zeros(2).bfloat16()).dtype
    tracejit.float32
    """
    return _converting(target, lambda x, _: _as(x, _HALVES, float32))


def lower_precision(target: Function) -> Function:
    """Products with more to them than a product: all numbers take the dtype of autocast.

    >>> import tracejit as tj
    >>> with tj.autocast("cpu"):
    ...     tj.addmm(tj.ones(2, 2), tj.eye(2), tj.eye(2)).dtype
    tracejit.bfloat16
    """
    return _converting(target, lambda x, lower: _as(x, (float32, *_HALVES), lower))


def given_precision(target: Function) -> Function:
    """Products that are on no list: they compute in the dtype that they are given.

    >>> import tracejit as tj
    >>> with tj.autocast("cpu"):
    ...     tj.dot(tj.ones(2), tj.ones(2))
    tensor(2.)
    """
    return _converting(target, lambda x, _: x)


def widened(x: Any) -> Any:
    """``x``, as float32 where it has half precision and autocast is on.

    >>> widened(3)
    3
    """
    return x if MODES.autocast is None else _as(x, _HALVES, float32)


def _as(x: Any, kinds: tuple[DType, ...], dtype: DType) -> Any:
    return cast(x, dtype=dtype) if isinstance(x, OperatorMixin) and x.dtype in kinds else x
