"""Numbers at even distances: arange, linspace, logspace."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...dtypes import DType
from ...errors import ArgumentError, DtypeError
from ...varying import is_varying
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import shapes
from .. import source as s
from ..complex_numbers import complex_of_parts
from ..table import function
from .common import Number, Tensor, as_type, constant, refuse, refuse_bool
from .factories import made


def _plain(value: Any) -> Number:
    number: Number = value.item() if hasattr(value, "item") else value
    return number


@function(method=False)
def arange(
    start: Number = 0,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``start``, ``start + step``, ... below ``end``; int64 when all are integers.

    Raises ``ValueError`` when the step is zero, and ``RuntimeError`` when it leads away from ``end``.

    >>> import tracejit as tj
    >>> tj.arange(3), tj.arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    first, last = (0, start) if end is None else (start, end)
    first, last, step = _plain(first), _plain(last), _plain(step)
    kind = dtypes.as_dtype(dtype) if dtype is not None else None
    if kind is not None:
        refuse("arange_cpu", kind, "bool complex")
    if not all(isinstance(v, int) or v - v == 0 for v in (first, last)):  # infinite, or no number
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if kind is dtypes.int64:  # the bounds are converted first
        first, last, step = (shapes.whole(v) for v in (first, last, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * (1 if step > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(v, int) for v in (first, last, step))
    if kind is None:
        kind = dtypes.int64 if whole else dtypes.get_default_dtype()
    count = -((first - last) // step) if whole else math.ceil((last - first) / step)
    if not kind.is_floating_point:
        first, step = shapes.whole(first), shapes.whole(step)
    return made(_steps(first, step, shapes.whole(count), kind), requires_grad, device)


def _steps(first: Number, step: Number, count: Any, kind: DType) -> Tensor:
    """``count`` numbers from ``first`` on."""
    if not (is_varying(first) or is_varying(step)):
        return s.arange(start=first, step=step, count=count, dtype=kind)
    places = s.arange(start=0, step=1, count=count, dtype=dtypes.float64)
    return as_type(e.add(e.mul(places, step), first), kind)  # as operands, any values will do


@function(method=False)
def linspace(
    start: Number,
    end: Number,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Raises ``RuntimeError`` for a negative number of steps.

    >>> import tracejit as tj
    >>> tj.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if isinstance(steps, float):
        raise ArgumentError("linspace(): argument 'steps' must be int, not float")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    first, last = _plain(start), _plain(end)
    kind = _kind_between(first, last, dtype)
    if isinstance(first, complex) or isinstance(last, complex):
        parts = [
            linspace(a, b, steps, dtype=kind.to_real(), device=device)
            for a, b in ((first.real, last.real), (first.imag, last.imag))
        ]
        return made(
            complex_of_parts(m.cat(*[m.unsqueeze(x, dims=(1,)) for x in parts], dim=1)),
            requires_grad,
        )
    if not kind.is_differentiable:
        first, last = int(first), int(last)
    count = shapes.whole(steps)
    if kind.is_floating_point and (is_varying(first) or is_varying(last)):
        return made(_between(first, last, count, kind), requires_grad, device)
    result = s.linspace_of(start=first, end=last, count=count, dtype=kind)
    return made(result, requires_grad, device)


def _kind_between(first: Number, last: Number, dtype: Any) -> DType:
    """The dtype of numbers between two; ``RuntimeError`` for complex ones in real numbers."""
    mixed = isinstance(first, complex) or isinstance(last, complex)
    if dtype is None:
        plain = dtypes.get_default_dtype()
        return plain.to_complex() if mixed else plain
    kind = dtypes.as_dtype(dtype)
    refuse_bool("linspace_cpu", kind)
    if mixed and not kind.is_complex:
        raise DtypeError(f"complex numbers cannot be converted to {kind.name}")
    return kind


def _between(first: Number, last: Number, count: Any, kind: DType) -> Tensor:
    """The formula of ``linspace_of`` with both ends as operands, so that any values will do."""
    low, high = constant(first, kind), constant(last, kind)
    if count < 2:
        return e.add(constant(0, kind, (count,)), low)
    step = e.div(e.sub(high, low), constant(count - 1, kind))
    places = s.arange(start=0, step=1, count=count, dtype=dtypes.int64)
    lower = e.add(low, e.mul(as_type(places, kind), step))
    upper = e.sub(high, e.mul(as_type(e.sub(count - 1, places), kind), step))
    return e.where(c.lt(places, count // 2), lower, upper)


@function(method=False)
def logspace(
    start: Number,
    end: Number,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers ``linspace(start, end, steps)``.

    >>> import tracejit as tj
    >>> tj.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    first, last = _plain(start), _plain(end)
    kind = _kind_between(first, last, dtype)
    if not kind.is_differentiable:
        first, last = int(first), int(last)
    fine = dtypes.complex128 if isinstance(first + last, complex) else dtypes.float64
    powers = linspace(first, last, steps, dtype=fine, device=device)
    return made(as_type(e.pow(float(base), powers), kind), requires_grad, device)
