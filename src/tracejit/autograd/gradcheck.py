"""Gradients against central differences: ``gradcheck`` and, for second derivatives, ``gradgradcheck``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import user_line
from ..modes import MODES
from .entry import grad
from .function import FunctionNode
from .jacobians import (
    by_backward,
    by_differences,
    by_forward,
    count_of,
    parts,
    results_of,
    tensor_of,
)


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
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of ``func(*inputs)`` with ``(f(x + eps) - f(x - eps)) / (2 * eps)``, number by number.

    ``inputs`` that require grad should be float64 or complex128 (a warning otherwise). Returns True, or False / raises
    :class:`GradcheckError` at the first Jacobian that differs by more than ``atol + rtol * |numerical|``, or that two
    backward passes do not reproduce within ``nondet_tol``. ``check_forward_ad`` compares forward derivatives as well,
    ``check_backward_ad=False`` leaves gradients out; ``check_undefined_grad`` asks whether a
    :class:`tracejit.autograd.Function` gets along without gradients of its results; ``check_batched_grad`` and
    ``check_batched_forward_grad`` compare passes for several gradients at once with single ones; ``fast_mode`` compares
    derivatives along one random direction. ``masked`` is for layouts that there are none of. ``ValueError`` where no
    input requires grad.

    >>> import tracejit as tj
    >>> x = tj.tensor([0.5, -1.5], dtype=tj.float64, requires_grad=True)
    >>> tj.autograd.gradcheck(lambda x: x * x, (x,))
    True
    """
    del masked
    if not (check_forward_ad or check_backward_ad):
        raise ValueError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise ValueError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    arguments = (inputs,) if hasattr(inputs, "_edge") else tuple(inputs)
    check = _Check(func, arguments, eps, atol, rtol, nondet_tol, fast_mode, check_grad_dtypes)
    try:
        check.prepare()
        if check_backward_ad:
            check.backward(check_undefined_grad, check_batched_grad)
        if check_forward_ad:
            check.forward(check_batched_forward_grad)
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
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """:func:`gradcheck` of the gradients of ``func`` with respect to ``inputs`` and ``grad_outputs`` (random ones
    unless given). ``check_fwd_over_rev`` compares forward derivatives of them, ``check_rev_over_rev`` gradients.

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
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_like(rng: np.random.Generator, output: Any, spread: bool) -> Any:
    values = rng.standard_normal((*output.spec.shape, 2, 2))
    array = values[..., 0, 0] + (1j * values[..., 0, 1] if output.dtype.is_complex else 0)
    if spread:
        array = np.repeat(np.asarray(array)[..., None], 2, -1)[..., 0]
    tensor = output._wrap(np.array(array, output.dtype.np, copy=None)).to(output.device)
    return tensor.requires_grad_()


def _requires_grad(value: Any) -> bool:
    return hasattr(value, "_edge") and bool(value.requires_grad)


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of ``func`` that gradients exist for."""
    return tuple(r for r in results_of(func, inputs) if r.requires_grad)


