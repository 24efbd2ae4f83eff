"""Tensors in the place of others in the autograd graph: what a call is about to write to, or to give other memory."""

from __future__ import annotations

from ...tensor import Tensor


def as_before(tensor: Tensor) -> Tensor:
    """A copy of a tensor that the call is about to write to: the same values, the same place in the autograd graph."""
    return _continuing(Tensor._wrap(tensor.array.copy(order="K")), tensor)


def left_behind(tensor: Tensor) -> Tensor:
    """What stands for a tensor that the call is about to give other memory: on the old one, in the same place."""
    return _continuing(tensor._alias(), tensor)


def _continuing(copy: Tensor, tensor: Tensor) -> Tensor:
    edge = tensor._edge()
    if edge is not None:
        copy._requires_grad = True
        copy._grad_fn, copy._output_nr = edge
    return copy
