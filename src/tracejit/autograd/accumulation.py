"""At the leaves: adding what a backward pass found to ``.grad``."""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING

import numpy as np

from ..aligned import has_memory
from ..cuda.arrays import MODULES, device_index, is_writeable, module_of
from ..errors import AutogradError
from ..mirrored import Mirrored
from ..modes import MODES
from ..ops.elementwise import add, clone
from .slots import gradient_of

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["accumulate", "arrive", "nothing_arrives"]


def accumulate(leaf: Tensor, gradient: Tensor) -> None:
    """Add to ``leaf.grad`` what a pass that records nothing found.

    >>> x = tj.ones(2, requires_grad=True)
    >>> accumulate(x, tj.ones(2)), accumulate(x, tj.ones(2)), x.grad
    (None, None, tensor([2., 2.]))
    """
    grad_mode, MODES.grad = MODES.grad, False
    try:
        arrive(leaf, gradient, False)
    finally:
        MODES.grad = grad_mode


def arrive(leaf: Tensor, gradient: Tensor, create_graph: bool) -> None:
    """Add to ``leaf.grad``: in place, so that whoever holds it sees it, unless the sum is to have a history.

    A leaf that no longer requires grad keeps what it has, and its hooks are called all the same. ``RuntimeError`` for
    one that an operation has made since.

    >>> x = tj.ones(2, requires_grad=True)
    >>> total = x.sum()
    >>> _ = x.requires_grad_(False)
    >>> total.backward(), x.grad
    (None, None)
    """
    if leaf._grad_fn is not None:
        raise AutogradError("leaf variable has been moved into the graph interior")
    wanted = leaf._requires_grad
    present = gradient_of(leaf) if wanted else None
    if MODULES and leaf.get_device() != gradient.get_device():
        gradient = gradient.to(leaf.device)
    if gradient._type is not leaf._type and gradient.spec.shape != leaf.spec.shape:
        raise AutogradError(
            f"the gradient of a leaf of type {leaf.spec} has type {gradient.spec}: shapes must agree"
        )
    if present is not None:
        if create_graph:
            leaf._grad = add(present, gradient)
        elif not _add_into(present, gradient):
            present._assign(add(present, gradient))
    elif wanted and create_graph:
        leaf._grad = gradient if gradient._requires_grad or _is_sole(gradient) else clone(gradient)
    elif wanted:
        kept = gradient if _is_sole(gradient) else _copied(gradient)
        leaf._grad = kept.detach() if kept._requires_grad else kept
    nothing_arrives(leaf)


def nothing_arrives(leaf: Tensor) -> None:
    """A pass is over for a leaf, which may have added nothing: hooks are called all the same.

    >>> x = tj.ones(2, requires_grad=True)
    >>> nothing_arrives(x), x.grad
    (None, None)
    """
    for hook in tuple((leaf._post_accumulate_hooks or {}).values()):
        if hook(leaf) is not None:
            raise AutogradError("Tensor post accumulate grad hooks should return None.")


def _add_into(present: Tensor, gradient: Tensor) -> bool:
    """``present += gradient`` without an intermediate, where nobody has to be told op by op."""
    if MODES.listening or present._shown_at is not None:  # its class answers for operators
        present.add_(gradient)
        return True
    target = present.array
    if MODES.recorder is not None or not is_writeable(target) or present._inference:
        return False
    if gradient.spec != present.spec:
        return False
    if not MODULES:
        np.add(target, gradient.array, out=target)
    elif device_index(target) == device_index(gradient.array):
        module_of(target).add(target, gradient.array, out=target)
    else:
        return False
    present._writes.value += 1
    return True


def _copied(gradient: Tensor) -> Tensor:
    """``clone(gradient)``; where nobody has to be told of it, just the values."""
    special = MODES.inference or gradient._shown_at is not None
    if MODULES or MODES.recorder is not None or special:
        copy: Tensor = clone(gradient)
        return copy
    return gradient._wrap(gradient.array.copy())


def _is_sole(gradient: Tensor) -> bool:
    """Nobody but the walk holds this tensor and its memory: a leaf may keep it as it is.

    The references expected are the walk's two variables, this one's and the call's argument; for memory, the
    tensor's own, this function's and the call's argument.
    """
    if gradient._base is not None or gradient._inference or getrefcount(gradient) > 4:
        return False
    array = gradient._array
    if array is None:
        return type(gradient._block) is not Mirrored and getrefcount(gradient._block) <= 2
    if getrefcount(array) > 3:
        return False
    owned = gradient._block is not None or has_memory(array)
    return bool(array.flags.c_contiguous and is_writeable(array) and owned)
