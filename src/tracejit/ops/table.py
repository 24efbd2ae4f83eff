"""The op table: what an op is, the decorators that declare one, and the registry everything else reads.

An op is one decorated function. The ``def`` line gives its name, tensor operands (positional) and attributes
(keyword-only); the docstring its documentation; the body its eager meaning over arrays. The decorator adds what
the compiler needs: a scalar expression, gradient rules, a type rule, samples. Eager execution, IR, gradients, code
generation, documentation and tests all derive from this one entry; they dispatch on the *kind*, never on a name.

A gradient rule names what it needs and receives exactly that: ``g`` (gradient of the result), ``out`` (the result),
operands by name (these are saved for backward), ``<operand>_type``/``out_type`` (types only; nothing is saved),
attributes by name. It uses operators and methods of its arguments only, so one rule serves the eager tape,
IR differentiation and any order of derivative.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import DType
from ..types import Scalar, TensorType
from . import shapes

Array = Any  # an ndarray of the namespace the op runs in (NumPy, or CuPy on a GPU)
OperandInfo = tuple[DType, int]  # dtype and promotion rank, see dtypes.result_type_of
PromotionRule = Callable[..., tuple[tuple[DType, ...], DType]]
REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Sample:
    """One test case of an op: operands, attributes and, for invalid input, the error it must raise.

    An operand is a shape (a tensor of random values from the op's domain), an ``Ints`` (an integer tensor), a
    Python number, or a ready NumPy array.
    """

    operands: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: type[Exception] | None = None
    match: str = ""


@dataclass(frozen=True)
class Ints:
    """An integer operand of a sample: ``shape`` and the half-open range of its values."""

    shape: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True)
class GradRule:
    """The gradient with respect to one operand, and the names it needs."""

    function: Callable[..., Any]
    needs: tuple[str, ...]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> GradRule:
        return cls(function, tuple(inspect.signature(function).parameters))


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """A table entry. Calling it runs it on tensors, or writes it down when given IR values."""

    name: str
    operands: tuple[str, ...]
    variadic: bool
    attributes: Mapping[str, Any]
    body: Callable[..., Array]
    grads: Mapping[str, GradRule]
    samples: tuple[Sample, ...] = ()
    doc: str = ""

    @property
    def kind(self) -> str:
        """Name of the kind in lower case."""
        return type(self).__name__.lower()

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.doc

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        if len(operands) < len(self.operands) and attributes:
            operands, attributes = self._bind(operands, attributes)
        return _apply(self, operands, attributes)

    def _bind(
        self, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Accept operands by keyword, under their own names or PyTorch's ``input`` and ``other``."""
        rest = dict(attributes)
        bound = list(operands)
        for position in range(len(operands), len(self.operands)):
            aliases = (self.operands[position], *(("input", "other")[position : position + 1]))
            name = next((a for a in aliases if a in rest), None)
            if name is None:
                break
            bound.append(rest.pop(name))
        return tuple(bound), rest

    def gradient_rule(self, position: int) -> GradRule | None:
        """The rule for the operand at ``position`` (a variadic op has one rule for all)."""
        return self.grads.get(self.operands[0 if self.variadic else position])

    @property
    def differentiable(self) -> bool:
        """True when some operand has a gradient rule."""
        return bool(self.grads)

    def infer(self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]) -> TensorType:
        """Type of the result; raises the op's own error for operands it refuses."""
        raise NotImplementedError

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        return self.body(*operands, **attributes)

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (lookup, (self.name,))