@dataclass
class _Check:
    """One function, its arguments, and how close is close enough."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast: bool
    same_dtypes: bool

    def prepare(self) -> None:
        """Find what is compared."""
        self.chosen = [x for x in self.inputs if _requires_grad(x)]
        if not self.chosen:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of the them "
                "have requires_grad=True."
            )
        _warn_precision(self.chosen)
        for position, x in enumerate(self.chosen):
            if any(stride == 0 and n > 1 for stride, n in zip(x.stride(), x.shape, strict=True)):
                raise RuntimeError(
                    f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                    "non-overlapping to be able to compute the numerical gradients correctly."
                )
        self.rng = np.random.default_rng(0)
        self.directions = [self._directions(count_of(x)) for x in self.chosen]

    def _directions(self, count: int) -> Any:
        """All, or in fast mode a random one of length 1."""
        if not self.fast or not count:
            return np.eye(count)
        found = self.rng.uniform(0.1, 1, (1, count))
        return found / np.linalg.norm(found)

    def numerical(self, position: int) -> list[Any]:
        """The derivatives of all outputs along the directions of an input."""
        x = self.chosen[position]
        return by_differences(self._values, x, self.directions[position], self.eps)

    def _values(self) -> list[Any]:
        """Values of the outputs. The tape stays on: ``func`` may itself differentiate."""
        grad_mode, MODES.grad = MODES.grad, True
        try:
            return [parts(o) for o in results_of(self.func, self.inputs)]
        finally:
            MODES.grad = grad_mode

    def backward(self, undefined: bool, batched: bool) -> None:
        """Compare what backward passes find."""
        results = results_of(self.func, self.inputs)
        numerical = [self.numerical(i) for i in range(len(self.chosen))]
        for number, output in enumerate(results):
            expected = [
                columns[number] if columns else np.zeros((0, count_of(output)))
                for columns in numerical
            ]
            if not output.requires_grad:
                if any(np.abs(e).max(initial=0) > self.atol for e in expected):
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero: output {number} does not require grad"
                    )
                continue
            self._one_output(output, number, expected)
            if batched:
                self._batches(output)
        if undefined:
            _check_undefined([o for o in results if o.requires_grad])

    def _one_output(self, output: Any, number: int, expected: list[Any]) -> None:
        weights = self._directions(count_of(output))
        found = by_backward(output, self.chosen, weights)
        again = by_backward(output, self.chosen, weights)
        for position, x in enumerate(self.chosen):
            if np.abs(found[position] - again[position]).max(initial=0.0) > self.nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output "
                    f"multiple times gives different values (input {position}, output {number})"
                )
            directions = self.directions[position]
            analytical = directions @ found[position] if self.fast else found[position]
            wanted = expected[position] @ weights.T if self.fast else expected[position]
            self._compare(analytical, wanted, number, position)
            if self.same_dtypes:
                _check_dtype(output, x)

    def _batches(self, output: Any) -> None:
        """Passes for two gradients at once find what single ones find."""
        seeds = [tensor_of(self.rng.standard_normal(count_of(output)), output) for _ in range(2)]
        both = output._wrap(np.stack([s.array for s in seeds]))
        single = [self._pass(output, s, False) for s in seeds]
        for position, found in enumerate(self._pass(output, both, True)):
            for i, gradients in enumerate(single):
                expected = gradients[position]
                if (found is None) is not (expected is None) or (
                    found is not None and not np.allclose(parts(found[i]), parts(expected))
                ):
                    raise GradcheckError(
                        f"For input {position}, gradients of a batch of grad_outputs differ from those of each alone"
                    )

    def _pass(self, output: Any, seed: Any, batched: bool) -> Any:
        return grad(output, self.chosen, seed, True, allow_unused=True, is_grads_batched=batched)

    def forward(self, batched: bool) -> None:
        """Compare forward derivatives."""
        for position, x in enumerate(self.chosen):
            directions = self.directions[position]
            found = by_forward(self.func, self.inputs, x, directions)
            for number, expected in enumerate(self.numerical(position)):
                self._compare(found[number], expected, number, position)
            if batched and len(directions):
                self._forward_batch(x, position)

    def _forward_batch(self, x: Any, position: int) -> None:
        """Forward derivatives are linear in the tangent: that of a sum is the sum of those of its parts."""
        two = self.rng.standard_normal((2, count_of(x)))
        found = by_forward(self.func, self.inputs, x, [*two, two.sum(0)])
        for number, rows in enumerate(found):
            self._compare(rows[0] + rows[1], rows[2], number, position)

    def _compare(self, analytical: Any, numerical: Any, number: int, position: int) -> None:
        if analytical.size == 0 and numerical.size == 0:
            return
        if not np.allclose(analytical, numerical, rtol=self.rtol, atol=self.atol, equal_nan=True):
            raise GradcheckError(
                f"Jacobian mismatch for output {number} with respect to input {position},\n"
                f"numerical:{numerical}\nanalytical:{analytical}\n"
            )


def _warn_precision(chosen: Sequence[Any]) -> None:
    for position, x in enumerate(chosen):
        if x.dtype.itemsize < (16 if x.dtype.is_complex else 8):
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point or complex. This "
                f"check will likely fail if all the inputs are not of double precision. ({user_line()})",
                UserWarning,
                stacklevel=5,
            )


def _check_dtype(output: Any, x: Any) -> None:
    (found,) = grad(output, x, output.detach(), retain_graph=True, allow_unused=True)
    if found is not None and found.dtype is not x.dtype:
        raise GradcheckError("Backward grads do not have the dtype of their input")


def _check_undefined(outputs: Sequence[Any]) -> None:
    """Functions with a backward of their own answer without gradients of their results with None or zeros."""
    nodes = {node for o in outputs if isinstance(node := o.grad_fn, FunctionNode)}
    for node in nodes:
        try:
            found = node.apply([None] * node.n_outputs)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Please look at 'Notes about undefined "
                "output gradients' of PyTorch"
            ) from error
        if any(g is not None and bool((g != 0).any()) for g in found):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )
