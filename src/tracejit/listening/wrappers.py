"""Classes of tensors that answer for operators themselves, by ``__torch_dispatch__``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..device import device as device_type
from ..dtypes import get_default_dtype
from ..meta import ANY, MetaArray, meta_array
from ..modes import MODES
from ..tensor import Tensor
from .classes import watch

__all__ = ["answers", "leaves", "made_of", "wrappers_in"]


def answers(cls: type) -> bool:
    """Does a class of tensors answer for operators?

    >>> answers(Tensor)
    False
    """
    found = getattr(cls, "__torch_dispatch__", None)
    return found is not None and cls is not Tensor and callable(found) and _own(cls)


def _own(cls: type) -> bool:
    """Is the answer that of a class of a program?"""
    for kind in cls.__mro__:
        if "__torch_dispatch__" in vars(kind):
            return kind is not Tensor and not getattr(
                vars(kind)["__torch_dispatch__"], "_disabled", False
            )
    return False


def leaves(args: Any, kwargs: Any) -> Iterator[Tensor]:
    """The tensors among arguments, and in rows of them.

    >>> import tracejit as tj
    >>> len(list(leaves((tj.ones(1), [tj.ones(1), 2]), {})))
    2
    """
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from leaves(x, {})


def wrappers_in(args: Any, kwargs: Any) -> list[Tensor]:
    """Those of classes that answer for operators.

    >>> import tracejit as tj
    >>> wrappers_in((tj.ones(1),), {})
    []
    """
    return [x for x in leaves(args, kwargs) if type(x) is not Tensor and answers(type(x))]


def made_of(
    cls: type, size: Any, strides: Any, offset: Any, dtype: Any, place: Any, requires_grad: bool
) -> Any:
    """A tensor of ``cls`` without elements, which says of itself what it is told.

    >>> made_of(Tensor, (2, 3), None, 4, None, None, False).storage_offset()
    4
    """
    if MODES.recorder is not None:
        MODES.recorder.unsupported(f"a {cls.__name__} is made inside a compiled function")
    kind = get_default_dtype() if dtype is None else dtype
    ANY[0] = True
    array = meta_array(tuple(size), kind.np)
    if strides is not None or offset:
        unit, start = kind.np.itemsize, int(offset or 0)
        steps = array.strides if strides is None else tuple(int(n) * unit for n in strides)
        reach = 1 + sum((n - 1) * (k // unit) for n, k in zip(array.shape, steps, strict=True) if n)
        memory = meta_array((start + reach,), kind.np)
        array = np.ndarray(array.shape, kind.np, memory.data, start * unit, steps).view(MetaArray)
    made: Any = Tensor._wrap(array)
    made.__class__ = cls
    made._shown_at = device_type("cpu" if place is None else place)
    if requires_grad:
        made.requires_grad_()
    return watch(made)