def operand_info(operand: Any) -> OperandInfo:
    """Dtype and promotion rank of an array, a :class:`TensorType` or a Python number."""
    if isinstance(operand, TensorType):
        return operand.dtype, 2 if operand.shape else 1
    if isinstance(operand, (bool, int, float)):
        return dtypes.of_scalar(operand), 0
    return dtypes.from_numpy(operand.dtype), 2 if operand.ndim else 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Elementwise(Op):
    """Applies ``scalar`` at every position of the broadcast operands.

    ``scalar`` is a Python expression over operand and attribute names that may call functions of ``scalar_math``
    without their type suffix. ``promotion`` gives the dtype each operand is converted to and the result's dtype.
    """

    scalar: str | None
    promotion: PromotionRule
    domain: tuple[float, float] | Mapping[str, tuple[float, float]] = (-3.0, 3.0)
    _promoted: dict[Any, tuple[tuple[DType, ...], DType]] = field(default_factory=dict, repr=False)

    def types(
        self, infos: tuple[OperandInfo, ...], attributes: Mapping[str, Any]
    ) -> tuple[tuple[DType, ...], DType]:
        """Dtypes the operands are converted to, and the dtype of the result."""
        key = (infos, *attributes.values(), dtypes.get_default_dtype())
        found = self._promoted.get(key)
        if found is None:
            found = self._promoted[key] = self.promotion(self, infos, attributes)
        return found

    def infer(self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]) -> TensorType:
        _, dtype = self.types(tuple(map(operand_info, operands)), attributes)
        shape = shapes.broadcast(
            self.name, [o.shape for o in operands if isinstance(o, TensorType)], operands
        )
        return TensorType(shape, dtype)

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        compute, dtype = self.types(tuple(map(operand_info, operands)), attributes)
        arrays = [_converted(x, d) for x, d in zip(operands, compute, strict=True)]
        try:
            with np.errstate(all="ignore"):
                result = self.body(*arrays, **attributes)
        except ValueError:
            self.infer([_type_of(x) for x in operands], attributes)  # raises the ShapeError, if it is one
            raise
        return np.asarray(result, dtype.np, order="C")


def _type_of(operand: Array | Scalar) -> TensorType | Scalar:
    if isinstance(operand, (bool, int, float)):
        return operand
    return TensorType(operand.shape, dtypes.from_numpy(operand.dtype))


def _converted(operand: Array | Scalar, dtype: DType) -> Array:
    """The operand in ``dtype``; Python numbers wrap or round as a cast does."""
    if isinstance(operand, (bool, int, float)):
        return convert_scalar(operand, dtype)
    return operand if operand.dtype == dtype.np else operand.astype(dtype.np)


def convert_scalar(value: Scalar, dtype: DType) -> Array:
    """A Python number as a 0-d array of ``dtype``."""
    if dtype.is_floating_point or dtype is dtypes.bool_ or isinstance(value, float):
        return np.asarray(value).astype(dtype.np) if not isinstance(value, int) else np.asarray(float(value) if dtype.is_floating_point else bool(value)).astype(dtype.np)
    bits = dtype.itemsize * 8
    wrapped = int(value) & ((1 << bits) - 1)
    if dtype.is_signed and wrapped >= 1 << (bits - 1):
        wrapped -= 1 << bits
    return np.asarray(wrapped, dtype.np)


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduction(Op):
    """Combines the elements along ``dims`` (attributes ``dims``: sorted, non-negative; ``keepdim``).

    ``combine`` is ``"sum"``, ``"prod"``, ``"max"``, ``"min"``, ``"any"`` or ``"all"``; the associated neutral
    element is the codegen's. ``None`` means the op has no loop of its own and runs as a call of its body.
    """

    combine: str | None
    result_dtype: Callable[[DType], DType]
    check: Callable[[TensorType, Mapping[str, Any]], None] | None = None

    def infer(self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]) -> TensorType:
        x = _tensor_operand(self, operands[0])
        if self.check is not None:
            self.check(x, attributes)
        shape = shapes.reduced(x.shape, attributes["dims"], attributes["keepdim"])
        return TensorType(shape, self.result_dtype(x.dtype))

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        (x,) = operands
        if self.check is not None:
            self.check(_tensor_operand(self, _type_of(x)), attributes)
        with np.errstate(all="ignore"):
            result = self.body(x, **attributes)
        return np.asarray(result, self.result_dtype(dtypes.from_numpy(x.dtype)).np, order="C")


def _tensor_operand(op: Op, operand: TensorType | Scalar) -> TensorType:
    if not isinstance(operand, TensorType):
        raise TypeError(f"{op.name}(): argument 'input' must be Tensor, not {type(operand).__name__}")
    return operand


@dataclass(frozen=True, eq=False, kw_only=True)
class Movement(Op):
    """Rearranges elements without computing; ``is_view`` when the result aliases the operand's storage.

    The index map of a view is what the body does to strides: the compiler obtains it by running the body on a
    strided array of the operand's layout.
    """

    is_view: bool
    infer_shape: Callable[..., TensorType]

    def infer(self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]) -> TensorType:
        return self.infer_shape(*operands, **attributes)

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        self.infer_shape(*map(_type_of, operands), **attributes)
        result = self.body(*operands, **attributes)
        return result if self.is_view else np.asarray(result, order="C")


