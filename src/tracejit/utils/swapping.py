"""Two tensors that take each other's place, and classes that say they are of another module."""

from __future__ import annotations

import weakref
from typing import Any

from ..modes import MODES
from ..tensor import Tensor

__all__ = ["set_module", "swap_tensors"]

_SLOTS = [
    name
    for kind in Tensor.__mro__
    for name in kind.__dict__.get("__slots__", ())
    if name not in ("__dict__", "__weakref__")
]
_NOTHING = object()


def set_module(obj: Any, mod: str) -> None:
    """Have a class or function say that it is of this module.

    >>> class Mine: ...
    >>> set_module(Mine, "elsewhere")
    >>> Mine.__module__
    'elsewhere'
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Each tensor becomes the other one for all that hold it: values, gradients, class and attributes.

    Raises ``RuntimeError`` for tensors that weak references are to: these would see the other. Compiled functions that
    swap tensors run eagerly.

    >>> import tracejit as tj
    >>> x, y = tj.ones(1), tj.zeros(2)
    >>> swap_tensors(x, y)
    >>> x, y
    (tensor([0., 0.]), tensor([1.]))
    """
    if MODES.recorder is not None:
        MODES.recorder.unsupported("swap_tensors() inside a compiled function")
    for one in (t1, t2):
        if weakref.getweakrefcount(one):
            raise RuntimeError("Cannot swap a tensor that has weakref associated with it")
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in _SLOTS:
        first, second = (getattr(one, name, _NOTHING) for one in (t1, t2))
        _put(t1, name, second)
        _put(t2, name, first)


def _put(one: Tensor, name: str, value: Any) -> None:
    if value is not _NOTHING:
        setattr(one, name, value)
    elif hasattr(one, name):
        delattr(one, name)
