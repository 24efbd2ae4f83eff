"""Derivatives of functions of tensors, or of tuples, lists, dicts and dataclasses of tensors.

A derivative is taken with respect to the arguments as new leaves, so ``.grad`` of the caller's tensors is untouched. It
has a history itself exactly where the function depends on something that requires grad outside: that is what makes
derivatives of derivatives work, and keeps first derivatives plain.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from ..autograd import entry, grad_mode
from ..autograd.node import AccumulateGrad, Node, next_number
from ..errors import ArgumentError, ArgumentValueError, AutogradError
from ..modes import MODES
from ..ops.movement import reshape
from ..ops.source import full
from ..tensor import Tensor
from ..trace.signature import flatten, unflatten
from .functional import tensors_of

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


def value_and_grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that returns ``(func(...), gradient)``.

    The gradient is with respect to the argument at ``argnums`` and has its structure (a tuple of gradients for a tuple
    of positions). ``func`` returns one floating point element, or with ``has_aux`` a pair of it and anything else; then
    the result is ``((value, aux), gradient)``. Raises ``RuntimeError`` for other values, ``ValueError`` for positions
    that are not there, ``TypeError`` for arguments without tensors.

    >>> import tracejit as tj
    >>> def loss(w, x):
    ...     return ((w["scale"] * x) ** 2).sum()
    >>> tj.value_and_grad(loss)({"scale": tj.tensor(2.0)}, tj.tensor([1.0, 2.0]))
    (tensor(20.), {'scale': tensor(20.)})
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        value, aux, gradients = _differentiated(func, argnums, has_aux, args, kwargs)
        return ((value, aux) if has_aux else value), gradients

    return wrapper


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of ``func``; with ``has_aux`` the pair ``(gradient, aux)``.

    Arguments and errors are those of :func:`value_and_grad`.

    >>> import tracejit as tj
    >>> slope = tj.grad(lambda x: x * x * x)
    >>> slope(tj.tensor(2.0)), tj.grad(slope)(tj.tensor(2.0))
    (tensor(12.), tensor(12.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _, aux, gradients = _differentiated(func, argnums, has_aux, args, kwargs)
        return (gradients, aux) if has_aux else gradients

    return wrapper


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """As :func:`value_and_grad`, with the gradient first.

    >>> import tracejit as tj
    >>> tj.func.grad_and_value(lambda x: x * x)(tj.tensor(3.0))
    (tensor(6.), tensor(9.))
    """
    both = value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return gradients, value

    return wrapper


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """``(func(*primals), pull)``: ``pull(v)`` gives vᵀJ for each primal, as often as it is called.

    ``v`` has the structure and the shapes of the output; ``pull`` returns a tuple, one gradient per primal in its
    structure. With ``has_aux``, ``func`` returns a pair and the result is ``(output, pull, aux)``. Raises
    ``RuntimeError`` where ``v`` does not fit.

    >>> import tracejit as tj
    >>> value, pull = tj.func.vjp(lambda x: x * x, tj.tensor([1.0, 2.0]))
    >>> value, pull(tj.tensor([1.0, 10.0]))
    (tensor([1., 4.]), (tensor([ 2., 40.]),))
    """
    trace = Trace(primals)
    output, aux = trace.run(func, primals, {}, range(len(primals)), has_aux)
    results, structure = tensors_of(output)

    def pull(cotangents: Any) -> tuple[Any, ...]:
        given = _same_structure(cotangents, structure, "cotangents")
        with trace.along(given):
            found = trace.gradients(results, given, retain=True)
            return tuple(trace.per_argument(found))

    shown = unflatten(structure, iter(trace.plain(results)))
    trace.close()
    return (shown, pull, trace.plain_tree(aux)) if has_aux else (shown, pull)


def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """``(func(*primals), J·tangents)``; with ``has_aux`` followed by what ``func`` returned besides.

    ``primals`` and ``tangents`` are tuples of equal structure. The product is the derivative of vᵀJ with respect to v.
    Raises ``TypeError`` for anything but tuples, ``ValueError`` for integers and ``RuntimeError`` where tangents do not
    fit, or with ``strict`` where part of the output does not hang on the primals.

    >>> import tracejit as tj
    >>> tj.func.jvp(lambda x: x * x, (tj.tensor([1.0, 2.0]),), (tj.tensor([1.0, 0.0]),))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise ArgumentError("jvp(): primals and tangents must be tuples")
    trace = Trace(primals, twice=True)
    output, aux = trace.run(func, primals, {}, range(len(primals)), has_aux)
    results, structure = tensors_of(output)
    weights, first = _weighted(trace, results)
    products = _products(trace, results, weights, first, tangents, strict)
    shown = unflatten(structure, iter(trace.plain(results)))
    product = unflatten(structure, iter(products))
    return (shown, product, trace.plain_tree(aux)) if has_aux else (shown, product)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """``(func(*primals), push)``: ``push(*tangents)`` gives J·tangents, as often as it is called.

    ``func`` runs once. Errors are those of :func:`jvp`.

    >>> import tracejit as tj
    >>> value, push = tj.func.linearize(lambda x: x * x, tj.tensor([1.0, 2.0]))
    >>> value, push(tj.tensor([1.0, 0.0])), push(tj.tensor([0.0, 10.0]))
    (tensor([1., 4.]), tensor([2., 0.]), tensor([ 0., 40.]))
    """
    trace = Trace(primals, twice=True)
    output, _ = trace.run(func, primals, {}, range(len(primals)), False)
    results, structure = tensors_of(output)
    weights, first = _weighted(trace, results)

    def push(*tangents: Any) -> Any:
        return unflatten(structure, iter(_products(trace, results, weights, first, tangents)))

    return unflatten(structure, iter(trace.plain(results))), push


