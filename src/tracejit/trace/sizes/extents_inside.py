"""Extents of the arguments that are sizes: a call hands them over, the recorded run sees symbols in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.graph import Value
from ...tensor import Tensor
from ...types import TensorType
from ..recording.inputs import Signature
from .found_sizes import RecordedExtents, plain


class ExtentsInside:
    """The part of a recorder that knows which extents of the arguments are sizes."""

    signature: Signature
    scope: RecordedExtents | None
    value_of: Callable[[Tensor], Value]
    sizes_handed_over: Callable[[Tensor], list[Any]]
    show: Callable[[Tensor, Value], None]

    def __init__(self) -> None:
        self.widened_arguments: list[Tensor] = []

    def extents_handed_over(self, tensors: Sequence[Tensor], groups: Sequence[Any]) -> None:
        """Extents become sizes, which a call hands over as the elements of its last tensor."""
        vector = self.value_of(tensors[-1])
        told = self.sizes_handed_over(tensors[-1])
        found = self.signature.sizes.found
        self.signature.extents = next(v for v in found if v.operands == (vector,))
        shapes: dict[int, list[Any]] = {}
        for group, size in zip(groups, told, strict=True):
            for i, d in group:
                shapes.setdefault(i, list(plain(tensors[i].spec.shape)))[d] = size
        for i, shape in shapes.items():
            value = self.value_of(tensors[i])
            value.spec = TensorType(tuple(shape), value.spec.dtype)
            self.show(tensors[i], value)
            self.widened_arguments.append(tensors[i])

    def plain_extents(self) -> list[int]:
        """The groups of extents of which the run made plain numbers."""
        if self.scope is None or self.signature.extents is None:
            return []
        numbers = self.signature.sizes.found[self.signature.extents]
        pinned: set[int] = set()
        for decision in self.scope.decisions.values():
            if decision.relation == "==" and decision.outcome:
                terms = decision.extent.terms
                constant = any(not monomial for monomial, _ in terms)
                linear = all(len(monomial) < 2 for monomial, _ in terms)
                symbols = decision.extent.symbols
                if len(symbols) == 1 or (constant and not linear):
                    pinned.update(symbols)
        return [group for group, number in enumerate(numbers) if number in pinned]
