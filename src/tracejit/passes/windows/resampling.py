"""Resampling as operations on elements: each term of the sum is a lookup at fixed places.

Before::

    graph f(x: f32[2]) {
        %0: f32[3] = mix_along(x, dim=0, places=((0, 0, 1), (1, 1, -1)), weights=((1.0, 0.5, 1.0), (1.0, 0.5, 0.0)))
        return %0
    }

After, where ``places`` and ``weights`` are written out (``literal``) and the missing place is a zero::

    graph f(x: f32[2]) {
        %0: f32[3] = take(x, places0, dim=0)
        %1: f32[3] = mul(%0, weights0)
        %2: f32[3] = take(x, places1, dim=0)
        %3: f32[3] = mul(%2, weights1)
        %4: f32[3] = where(there1, %3, 0)
        %5: f32[3] = add(%1, %4)
        return %5
    }

One kernel computes that, and what comes after joins it. Terms are added in the order of eager execution. A transpose is
such a sum again, so gradients need no scatter.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...dtypes import DType
from ...ir.graph import Value
from ...types import Scalar
from ..rewrite import Rewriter, Rules

#: Sums of more terms stay calls.
MOST_TERMS = 8


def _mix(rewriter: Rewriter, value: Value) -> Value | None:
    x, dim = value.value_operands[0], value.attributes["dim"]
    places, weights = value.attributes["places"], value.attributes["weights"]
    if not 0 < len(places) <= MOST_TERMS or 0 in x.spec.shape or not places[0]:
        return None
    terms = _Terms(rewriter, value, dim)
    source = terms.as_dtype(x, _wide(x.spec.dtype))
    total: Value | None = None
    for row, factors in zip(places, weights, strict=True):
        term = terms.term(source, row, factors)
        total = term if total is None else rewriter.write("add", (total, term), value.line)
    assert total is not None
    return terms.as_dtype(total, value.spec.dtype)


def _wide(dtype: DType) -> DType:
    return dtypes.float32 if dtype.is_half else dtype


class _Terms:
    """Writes the terms of one sum."""

    def __init__(self, rewriter: Rewriter, value: Value, dim: int) -> None:
        self.rewriter, self.value, self.dim = rewriter, value, dim

    def term(self, x: Value, places: Sequence[int], factors: Sequence[float]) -> Value:
        """``x`` at ``places``, times ``factors``; zero where there is no place."""
        within = tuple([max(place, 0) for place in places])
        where = self.write("literal", values=within, shape=(len(places),), dtype=dtypes.int64)
        found = self.write("take", x, where, dim=self.dim)
        if any(factor != 1.0 for factor in factors):
            found = self.write("mul", found, self.along(factors, x.spec.dtype))
        if any(place < 0 for place in places):
            there = self.along([place >= 0 for place in places], dtypes.bool_)
            found = self.write("where", there, found, 0)
        return found

    def along(self, values: Sequence[Scalar], dtype: DType) -> Value:
        """Numbers along the dimension."""
        behind = self.value.spec.ndim - self.dim - 1
        shape = (len(values), *(1,) * behind)
        return self.write("literal", values=tuple(values), shape=shape, dtype=dtype)

    def as_dtype(self, x: Value, dtype: DType) -> Value:
        """``x`` in another dtype, if that is another."""
        return x if x.spec.dtype is dtype else self.write("cast", x, dtype=dtype)

    def write(self, name: str, *operands: Value | Scalar, **attributes: object) -> Value:
        """An operation that belongs to the user's line."""
        return self.rewriter.write(name, operands, self.value.line, **attributes)


RULES: Rules = {"mix_along": (_mix,)}
