"""The place of a gradient on a tensor, read and written so that a recorder hears of it.

``tensor._grad`` is state like any other: a recorded run that looks at it depends on what was there, and what it leaves
there is part of what the run did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..modes import MODES

if TYPE_CHECKING:
    from ..tensor import Tensor


def gradient_of(tensor: Tensor) -> Tensor | None:
    """What ``tensor.grad`` holds, without the warning for non-leaves.

    >>> gradient_of(tj.zeros(2, requires_grad=True)) is None
    True
    """
    if MODES.recorder is not None:
        MODES.recorder.gradient_read(tensor)
    return tensor._grad


def set_gradient(tensor: Tensor, value: Tensor | None) -> None:
    """Put ``value`` into ``tensor.grad``, unchecked.

    >>> x = tj.zeros(2, requires_grad=True)
    >>> set_gradient(x, tj.ones(2))
    >>> x.grad
    tensor([1., 1.])
    """
    if MODES.recorder is not None:
        MODES.recorder.gradient_set(tensor)
    tensor._grad = value
