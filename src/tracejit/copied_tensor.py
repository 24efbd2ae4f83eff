"""What ``copy.deepcopy`` makes of a tensor: its memory in the same order, by operations where a recorder listens."""

from __future__ import annotations

from typing import Any

import numpy as np

from .answering import watched
from .cuda.arrays import fetched
from .modes import MODES
from .tensor_core import TensorCore


def deep_array(array: Any, memo: dict[int, Any]) -> Any:
    """A copy of an array in the same memory order."""
    copied = array.copy(order="K")
    memo[id(array)] = copied
    return copied


def clone_in_order(x: Any) -> Any:
    """As `deep_array`, by operations: a clone of the dimensions in the order in which they lie in memory."""
    steps = np.empty_like(fetched(x.array), order="K").strides
    dims = list(range(x.ndim))
    order = sorted(dims, key=lambda d: -steps[d])
    if order == dims:
        return x.detach().clone()
    return x.detach().permute(order).clone().permute(sorted(dims, key=order.__getitem__))


def copy_gradient(source: Any, copied: Any) -> None:
    """While a recorder listens: let ``copied`` have a copy of the gradient of ``source``, if that has one."""
    if not source._requires_grad and source._grad is None:
        return
    recorder = MODES.recorder
    if source._grad is None or not recorder.gradient_dropped(source):
        found = source.grad
        copied._grad = None if found is None else found.detach().contiguous().clone()
    else:
        copied._grad = source._wrap(source._grad.array.copy())
        recorder.unfollowed.append(copied._grad)


def of_class(kind: Any, array: Any) -> Any:
    """A tensor of a class on an array."""
    made = object.__new__(kind)
    TensorCore.__init__(made)
    made._array = array
    return watched(made)