def _weighted(trace: Trace, results: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Weights for a backward pass, and the gradients that are linear in them."""
    with _recorded():
        weights = [
            full(shape=r.spec.shape, value=0, dtype=r.dtype).requires_grad_() for r in results
        ]
        return weights, trace.gradients(results, weights, retain=True)


def _products(
    trace: Trace,
    results: Sequence[Any],
    weights: Sequence[Any],
    first: Sequence[Any],
    tangents: Any,
    strict: bool = False,
) -> list[Any]:
    """The derivatives of the gradients with respect to the weights, along the tangents."""
    given = _same_structure(tangents, trace.structure, "tangents")
    for tangent, leaf in zip(given, trace.leaves, strict=True):
        if tangent.spec != leaf.spec:
            raise AutogradError(f"tangents of type {tangent.spec} where {leaf.spec} is expected")
    pairs = [(g, t) for g, t in zip(first, given, strict=True) if g.requires_grad]
    found: Sequence[Any] = [None] * len(results)
    with trace.along(given):
        if pairs:
            with _recorded():
                found = entry.grad(
                    [g for g, _ in pairs],
                    weights,
                    [t for _, t in pairs],
                    retain_graph=True,
                    create_graph=trace.outer,
                    allow_unused=True,
                )
        if strict and any(product is None for product in found):
            raise AutogradError(
                "jvp(f, primals, tangents, strict=True): part of the output of f is independent of the inputs."
            )
        return trace.plain([_or_zeros(p, r) for p, r in zip(found, results, strict=True)])


#: Leaves of derivatives whose function has run, by identity.
_CLOSED: WeakValueDictionary[int, Any] = WeakValueDictionary()


# --- one differentiation --------------------------------------------------------------------------------------------


class Trace:
    """The arguments of one differentiation as leaves of their own, and what was computed from them."""

    def __init__(self, chosen: Sequence[Any], twice: bool = False) -> None:
        self.grad = MODES.grad
        self.twice = twice
        self.outer = False  # do values or gradients depend on something outside that requires grad?
        self.given: list[Tensor] = []
        self.structure = flatten(tuple(chosen), self.given)
        if not self.given:
            raise ArgumentError("there is no tensor in the arguments to differentiate")
        for tensor in self.given:
            if not tensor.dtype.is_differentiable:
                if twice:
                    raise ArgumentValueError(
                        f"Expected primal to be floating point or complex, but got: {tensor.dtype!r}"
                    )
                raise AutogradError(
                    f"only floating point and complex tensors have gradients, not {tensor.spec}"
                )
        with _recorded():
            self.leaves: list[Any] = [_leaf(t, self.grad) for t in self.given]
        self.first = next_number()

    def run(
        self,
        func: Function,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        positions: Sequence[int],
        has_aux: bool,
    ) -> tuple[Any, Any]:
        """The result and what came with it, recorded on the tape."""
        replaced = list(args)
        for position, value in zip(
            positions, unflatten(self.structure, iter(self.leaves)), strict=True
        ):
            replaced[position] = value
        with _recorded():
            result = func(*replaced, **kwargs)
        found: list[Any] = []
        flatten(result, found)
        self.outer = self.grad and self.reaches_out(found)
        if not has_aux:
            return result, None
        if not isinstance(result, tuple) or len(result) != 2:
            raise AutogradError("with has_aux=True the function must return a pair (output, aux)")
        return result

    def gradients(self, outputs: Sequence[Any], weights: Sequence[Any], retain: bool) -> list[Any]:
        """The gradient for every leaf, zeros where there is none."""
        for output in outputs:
            if not isinstance(output, Tensor):
                raise ArgumentError(
                    f"the function must return tensors, but it returned {type(output).__name__}"
                )
        pairs = [(o, w) for o, w in zip(outputs, weights, strict=True) if o.requires_grad]
        found: Sequence[Any] = [None] * len(self.leaves)
        if pairs:
            with grad_mode.inference_mode(False):
                found = entry.grad(
                    [o for o, _ in pairs],
                    self.leaves,
                    [w for _, w in pairs],
                    retain_graph=retain or self.outer,
                    create_graph=self.outer or self.twice,
                    allow_unused=True,
                )
        return [_or_zeros(g, leaf) for g, leaf in zip(found, self.leaves, strict=True)]

    def reaches_out(self, outputs: Sequence[Tensor]) -> bool:
        """Does the tape of ``outputs`` lead to anything but the leaves made here?"""
        own = {id(leaf) for leaf in self.leaves}
        stack = [edge[0] for output in outputs if (edge := output._edge()) is not None]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, AccumulateGrad):
                variable = node.variable
                if id(variable) not in own and _CLOSED.get(id(variable)) is not variable:
                    return True
            elif node.sequence < self.first:
                return True
            else:
                stack.extend(edge[0] for edge in node.edges if edge is not None)
        return False

    @contextmanager
    def along(self, given: Sequence[Tensor]) -> Iterator[None]:
        """What is computed inside depends on these cotangents or tangents, too; what comes after does not."""
        before = self.outer
        self.outer = before or (MODES.grad and any(v.requires_grad for v in given))
        try:
            yield
        finally:
            self.outer = before

    def close(self) -> None:
        """The function has run: to whoever uses what it gave, leaves made here are nothing outside."""
        _CLOSED.update((id(x), x) for x in self.leaves if x.is_leaf)

    def plain(self, values: Sequence[Any]) -> list[Any]:
        """Without the history that leads to nothing but the leaves made here."""
        if self.outer and self.reaches_out(values):
            return list(values)
        return [v.detach() if v.requires_grad else v for v in values]

    def plain_tree(self, value: Any) -> Any:
        """The same for tensors inside other values."""
        tensors: list[Any] = []
        structure = flatten(value, tensors)
        return unflatten(structure, iter(self.plain(tensors)))

    def per_argument(self, gradients: Sequence[Any]) -> list[Any]:
        """Gradients in the structure of the arguments."""
        return list(unflatten(self.structure, iter(self.plain(gradients))))


@contextmanager
def _recorded() -> Iterator[None]:
    """Operations inside are recorded, also within ``no_grad`` and ``inference_mode``."""
    with grad_mode.inference_mode(False), grad_mode.enable_grad():
        yield


def _leaf(tensor: Tensor, grad: bool) -> Any:
    """What stands for an argument: a new leaf, or a view that keeps its history."""
    if tensor.is_inference():
        return tensor.clone().requires_grad_()
    if grad and tensor.requires_grad:
        return reshape(tensor, shape=tensor.spec.shape)
    return tensor.detach().requires_grad_()


def _differentiated(
    func: Function, argnums: Argnums, has_aux: bool, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """Value, aux and gradient."""
    positions = positions_of(argnums, len(args))
    trace = Trace([args[i] for i in positions])
    value, aux = trace.run(func, args, kwargs, positions, has_aux)
    if not isinstance(value, Tensor) or value.spec.numel != 1 or value.spec.shape:
        kind = (
            f"a tensor of type {value.spec}" if isinstance(value, Tensor) else type(value).__name__
        )
        raise AutogradError(
            f"the function must return one element (a 0-d tensor), but it returned {kind}",
            "Reduce it with sum() or mean(), or use tj.func.vjp.",
        )
    if value.dtype.is_complex:
        raise AutogradError(
            f"grad can be implicitly created only for real scalar outputs but got {value.dtype!r}"
        )
    ones = full(shape=(), value=1.0, dtype=value.dtype)
    gradients = trace.per_argument(trace.gradients([value], [ones], retain=False))
    found: Any = gradients[0] if isinstance(argnums, int) else tuple(gradients)
    return trace.plain([value])[0], trace.plain_tree(aux), found


def positions_of(argnums: Argnums, count: int) -> list[int]:
    """Positions of positional arguments, negative ones from the end."""
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for position in wanted:
        if not -count <= position < count:
            raise ArgumentValueError(f"argnums={argnums} does not fit {count} positional arguments")
    found = [position % count for position in wanted]
    if len(set(found)) != len(found) or not found:
        raise ArgumentValueError(f"argnums={argnums} must be different positions")
    return found


def _or_zeros(gradient: Any, like: Any) -> Any:
    if gradient is not None:
        return gradient
    return full(shape=like.spec.shape, value=0, dtype=like.dtype)


def _same_structure(value: Any, structure: Any, what: str) -> list[Any]:
    """The tensors of ``value``, which must be nested as expected."""
    found: list[Any] = []
    if flatten(value, found) != structure:
        raise AutogradError(f"{what} must have the same structure as what they belong to")
    return found
