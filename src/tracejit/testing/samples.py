"""Concrete cases of every op of the table: operands as arrays, attributes, and the error invalid input must raise.

Tests iterate these for whatever runs an op: eager execution, the interpreter, compiled programs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import DType
from ..ops.table import Elementwise, Ints, Op, Sample, all_ops

#: Operand shapes of elementwise ops, each repeated or cut to the number of operands.
SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4), (3, 4), (3, 4)),
    ((3, 4), (4,), (1, 1)),
    ((2, 1, 3), (4, 1), (3,)),
    ((), (2,), ()),
    ((), (), ()),
    ((0, 3), (1, 3), (3,)),
    ((1,), (1,), (1,)),
    ((37,), (37,), (37,)),
)
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, 1e-30, -3e38)


@dataclass(frozen=True)
class Case:
    """One call of an op."""

    op: Op
    operands: tuple[Any, ...]  # arrays and Python numbers
    attributes: Mapping[str, Any]
    label: str
    error: type[Exception] | None = None
    match: str = ""

    def __str__(self) -> str:
        return f"{self.op.name}-{self.label}"

    @property
    def differentiable(self) -> tuple[int, ...]:
        """Positions of floating point and complex array operands that have a gradient rule."""
        return tuple(
            position
            for position, x in enumerate(self.operands)
            if isinstance(x, np.ndarray)
            and x.dtype.kind in "fc"
            and (rule := self.op.gradient_rule(position)) is not None
            and not rule.refuses
        )


def _generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def _domain(op: Op, name: str) -> tuple[float, float]:
    domain = getattr(op, "domain", (-2.0, 2.0))
    return domain.get(name, (-3.0, 3.0)) if isinstance(domain, Mapping) else domain


def values(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, low: float, high: float
) -> Any:
    """Random values of a domain in any dtype."""
    if dtype is dtypes.bool_:
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.category == "int":
        first = max(int(np.ceil(low)), 0 if dtype is dtypes.uint8 else -100)
        return np.asarray(rng.integers(first, max(int(high), first) + 1, shape), dtype.np)
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype.np)


def _operand(op: Op, position: int, wanted: Any, dtype: DType, rng: np.random.Generator) -> Any:
    if isinstance(wanted, Ints):
        return np.asarray(rng.integers(wanted.low, wanted.high, wanted.shape), np.int64)
    if isinstance(wanted, tuple):
        name = op.operands[min(position, len(op.operands) - 1)]
        return values(rng, wanted, dtype, *_domain(op, name))
    if isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f":
        return wanted.astype(dtype.np)
    return wanted


def concrete(op: Op, sample: Sample, dtype: DType, label: str) -> Case:
    """A sample with its shapes filled in."""
    rng = _generator(op.name, label)
    operands = tuple(
        _operand(op, position, wanted, dtype, rng)
        for position, wanted in enumerate(sample.operands)
    )
    return Case(op, operands, sample.attributes, label, sample.error, sample.match)


def _attributes(op: Op) -> dict[str, Any]:
    """Attributes of elementwise ops: those of their first sample, else the defaults, and a dtype to cast to."""
    known = {n: v for n, v in op.attributes.items() if v is not n}
    known |= next((s.attributes for s in op.samples if s.error is None), {})
    return {n: dtypes.int32 if n == "dtype" else v for n, v in known.items()}


def _elementwise_samples(op: Elementwise) -> Iterator[tuple[str, Sample]]:
    count = len(op.operands)
    for shapes in SHAPES:
        yield str(shapes[:count]), Sample(shapes[:count], _attributes(op))
    if count >= 2:
        yield "number", Sample((*((4,) for _ in range(count - 1)), 2.0), _attributes(op))


def _with_bool_condition(case: Case) -> Case:
    """``where`` takes a bool condition; its name says so."""
    operands = tuple(
        x > 0 if name == "condition" and isinstance(x, np.ndarray) else x
        for name, x in zip(case.op.operands, case.operands, strict=False)
    )
    return replace(case, operands=operands) if "condition" in case.op.operands else case


def cases(op: Op, dtype: DType = dtypes.float64) -> Iterator[Case]:
    """The valid cases of an op with floating operands in ``dtype`` (where the op takes floats)."""
    if isinstance(op, Elementwise):
        kind = operand_dtype(op, dtype)
        for label, sample in _elementwise_samples(op):
            yield _with_bool_condition(concrete(op, _whole(sample, kind), kind, label))
    for number, sample in enumerate(op.samples):
        if sample.error is None:
            yield concrete(op, sample, dtype, f"sample{number}")


def _whole(sample: Sample, dtype: DType) -> Sample:
    if dtype.category == "float" or not sample.operands or isinstance(sample.operands[-1], tuple):
        return sample
    return replace(sample, operands=(*sample.operands[:-1], int(sample.operands[-1])))


def operand_dtype(op: Elementwise, dtype: DType) -> DType:
    """``dtype`` if the op takes it, else int64."""
    infos = tuple((dtypes.bool_ if n == "condition" else dtype, 2) for n in op.operands)
    try:
        op.types(infos, _attributes(op))
    except RuntimeError:
        return dtypes.int64
    return dtype


def invalid(op: Op) -> Iterator[Case]:
    """The cases an op must refuse."""
    for number, sample in enumerate(op.samples):
        if sample.error is not None:
            yield concrete(op, sample, dtypes.float64, f"invalid{number}")


def special(op: Elementwise, dtype: DType = dtypes.float32) -> Case:
    """NaN, infinities, signed zeros and extreme values in every combination."""
    kind = operand_dtype(op, dtype)
    points = np.array(SPECIAL).astype(kind.np) if kind is dtype else np.arange(1, 6)
    grids = np.meshgrid(*[points] * len(op.operands), indexing="ij")
    operands = tuple(np.ascontiguousarray(g) for g in grids)
    return _with_bool_condition(Case(op, operands, _attributes(op), "special"))


def every_case(dtype: DType = dtypes.float64, ops: Sequence[Op] | None = None) -> Iterator[Case]:
    """The valid cases of the whole table."""
    for op in all_ops() if ops is None else ops:
        yield from cases(op, dtype)
