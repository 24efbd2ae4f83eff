"""Derivatives that there are not: a gradient that comes to one is refused by the name of the function, not lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AutogradError
from ..modes import MODES
from . import promotion as p
from .namespace import xp
from .table import Array, elementwise


class MissingDerivativeError(AutogradError, NotImplementedError):
    """A gradient came to an argument of a function that has no derivative there."""


class Missing:
    """A gradient rule that refuses: there is no derivative for ``what``, a function or an operator.

    >>> Missing("geqrf")(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.ops.underived.MissingDerivativeError: the derivative for 'geqrf' is not implemented.
    >>> Missing("aten::heaviside")(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.AutogradError: derivative for aten::heaviside is not implemented
    """

    refuses = True

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, g: Any) -> Any:
        """Raise ``RuntimeError``, as PyTorch does for such a function or operator."""
        if "::" in self.what:
            raise AutogradError(f"derivative for {self.what} is not implemented")
        raise MissingDerivativeError(f"the derivative for '{self.what}' is not implemented.")


class _MissingAsSaid:
    refuses = True

    def __call__(self, g: Any, what: str) -> Any:
        return Missing(what)(g)


@elementwise("x", promotion=p.same_or_complex, grad=dict.fromkeys("xy", _MissingAsSaid()))
def marked(x: Array, y: Array, *, what: str = "") -> Array:
    """x, with a gradient that is refused, for y too."""
    return xp(x).broadcast_to(x, np.broadcast_shapes(x.shape, y.shape)).copy()


def underived(x: Any, *others: Any, what: str) -> Any:
    """``x``, which refuses a gradient by the name of ``what`` where it, or one of ``others``, asks for one.

    >>> import tracejit as tj
    >>> underived(tj.ones(2), what="geqrf")
    tensor([1., 1.])
    """
    for y in (x, *others):
        if not hasattr(y, "_edge") or (MODES.grad and y.requires_grad):
            x = marked(x, y, what=what)
    return x


def refuse_gradients(function: str, **arguments: Any) -> None:
    """Raise ``RuntimeError`` for an argument that asks for a gradient which ``function`` has none for.

    >>> import tracejit as tj
    >>> weight = tj.ones(2, requires_grad=True)
    >>> refuse_gradients("nll_loss_forward", weight=weight)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.AutogradError: The function 'nll_loss_forward' is not differentiable with respect to argument \
'weight'. This input cannot have requires_grad True.
    """
    for name, x in arguments.items():
        if MODES.grad and getattr(x, "_requires_grad", False):
            raise AutogradError(
                f"The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot "
                "have requires_grad True."
            )
