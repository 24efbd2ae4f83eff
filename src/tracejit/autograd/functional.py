"""Derivatives of functions: Jacobians, Hessians and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..cuda.arrays import placed
from ..errors import ArgumentError, AutogradError
from ..modes import MODES
from ..ops.movement import reshape
from ..ops.source import full
from .entry import grad

Tensors = Any  # a tensor or a tuple of tensors, as given


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """``(func(*inputs), v^T J)``; ``v`` may be left out for an output of one element.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0])
    >>> tj.autograd.functional.vjp(lambda x: x * x, x, tj.tensor([1.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with _Recording():
        arguments = _fresh(inputs, create_graph)
        outputs = func(*arguments)
        found = _gradients(_tuple(outputs), arguments, _vectors(v, outputs), create_graph, strict)
    return _plain(outputs, create_graph), _like(inputs, _plain_all(found, create_graph))


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """``(func(*inputs), J v)``, by differentiating ``v^T J`` with respect to ``v`` (the double-backward trick).

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0])
    >>> tj.autograd.functional.jvp(lambda x: x * x, x, tj.tensor([1.0, 0.0]))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    with _Recording():
        arguments = _fresh(inputs, create_graph)
        outputs = func(*arguments)
        results = _tuple(outputs)
        dummies = tuple(_full(o, 0).requires_grad_() for o in results)
        first = _gradients(results, arguments, dummies, True, strict)
        products = _gradients(first, dummies, _vectors(v, inputs), create_graph, False)
    return _plain(outputs, create_graph), _like(outputs, _plain_all(products, create_graph))


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All first derivatives: for one input and one output, a tensor of shape ``output.shape + input.shape``; for
    tuples, nested tuples indexed ``[output][input]``. Raises ``RuntimeError`` for complex results, unless ``strategy``
    is ``"forward-mode"``.

    >>> import tracejit as tj
    >>> tj.autograd.functional.jacobian(lambda x: x * x, tj.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    rows = _rows_of_parts if strategy == "forward-mode" else _rows
    with _Recording():
        arguments = _fresh(inputs, create_graph)
        outputs = func(*arguments)
        blocks = tuple(
            _like(inputs, rows(o, arguments, create_graph, strict)) for o in _tuple(outputs)
        )
    return _like(outputs, blocks)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """All second derivatives of a function with one element: the Jacobian of its gradient.

    >>> import tracejit as tj
    >>> tj.autograd.functional.hessian(lambda x: (x * x * x).sum(), tj.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    def gradient(*arguments: Any) -> Any:
        return _like(inputs, _of_scalar(func, arguments))

    return jacobian(gradient, inputs, create_graph=create_graph, strict=strict)


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """``(func(*inputs), v^T H)`` of a function with one element."""
    with _Recording():
        arguments = _fresh(inputs, create_graph)
        output = func(*arguments)
        if len(_tuple(output)) != 1:
            raise AutogradError("The function given to vhp should return a single Tensor")
        first = _gradients(_tuple(output), arguments, (None,), True, strict)
        found = _gradients(first, arguments, _vectors(v, inputs), create_graph, False)
    return _plain(output, create_graph), _like(inputs, _plain_all(found, create_graph))


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """``(func(*inputs), H v)`` of a function with one element; equal to :func:`vhp` as H is symmetric.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0])
    >>> tj.autograd.functional.hvp(lambda x: (x * x * x).sum(), x, tj.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return vhp(func, inputs, v, create_graph, strict)


class _Recording:
    """The tape on, for the time of a derivative."""

    def __enter__(self) -> None:
        self.before, MODES.grad = MODES.grad, True

    def __exit__(self, *_: object) -> None:
        MODES.grad = self.before


def _tuple(value: Tensors) -> tuple[Any, ...]:
    if hasattr(value, "_edge"):
        return (value,)
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for x in found:
        if not hasattr(x, "_edge"):
            raise ArgumentError(
                "The inputs and outputs of the user-provided function must be either a Tensor or a tuple of Tensors, "
                f"but got {type(x).__name__}"
            )
    return found


def _like(given: Tensors, values: Sequence[Any]) -> Any:
    """A tuple where a tuple was given, else its one entry."""
    return values[0] if hasattr(given, "_edge") else tuple(values)


def _full(like: Any, value: float) -> Any:
    return full(shape=like.spec.shape, value=value, dtype=like.dtype)


def _fresh(inputs: Tensors, create_graph: bool) -> tuple[Any, ...]:
    """The inputs as leaves of their own, or (``create_graph``) as new tensors with their history."""
    if create_graph:
        return tuple(
            reshape(x, shape=x.spec.shape) if x.requires_grad else x.detach().requires_grad_()
            for x in _tuple(inputs)
        )
    return tuple(x.detach().requires_grad_() for x in _tuple(inputs))


def _vectors(v: Tensors, like: Tensors) -> tuple[Any, ...]:
    """The vectors of a product, checked against what they multiply; ones for a single element."""
    targets = _tuple(like)
    if v is None:
        if len(targets) != 1 or targets[0].spec.numel != 1:
            raise AutogradError(
                "The vector v can only be None if the user-provided function returns a single Tensor "
                "with a single element."
            )
        return (_full(targets[0], 1),)
    vectors = _tuple(v)
    if len(vectors) != len(targets):
        raise AutogradError(f"v should have {len(targets)} tensors, but got {len(vectors)}")
    for x, target in zip(vectors, targets, strict=True):
        if x.spec.shape != target.spec.shape:
            raise AutogradError(
                f"v has size {list(x.spec.shape)} but should have {list(target.spec.shape)}"
            )
    return vectors


def _gradients(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    seeds: Sequence[Any],
    create_graph: bool,
    strict: bool,
) -> tuple[Any, ...]:
    """``grad`` with zeros for what does not depend (``RuntimeError`` when ``strict``)."""
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if not pairs:
        found: tuple[Any, ...] = (None,) * len(inputs)
    else:
        found = grad(
            [o for o, _ in pairs],
            inputs,
            [s for _, s in pairs],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    if strict and any(g is None for g in found):
        raise AutogradError(
            "an output is independent of an input; this is not allowed in strict mode"
        )
    return tuple(_full(x, 0) if g is None else g for g, x in zip(found, inputs, strict=True))


def _of_scalar(func: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    output = func(*arguments)
    if not hasattr(output, "_edge") or output.spec.numel != 1:
        raise AutogradError(
            "The function given to hessian should return a single Tensor with one element"
        )
    return _gradients((output,), arguments, (None,), True, False)


def _rows(output: Any, inputs: Sequence[Any], create_graph: bool, strict: bool) -> list[Any]:
    """One Jacobian block per input, a backward pass for each element of the output."""
    rows = [
        _gradients((output,), inputs, (seed,), create_graph, strict) for seed in seeds_of(output)
    ]
    blocks = [
        stacked_rows([row[position] for row in rows], output.spec.shape, x)
        for position, x in enumerate(inputs)
    ]
    return blocks if create_graph else [block.detach() for block in blocks]


def _rows_of_parts(
    output: Any, inputs: Sequence[Any], create_graph: bool, strict: bool
) -> list[Any]:
    """The same, with complex blocks for a complex output of real inputs."""
    if not output.spec.dtype.is_complex or any(x.spec.dtype.is_complex for x in inputs):
        return _rows(output, inputs, create_graph, strict)
    parts = (_rows(part, inputs, create_graph, strict) for part in (output.real, output.imag))
    return [real + 1j * imaginary for real, imaginary in zip(*parts, strict=True)]


def seeds_of(output: Any) -> Iterator[Any]:
    """For each element of ``output``, which is real, a tensor of its shape that is 1 there and 0 elsewhere."""
    if output.spec.dtype.is_complex:
        raise AutogradError(
            f"grad can be implicitly created only for real scalar outputs but got {output.spec.dtype!r}"
        )
    for element in range(output.spec.numel):
        seed = np.zeros(output.spec.shape, output.dtype.np)
        seed.reshape(-1)[element] = 1
        yield output._wrap(placed(seed, output._device_index()))


def stacked_rows(rows: list[Any], shape: tuple[int, ...], x: Any) -> Any:
    """The gradients of ``x``, one for each element of a result of this shape, as one block of the Jacobian."""
    from ..ops.movement import cat

    target = (*shape, *x.spec.shape)
    if not rows:
        return full(shape=target, value=0, dtype=x.dtype)
    flat = [reshape(row, shape=(1, x.spec.numel)) for row in rows]
    return reshape(cat(*flat, dim=0), shape=target)


def _plain(value: Tensors, create_graph: bool) -> Any:
    """Without history, unless it is wanted."""
    if create_graph:
        return value
    return _like(value, _plain_all(_tuple(value), False))


def _plain_all(values: Sequence[Any], create_graph: bool) -> tuple[Any, ...]:
    return tuple(values) if create_graph else tuple(x.detach() for x in values)
