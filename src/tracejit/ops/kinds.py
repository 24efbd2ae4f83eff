"""The kinds of ops, one frozen dataclass each: all that code needs to know besides the op's own entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from .. import dtypes
from ..cuda.arrays import MODULES, module_of, ordered, taken_over
from ..dtypes import DType
from ..types import Scalar, TensorType, array_type
from . import shapes, slabs
from .conversions import convert_scalar, convert_whole, converted
from .float_errors import ignore, restore
from .op import Array, Op
from .printed import PRINTED, is_divided, printed
from .programs import LONG, by_program, reduced_by_program
from .strides import Strided

#: Ops of which kernels compute large arrays, see ``runtime.eager.functions``.
_KERNELS_SERVE = frozenset({"erf", "erfc", "sigmoid", "erfinv", "lgamma", "digamma"})
#: Ops whose bodies share their elements among threads themselves, see ``slabs.shared``.
SHARE = frozenset(
    [
        "where",
        "chosen",
        "clone",
        "detach_copy",
        "leaning",
        "square",
        "cube",
        "fourth",
        "reciprocal",
        "rsqrt",
        "maximum",
        "minimum",
        "clamp_min",
        "clamp_max",
        "clamp_between",
        "clamp_inside",
        "relu",
        "leaky",
        "floor",
        "ceil",
        "round_half_even",
        "trunc",
        "trunc_divide",
        "entr",
        "log_odds",
        "xlogy",
        "xlog1py",
        "cross_entropy_of_two",
    ]
)
#: Scalar functions that take long on the host.
_REMAINDERS = ("floor_divide(", "remainder(", "fmod(")
_MOST_ACCEPTED = 4096  # combinations of operand types an op remembers

OperandInfo = tuple[DType, int]  # dtype and promotion rank, see dtypes.result_type_of
PromotionRule = Callable[..., tuple[tuple[DType, ...], DType]]
StrideRule = Callable[..., Strided]
Conversion = Callable[[Any], Array]
_Found = tuple[list[tuple[int, Conversion]] | None, Any]


def operand_info(operand: Any) -> OperandInfo:
    """Dtype and promotion rank of an array, a :class:`TensorType` or a Python number.

    >>> operand_info(2.5), operand_info(np.zeros(3, np.int8))
    ((tracejit.float32, 0), (tracejit.int8, 2))
    """
    if isinstance(operand, TensorType):
        return operand.dtype, 2 if operand.shape else 1
    if isinstance(operand, (bool, int, float)):
        return dtypes.of_scalar(operand), 0
    return dtypes.from_numpy(operand.dtype), 2 if operand.ndim else 1


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Elementwise(Op):
    """Applies ``scalar`` at every position of the broadcast operands.

    ``scalar`` is a Python expression over operand and attribute names that may call functions of ``scalar_math``
    without their type suffix. ``promotion`` gives the dtype each operand is converted to and the result's dtype.
    """

    scalar: str | None
    promotion: PromotionRule
    host: Callable[..., Array] | None = None  # does what ``body`` does, to arrays of the host alone
    domain: tuple[float, float] | Mapping[str, tuple[float, float]] = (-3.0, 3.0)
    _promoted: dict[Any, tuple[tuple[DType, ...], DType]] = field(default_factory=dict, repr=False)
    _conversions: dict[Any, _Found] = field(default_factory=dict, repr=False)

    def types(
        self, infos: tuple[OperandInfo, ...], attributes: Mapping[str, Any]
    ) -> tuple[tuple[DType, ...], DType]:
        """Dtypes the operands are converted to, and the dtype of the result."""
        key = (infos, *attributes.values(), dtypes.get_default_dtype())
        found = self._promoted.get(key)
        if found is None:
            found = self._promoted[key] = self.promotion(self, infos, attributes)
        return found

    def infer(
        self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]
    ) -> TensorType:
        """Type of the result; raises the error of operands the op refuses."""
        _, dtype = self.types(tuple(map(operand_info, operands)), attributes)
        shape = shapes.broadcast(
            self.name, [o.shape for o in operands if isinstance(o, TensorType)], operands
        )
        return TensorType(shape, dtype)

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        if MODULES and module_of(*operands) is not np:
            return self._on_device(module_of(*operands), operands, attributes)
        # The key is a cheap stand-in for the promotion infos: these lines run for every eager op.
        key: list[Any] = [dtypes.get_default_dtype()]
        for x in operands:
            key.append(  # noqa: PERF401  (a comprehension is a call)
                (x.dtype if x.ndim else (x.dtype,)) if type(x) is np.ndarray else type(x)
            )
        if attributes:
            key += attributes.values()
        found = self._conversions.get(tuple(key))
        if found is None:
            found = self._conversions[tuple(key)] = self.conversions(operands, attributes)
        conversions, kind = found
        before = ignore()
        try:
            arrays: Any = operands
            if conversions is not None:
                arrays = list(operands)
                for position, convert in conversions:
                    arrays[position] = convert(operands[position])
            run = self.host
            if arrays[0].size >= slabs.SHARED or arrays[-1].size >= slabs.SHARED:
                found = self.in_slabs(arrays, attributes, kind)
                if found is not None:
                    return found
            result = run(*arrays) if run is not None else self.body(*arrays, **attributes)
            if type(result) is np.ndarray and result.dtype is kind and result.flags.c_contiguous:
                return result
            return np.asarray(result, kind, order="C")
        except ValueError:
            # Shapes that do not broadcast: the type rule raises the error that says so.
            self.infer([_type_of(x) for x in operands], attributes)
            raise
        finally:
            restore(before)

    def in_slabs(
        self, arrays: Sequence[Array], attributes: Mapping[str, Any], kind: Any
    ) -> Array | None:
        """What several threads compute of arrays of the dtypes computed in; None where one is to do it all."""
        found = printed(self, arrays, attributes, kind) if self.name in PRINTED else None
        if found is None and self.name in LONG:
            found = by_program(self, arrays, attributes, same_bits=False)
        if found is not None:
            return found
        if self.host is not None:
            return slabs.elementwise(self.host, arrays, {}, kind)
        if self.name in _KERNELS_SERVE or (self._divides and is_divided(kind)):
            return None  # the body itself has them do it
        size = max(arrays[0].size, arrays[-1].size)
        if self.name in SHARE or (size < slabs.BODIES and not self._is_dear):
            return None
        return slabs.elementwise(self.body, arrays, attributes, kind)

    @property
    def _is_dear(self) -> bool:
        """Does the body take long for every element: a library's function, or a remainder?"""
        return self.scalar is None or self._divides

    @property
    def _divides(self) -> bool:
        return self.scalar is not None and self.scalar.startswith(_REMAINDERS)

    def conversions(
        self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]
    ) -> _Found:
        """How operands of these types become arrays of the dtypes computed in, and the dtype of the result."""
        infos = tuple(map(operand_info, operands))
        compute, dtype = self.types(infos, attributes)
        bools = all(own is dtypes.bool_ for own, rank in infos if rank)
        steps = enumerate(
            _conversion(x, own, bools) for x, own in zip(operands, compute, strict=True)
        )
        return [(i, step) for i, step in steps if step is not None] or None, dtype.np

    def _on_device(
        self, n: Any, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]
    ) -> Array:
        """The eager meaning on arrays of a device, whose functions take nothing that lies on the host."""
        compute, dtype = self.types(tuple(map(operand_info, operands)), attributes)
        self.infer([_type_of(x) for x in operands], attributes)
        arrays = [converted(x, d) for x, d in zip(operands, compute, strict=True)]
        for i, x in enumerate(arrays):
            if (
                type(x) is np.ndarray
            ):  # a Python number, which universal functions take from the host
                arrays[i] = taken_over(n, x) if self.host is None else x[()]
        return n.asarray(self.body(*arrays, **attributes), dtype.np, order="C")


