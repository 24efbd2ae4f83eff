"""The op table: the decorators that declare an op, and the functions published from it.

An op is one decorated function. The ``def`` line gives its name, tensor operands (positional) and attributes
(keyword-only); the docstring its documentation; the body its eager meaning over arrays. The decorator adds what
the compiler needs: a scalar expression, gradient rules, a type rule, samples. Eager execution, IR, gradients, code
generation, documentation and tests all derive from this one entry; they dispatch on the *kind*, never on a name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..dtypes import DType
from ..types import TensorType
from .composed import COMPOSED, composed
from .kinds import (
    Contraction,
    Elementwise,
    Indexing,
    Movement,
    OperandInfo,
    PromotionRule,
    Reduction,
    Source,
    StrideRule,
    operand_info,
)
from .namespace import xp
from .op import REGISTRY, Array, GradRule, Ints, Op, Sample, all_ops, lookup, set_dispatcher
from .remembered import STEADY, remembered

__all__ = [
    "FUNCTIONS",
    "METHODS",
    "Array",
    "Contraction",
    "Elementwise",
    "GradRule",
    "Indexing",
    "Ints",
    "Movement",
    "Op",
    "OperandInfo",
    "Reduction",
    "Sample",
    "Source",
    "alias",
    "all_ops",
    "contraction",
    "declare",
    "elementwise",
    "function",
    "indexing",
    "lookup",
    "movement",
    "operand_info",
    "reduction",
    "set_dispatcher",
    "source",
]


def _in_module(name: str, *arrays: Any) -> Any:
    """The function ``name`` of the module that computes with ``arrays``."""
    return getattr(xp(*arrays), name)(*arrays)


def _register(cls: type[Op], function: Callable[..., Any], grad: Any, **fields: Any) -> Any:
    parameters = inspect.signature(function).parameters.values()
    operands = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    attributes = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    rules = grad if isinstance(grad, Mapping) else ({operands[0]: grad} if grad else {})
    unknown = set(rules) - set(operands)
    if unknown or function.__name__ in REGISTRY:
        raise ValueError(f"op {function.__name__}: declared twice, or gradients for {unknown}")
    op = cls(
        name=function.__name__,
        operands=operands,
        variadic=variadic,
        attributes=attributes,
        grads={name: GradRule.of(rule) for name, rule in rules.items()},
        doc=inspect.getdoc(function) or "",
        **{"body": function, **fields},
    )
    REGISTRY[op.name] = op
    return op


Grad = Callable[..., Any] | Mapping[str, Callable[..., Any]] | None


def elementwise(
    scalar: str | None,
    *,
    promotion: PromotionRule,
    ufunc: str | None = None,
    grad: Grad = None,
    domain: tuple[float, float] | Mapping[str, tuple[float, float]] = (-3.0, 3.0),
    samples: Sequence[Sample] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an elementwise op; one whose eager meaning is a function of NumPy's, ``ufunc``, needs no body.

    >>> lookup("mul").scalar
    'x * y'
    """
    return lambda function: _register(
        Elementwise,
        function,
        grad,
        body=function if ufunc is None else partial(_in_module, ufunc),
        host=None if ufunc is None else getattr(np, ufunc),
        scalar=scalar,
        promotion=promotion,
        domain=domain,
        samples=tuple(samples),
    )


def reduction(
    combine: str | None,
    *,
    result_dtype: Callable[[DType], DType],
    grad: Grad = None,
    check: Callable[[TensorType, Mapping[str, Any]], None] | None = None,
    samples: Sequence[Sample] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a reduction over ``dims``.

    >>> lookup("amax").combine
    'max'
    """
    return lambda function: _register(
        Reduction,
        function,
        grad,
        combine=combine,
        result_dtype=result_dtype,
        check=check,
        samples=tuple(samples),
    )


def movement(
    infer: Callable[..., TensorType],
    *,
    strides: StrideRule | None = None,
    grad: Grad = None,
    write: Callable[..., Any] | None = None,
    samples: Sequence[Sample] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an op that rearranges elements; a view when it has a rule for ``strides``.

    >>> lookup("permute").is_view
    True
    """
    return lambda function: _register(
        Movement,
        function,
        grad,
        infer_shape=infer,
        strides=strides,
        write=write,
        samples=tuple(samples),
    )


def contraction(
    infer: Callable[..., TensorType],
    *,
    grad: Grad = None,
    shared: Callable[..., Any] | None = None,
    total: bool = False,
    follows: bool = False,
    samples: Sequence[Sample] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a library call; what the gradients of several operands need alike is ``shared``.

    One that refuses no values, only types, is ``total``. Where it ``follows``, its rules are told which matrices are
    transposed (their type is `Turned`).

    >>> lookup("matmul").kind
    'contraction'
    """
    return lambda function: _register(
        Contraction,
        function,
        grad,
        infer_type=infer,
        total=total,
        follows=follows,
        samples=tuple(samples),
        shared=None if shared is None else GradRule.of(shared),
    )


def indexing(
    infer: Callable[..., TensorType],
    *,
    grad: Grad = None,
    samples: Sequence[Sample] = (),
    dynamic: bool = False,
    tells_values: bool = False,
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an op that addresses elements by integer tensors.

    >>> lookup("nonzero").dynamic
    True
    """
    return lambda function: _register(
        Indexing,
        function,
        grad,
        infer_type=infer,
        samples=tuple(samples),
        dynamic=dynamic,
        tells_values=tells_values,
    )


def declare(
    cls: type[Op], *, grad: Grad = None, **fields: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an op of any kind.

    >>> lookup("random_bits").operands
    ('key',)
    """
    return lambda function: _register(cls, function, grad, **fields)


def source(
    infer: Callable[..., TensorType], *, scalar: str | None = None, samples: Sequence[Sample] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an op that makes a tensor.

    >>> lookup("full").operands
    ()
    """
    return lambda function: _register(
        Source, function, None, infer_type=infer, scalar=scalar, samples=tuple(samples)
    )


FUNCTIONS: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}


def function(
    *,
    method: bool | str = True,
    namespace: bool = True,
    within: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    steady: bool = False,
    large: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Publish a composite (or an op) as ``tj.name`` and, when ``method``, as ``Tensor.name``.

    ``method`` may be another name than the function's own; ``namespace=False`` publishes the method only; ``within``
    is what the function runs in (see ``precision``); ``steady`` says that its steps follow from types (`remembered`),
    ``large`` that compiled code may compute it on large tensors (`composed`).

    >>> import tracejit as tj
    >>> FUNCTIONS["exp"] is tj.exp, "softmax" in METHODS
    (True, True)
    """

    def publish(target: Callable[..., Any]) -> Callable[..., Any]:
        name = target.__name__
        if steady:
            STEADY.append(name)
            if large:
                COMPOSED.add(target)
            target = remembered(target)
        elif large:
            target = composed(target)
        target = target if within is None else within(target)
        if namespace:
            FUNCTIONS[name] = target
        if method:
            METHODS[method if isinstance(method, str) else name] = target
        return target

    return publish


def alias(name: str, target: Callable[..., Any], *, method: bool = True) -> None:
    """Publish ``target`` under one more name.

    >>> import tracejit as tj
    >>> tj.subtract is tj.sub
    True
    """
    FUNCTIONS[name] = target
    if method:
        METHODS[name] = target