@dataclass(frozen=True, eq=False, kw_only=True)
class Contraction(Op):
    """A library call that bounds fusion, such as a matrix product."""

    infer_type: Callable[..., TensorType]

    def infer(self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]) -> TensorType:
        return self.infer_type(*operands, **attributes)

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        self.infer_type(*map(_type_of, operands), **attributes)
        with np.errstate(all="ignore"):
            return np.asarray(self.body(*operands, **attributes), order="C")


@dataclass(frozen=True, eq=False, kw_only=True)
class Indexing(Contraction):
    """Reads or writes at positions given by integer tensors (gather, scatter, index_put, sort order, ...)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(Contraction):
    """Makes a tensor out of attributes (full, arange) or of a random key."""

    scalar: str | None = None


_REGISTRY: dict[str, Op] = {}


def lookup(name: str) -> Op:
    """The op called ``name``; ``KeyError`` when the table has none."""
    return _REGISTRY[name]


def all_ops() -> Iterable[Op]:
    """Every op, in the order of declaration."""
    return tuple(_REGISTRY.values())


def _apply(op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    raise RuntimeError("tracejit.dispatch is not loaded")


def set_dispatcher(apply: Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Install the one door every op call goes through (done once by ``tracejit.dispatch``)."""
    global _apply
    _apply = apply


def _register(cls: type[Op], function: Callable[..., Any], grad: Any, **fields: Any) -> Any:
    parameters = inspect.signature(function).parameters.values()
    operands = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    attributes = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    rules = grad if isinstance(grad, Mapping) else ({operands[0]: grad} if grad else {})
    unknown = set(rules) - set(operands)
    if unknown or function.__name__ in _REGISTRY:
        raise ValueError(f"op {function.__name__}: declared twice, or gradients for {unknown}")
    op = cls(
        name=function.__name__,
        operands=operands,
        variadic=variadic,
        attributes=attributes,
        body=function,
        grads={name: GradRule.of(rule) for name, rule in rules.items()},
        doc=inspect.getdoc(function) or "",
        **fields,
    )
    _REGISTRY[op.name] = op
    return op


Grad = Callable[..., Any] | Mapping[str, Callable[..., Any]] | None


def elementwise(
    scalar: str | None,
    *,
    promotion: PromotionRule,
    grad: Grad = None,
    domain: tuple[float, float] | Mapping[str, tuple[float, float]] = (-3.0, 3.0),
    samples: Sequence[Sample] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an elementwise op."""
    return lambda function: _register(
        Elementwise, function, grad, scalar=scalar, promotion=promotion, domain=domain, samples=tuple(samples)
    )


def reduction(
    combine: str | None,
    *,
    result_dtype: Callable[[DType], DType],
    grad: Grad = None,
    check: Callable[[TensorType, Mapping[str, Any]], None] | None = None,
    samples: Sequence[Sample] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a reduction over ``dims``."""
    return lambda function: _register(
        Reduction, function, grad, combine=combine, result_dtype=result_dtype, check=check, samples=tuple(samples)
    )


def movement(
    infer: Callable[..., TensorType], *, is_view: bool, grad: Grad = None, samples: Sequence[Sample] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an op that rearranges elements."""
    return lambda function: _register(
        Movement, function, grad, infer_shape=infer, is_view=is_view, samples=tuple(samples)
    )


def contraction(
    infer: Callable[..., TensorType], *, grad: Grad = None, samples: Sequence[Sample] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a library call."""
    return lambda function: _register(Contraction, function, grad, infer_type=infer, samples=tuple(samples))


def indexing(
    infer: Callable[..., TensorType], *, grad: Grad = None, samples: Sequence[Sample] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an op that addresses elements by integer tensors."""
    return lambda function: _register(Indexing, function, grad, infer_type=infer, samples=tuple(samples))


def source(
    infer: Callable[..., TensorType], *, scalar: str | None = None, samples: Sequence[Sample] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an op that makes a tensor."""
    return lambda function: _register(
        Source, function, None, infer_type=infer, scalar=scalar, samples=tuple(samples)
    )


FUNCTIONS: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}


def function(
    *, method: bool | str = True, namespace: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Publish a composite (or an op) as ``tj.name`` and, when ``method``, as ``Tensor.name``.

    ``method`` may be another name than the function's own; ``namespace=False`` publishes the method only.
    """

    def publish(target: Callable[..., Any]) -> Callable[..., Any]:
        name = target.__name__
        if namespace:
            FUNCTIONS[name] = target
        if method:
            METHODS[method if isinstance(method, str) else name] = target
        return target

    return publish