def _type_of(operand: Array | Scalar) -> TensorType | Scalar:
    if isinstance(operand, (bool, int, float)):
        return operand
    return array_type(operand.shape, operand.dtype)


def _conversion(operand: Array | Scalar, dtype: DType, bools: bool) -> Conversion | None:
    """What :func:`converted` does to operands of this one's type; None where it does nothing.

    Whole numbers beside ``bools`` alone are int64, which has no room for those that only uint64 holds.
    """
    if type(operand) is int:
        if bools and dtype is dtypes.int64:
            return partial(convert_whole, dtype=dtype, most=(1 << 63) - 1)
        return partial(convert_whole, dtype=dtype)
    if not isinstance(operand, (bool, int, float)):
        return None if operand.dtype is dtype.np else partial(converted, dtype=dtype)
    if dtype is dtypes.float32 or dtype is dtypes.float64:
        return partial(np.array, dtype=dtype.np)  # as convert_scalar does
    return partial(convert_scalar, dtype=dtype)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Reduction(Op):
    """Combines the elements along ``dims`` (attributes ``dims``: sorted, non-negative; ``keepdim``).

    ``combine`` is ``"sum"``, ``"prod"``, ``"max"``, ``"min"``, ``"any"`` or ``"all"``; the associated neutral
    element is the codegen's. ``None`` means the op has no loop of its own and runs as a call of its body.
    """

    combine: str | None
    result_dtype: Callable[[DType], DType]
    check: Callable[[TensorType, Mapping[str, Any]], None] | None = None
    _results: dict[Any, Any] = field(default_factory=dict, repr=False)
    _accepted: dict[Any, None] = field(default_factory=dict, repr=False)

    def infer(
        self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]
    ) -> TensorType:
        """Type of the result; raises the error of operands the op refuses."""
        x = _tensor_operand(self, operands[0])
        if self.check is not None:
            self.check(x, attributes)
        shape = shapes.reduced(x.shape, attributes["dims"], attributes["keepdim"])
        return TensorType(shape, self.result_dtype(x.dtype))

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        x: Array = operands[0]
        if self.check is not None or isinstance(x, (bool, int, float)):
            _check(self, self._accepted, operands, attributes)
        served = reduced_by_program(self, x, attributes)
        if served is not None:
            return served
        dtype = self._results.get(x.dtype)
        if dtype is None:
            dtype = self._results[x.dtype] = self.result_dtype(dtypes.from_numpy(x.dtype)).np
        n = module_of(x) if MODULES else np
        before = ignore()
        try:
            return n.asarray(self.body(x, **attributes), dtype, order="C")
        finally:
            restore(before)


