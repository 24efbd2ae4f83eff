"""Gradients against central differences: ``gradcheck`` and, for second derivatives, ``gradgradcheck``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import user_line
from ..modes import MODES
from .entry import grad


class GradcheckError(RuntimeError):
    """Analytical and numerical gradients differ."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Compare the gradients of ``func(*inputs)`` with ``(f(x + eps) - f(x - eps)) / (2 * eps)``, element by element.

    ``inputs`` that require grad should be float64 (a warning otherwise). Returns True, or False / raises
    :class:`GradcheckError` at the first Jacobian that differs by more than ``atol + rtol * |numerical|``, or that
    two backward passes do not reproduce within ``nondet_tol``.

    >>> import tracejit as tj
    >>> x = tj.tensor([0.5, -1.5], dtype=tj.float64, requires_grad=True)
    >>> tj.autograd.gradcheck(lambda x: x * x, (x,))
    True
    """
    arguments = (inputs,) if hasattr(inputs, "_edge") else tuple(inputs)
    try:
        _check(func, arguments, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """:func:`gradcheck` of the gradients of ``func`` with respect to ``inputs`` and ``grad_outputs`` (random ones
    unless given).

    >>> import tracejit as tj
    >>> x = tj.tensor([0.5, -1.5], dtype=tj.float64, requires_grad=True)
    >>> tj.autograd.gradgradcheck(lambda x: x * x * x, (x,))
    True
    """
    arguments = (inputs,) if hasattr(inputs, "_edge") else tuple(inputs)
    count = len(arguments)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        outputs = _outputs(func, arguments)
        seeds = tuple(_random_like(rng, o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        seeds = (grad_outputs,) if hasattr(grad_outputs, "_edge") else tuple(grad_outputs)

    def first(*values: Any) -> tuple[Any, ...]:
        chosen = tuple(x for x in values[:count] if _requires_grad(x))
        results = _outputs(func, values[:count])
        found = grad(results, chosen, values[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(
        first,
        (*arguments, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )


def _random_like(rng: np.random.Generator, output: Any, spread: bool) -> Any:
    values = rng.standard_normal((*output.spec.shape, 2))
    array = values[..., 0] if spread else values[..., 0].copy()
    tensor = output._wrap(array.astype(output.dtype.np, copy=False))
    return tensor.requires_grad_()


def _requires_grad(value: Any) -> bool:
    return hasattr(value, "_edge") and bool(value.requires_grad)


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of ``func`` that gradients exist for."""
    found = func(*inputs)
    results = (found,) if hasattr(found, "_edge") else tuple(found)
    return tuple(r for r in results if _requires_grad(r))


def _check(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    chosen = [x for x in inputs if _requires_grad(x)]
    if not chosen:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them "
            "have requires_grad=True."
        )
    _warn_precision(chosen)
    outputs = _outputs(func, inputs)
    for number, output in enumerate(outputs):
        analytical = _analytical(output, chosen)
        again = _analytical(output, chosen)
        for position, x in enumerate(chosen):
            if np.abs(analytical[position] - again[position]).max(initial=0.0) > nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output "
                    f"multiple times gives different values (input {position}, output {number})"
                )
            numerical = _numerical(func, inputs, x, number, eps)
            _compare(analytical[position], numerical, number, position, atol, rtol)


def _warn_precision(chosen: Sequence[Any]) -> None:
    for position, x in enumerate(chosen):
        if x.dtype.itemsize < 8:
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point. This "
                f"check will likely fail if all the inputs are not of double precision. ({user_line()})",
                UserWarning,
                stacklevel=5,
            )


def _analytical(output: Any, inputs: Sequence[Any]) -> list[Any]:
    """Jacobians (input elements, output elements), one backward pass per output element."""
    count = output.spec.numel
    jacobians = [np.zeros((x.spec.numel, count)) for x in inputs]
    for element in range(count):
        seed = np.zeros(output.spec.shape, output.dtype.np)
        seed.reshape(-1)[element] = 1
        found = grad(output, inputs, output._wrap(seed), retain_graph=True, allow_unused=True)
        for jacobian, gradient in zip(jacobians, found, strict=True):
            if gradient is not None:
                jacobian[:, element] = gradient.array.reshape(-1)
    return jacobians


def _numerical(
    func: Callable[..., Any], inputs: tuple[Any, ...], x: Any, number: int, eps: float
) -> Any:
    """The same Jacobian by central differences, moving one element at a time in place."""
    array = x.array
    rows = []
    for index in np.ndindex(array.shape):
        before = array[index].copy()
        try:
            array[index] = before + eps
            above = _values(func, inputs, number)
            array[index] = before - eps
            below = _values(func, inputs, number)
        finally:
            array[index] = before
        rows.append((above - below) / (2 * eps))
    return np.array(rows) if rows else np.zeros((0, 0))


def _values(func: Callable[..., Any], inputs: tuple[Any, ...], number: int) -> Any:
    """Values of one output. The tape stays on: ``func`` may itself differentiate."""
    grad_mode, MODES.grad = MODES.grad, True
    try:
        output = _outputs(func, inputs)[number]
    finally:
        MODES.grad = grad_mode
    return np.array(output.array, np.float64).reshape(-1)


def _compare(
    analytical: Any, numerical: Any, number: int, position: int, atol: float, rtol: float
) -> None:
    if analytical.size == 0 and numerical.size == 0:
        return
    if not np.allclose(analytical, numerical, rtol=rtol, atol=atol, equal_nan=True):
        raise GradcheckError(
            f"Jacobian mismatch for output {number} with respect to input {position},\n"
            f"numerical:{numerical}\nanalytical:{analytical}\n"
        )
