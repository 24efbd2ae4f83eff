"""Assemblies: memory that pieces are written into, and graphs whose values lie in each other's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

import numpy as np

from ..dtypes import DType
from ..ir.graph import Graph, Value
from ..ops.table import Contraction
from ..types import Shape, TensorType
from .plan.pieces import Place
from .plan.views import Layouts


class Assembly(Contraction):
    """The kind of the one op :data:`assemble`."""

    def evaluate(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Write the pieces one after the other."""
        result = np.empty(attributes["shape"], attributes["dtype"].np)
        for piece, place in zip(operands, attributes["places"], strict=True):
            place.of_array(result)[...] = piece
        return result


def _assembly_type(
    *pieces: TensorType, shape: Shape, dtype: DType, places: tuple[Place, ...]
) -> TensorType:
    return TensorType(shape, dtype)


def _body(*pieces: Any, **attributes: Any) -> Any:
    return assemble.evaluate(pieces, attributes)


assemble = Assembly(
    name="assemble",
    operands=("pieces",),
    variadic=True,
    attributes=dict.fromkeys(("shape", "dtype", "places"), Parameter.empty),
    body=_body,
    grads={},
    infer_type=_assembly_type,
    doc="Memory that its pieces are written into.",
)


@dataclass(frozen=True)
class Placed:
    """A graph ready to be fused: how every value lies, and what must have run before late pieces and other values."""

    graph: Graph
    layouts: Layouts
    before: Mapping[Value, tuple[Value, ...]]
    after: Mapping[Value, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def waits(self) -> dict[Value, tuple[Value, ...]]:
        """What must be complete before each value is computed."""
        both = {**self.after, **self.before}
        return {v: (*self.after.get(v, ()), *self.before.get(v, ())) for v in both}