def _tensor_operand(op: Op, operand: TensorType | Scalar) -> TensorType:
    if not isinstance(operand, TensorType):
        raise TypeError(
            f"{op.name}(): argument 'input' must be Tensor, not {type(operand).__name__}"
        )
    return operand


_Accepted = dict[Any, None]


def _check(
    op: Op, accepted: _Accepted, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]
) -> None:
    """Raise the op's own error for operands it refuses; what was accepted once is not asked about again."""
    key = tuple([(x.shape, x.dtype) if type(x) is np.ndarray else None for x in operands])
    if None in key:
        op.infer([_type_of(x) for x in operands], attributes)
        return
    key += tuple(attributes.values())
    if key in accepted:
        return
    op.infer([_type_of(x) for x in operands], attributes)
    if len(accepted) >= _MOST_ACCEPTED:
        accepted.clear()
    accepted[key] = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Movement(Op):
    """Rearranges elements without computing.

    ``strides`` tells where a view's elements lie (see ``ops.strides``); ops without it copy.
    One element of the operand is ``parts`` of the result, where it shows parts of numbers.
    ``write(base, value, **attributes)`` is ``base`` with ``value`` in the place the view shows; ``None`` for views in
    which elements share a place.
    """

    infer_shape: Callable[..., TensorType]
    strides: StrideRule | None = None
    parts: int = 1
    write: Callable[..., Any] | None = None
    _accepted: _Accepted = field(default_factory=dict, repr=False)

    @cached_property  # asked in every call
    def is_view(self) -> bool:  # type: ignore[override]
        """Does the result alias the operand's storage?"""
        return self.strides is not None

    def infer(
        self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]
    ) -> TensorType:
        """Type of the result; raises the error of operands the op refuses."""
        return self.infer_shape(*operands, **attributes)

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        if self.strides is None:
            _check(self, self._accepted, operands, attributes)
            return ordered(self.body(*operands, **attributes))
        try:  # the bodies of views refuse what the type rule refuses
            return self.body(*operands, **attributes)
        except (ValueError, IndexError):
            self.infer_shape(*map(_type_of, operands), **attributes)
            raise


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Contraction(Op):
    """A library call that bounds fusion, such as a matrix product.

    It is ``total`` where it takes all values, so that the type rule tells all that can go wrong.
    """

    infer_type: Callable[..., TensorType]
    total: bool = False
    _accepted: _Accepted = field(default_factory=dict, repr=False)

    def infer(
        self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]
    ) -> TensorType:
        """Type of the result; raises the error of operands the op refuses."""
        return self.infer_type(*operands, **attributes)

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        if operands:
            _check(self, self._accepted, operands, attributes)
        else:
            self.infer_type(**attributes)
        before = ignore()
        try:
            return ordered(self.body(*operands, **attributes))
        finally:
            restore(before)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Indexing(Contraction):
    """Reads or writes at positions given by integer tensors (gather, scatter, index_put, sort order, ...)."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Source(Contraction):
    """Makes a tensor out of attributes (full, arange) or of a random key.

    ``scalar`` is the element at ``index``; for random sources (operand ``key``) see ``ops.random``.
    """

    scalar: str | None = None
