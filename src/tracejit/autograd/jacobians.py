"""Jacobians of functions, by central differences, by backward passes and by forward derivatives.

All are real: a complex number counts as two, its real and its imaginary part. A Jacobian has a row for every number of
the input and a column for every number of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..modes import MODES
from .entry import grad
from .forward_ad import dual_level, make_dual, unpack_dual

__all__ = [
    "Function",
    "by_backward",
    "by_differences",
    "by_forward",
    "count_of",
    "parts",
    "results_of",
    "tensor_of",
]

Function = Callable[..., Any]


def count_of(x: Any) -> int:
    """How many real numbers a tensor has.

    >>> count_of(tj.zeros(3)), count_of(tj.zeros(3, dtype=tj.complex64))
    (3, 6)
    """
    return int(x.spec.numel) * (2 if x.dtype.is_complex else 1)


def parts(x: Any) -> Any:
    """The real numbers of a tensor, as an array of doubles.

    >>> parts(tj.tensor([1 + 2j]))
    array([1., 2.])
    """
    array = np.array(x.detach().cpu().array)
    if np.iscomplexobj(array):
        return np.ascontiguousarray(array.reshape(-1), np.complex128).view(np.float64)
    return array.astype(np.float64).reshape(-1)


def tensor_of(numbers: Any, like: Any) -> Any:
    """The tensor of the type of ``like`` that has these real numbers.

    >>> tensor_of([1.0, 2.0], tj.zeros((), dtype=tj.complex64))
    tensor(1.+2.j)
    """
    array = np.asarray(numbers, np.float64)
    if like.dtype.is_complex:
        array = array.view(np.complex128)
    found = like._wrap(array.reshape(like.spec.shape).astype(like.dtype.np))
    return found.to(like.device)


def by_differences(
    values: Callable[[], Sequence[Any]], x: Any, directions: Any, eps: float
) -> list[Any]:
    """For each output, the derivatives along ``directions`` (rows of numbers of ``x``, which is changed meanwhile).

    >>> x = tj.tensor([1.0, 3.0], dtype=tj.float64)
    >>> by_differences(lambda: [parts(x * x)], x, np.eye(2), 0.5)
    [array([[2., 0.],
           [0., 6.]])]
    """
    array, start = x.array, x.array.copy()
    rows = []
    try:
        for direction in directions:
            step = eps * tensor_of(direction, x).array
            array[...] = start + step
            above = values()
            array[...] = start - step
            below = values()
            rows.append([(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)])
    finally:
        array[...] = start
    return [np.array(column) for column in zip(*rows, strict=True)]


def by_backward(output: Any, inputs: Sequence[Any], weights: Any) -> list[Any]:
    """For each input, what backward passes find that begin with ``weights`` (rows of numbers of the output).

    >>> x = tj.tensor([1.0, 3.0], requires_grad=True)
    >>> by_backward(x * x, [x], np.eye(2))
    [array([[2., 0.],
           [0., 6.]])]
    """
    found = [np.zeros((count_of(x), len(weights))) for x in inputs]
    for position, weight in enumerate(weights):
        gradients = grad(
            output, inputs, tensor_of(weight, output), retain_graph=True, allow_unused=True
        )
        for jacobian, gradient in zip(found, gradients, strict=True):
            if gradient is not None:
                jacobian[:, position] = parts(gradient)
    return found


def by_forward(func: Function, inputs: Sequence[Any], x: Any, directions: Any) -> list[Any]:
    """For each output that can be differentiated, its tangents for tangents ``directions`` of the input ``x``.

    >>> x = tj.tensor([1.0, 3.0])
    >>> by_forward(lambda x: x * x, [x], x, np.eye(2))
    [array([[2., 0.],
           [0., 6.]])]
    """
    rows = []
    for direction in directions:
        grad_mode = MODES.grad
        with dual_level():
            dual = make_dual(x, tensor_of(direction, x))
            outputs = results_of(func, [dual if y is x else y for y in inputs])
            found = [unpack_dual(o).tangent for o in outputs]
        MODES.grad = grad_mode
        rows.append(
            [
                np.zeros(count_of(o)) if t is None else parts(t)
                for o, t in zip(outputs, found, strict=True)
            ]
        )
    return [np.array(column) for column in zip(*rows, strict=True)]


def results_of(func: Function, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors among the results of ``func`` that could have a gradient, in order.

    >>> results_of(lambda x: (x, x > 0), [tj.ones(2)])
    (tensor([1., 1.]),)
    """
    found = func(*inputs)
    several = (found,) if hasattr(found, "_edge") else tuple(found)
    return tuple(r for r in several if hasattr(r, "_edge") and r.dtype.is_differentiable)
