"""Tensors as state: how those that the code can reach lie in memory, and whether they require gradients.

Their values are inputs of a recording, read anew at every call. Their sizes, element types, strides and flags are read
as Python facts (``if weight.requires_grad:``, ``zeros_like(bank)``), with or without a use of the values. Whatever
changes such a fact moves one process-wide counter, so a guard compares tensors only after that has moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...layout import layout_of
from ...tensor import Tensor
from ...tensor_core import REBOUND
from . import reads
from .checks import Bind, Check

_WHAT = ("type or layout", "requires_grad", "is_leaf")


def names_kept(tensor: Tensor) -> frozenset[str]:
    """What this package keeps among the attributes of a tensor: all others are the user's."""
    kind: type = type(tensor)
    return _names_of(kind)


@cache
def _names_of(kind: type) -> frozenset[str]:
    return frozenset(n for c in kind.__mro__ if reads.is_library_class(c) for n in vars(c))


def facts_of(tensor: Tensor) -> tuple[Any, bool | None, bool]:
    """What Python can learn of a tensor besides its values, and what moves the counter."""
    flows = tensor._flows  # by now a view has the history that it has
    return layout_of(tensor), flows, tensor._grad_fn is None


@dataclass(eq=False, slots=True)
class TensorFacts(Check):
    """Tensors that can be reached have the facts they had."""

    seen: list[int]
    objects: tuple[Tensor, ...]
    known: tuple[tuple[str, Tensor, tuple[Any, bool | None, bool]], ...]

    @classmethod
    def of(cls, tensors: Iterable[tuple[str, Tensor]]) -> TensorFacts:
        """The check for tensors by what users call them."""
        found = tuple(tensors)
        for _, tensor in found:
            tensor._watch()
        seen = [REBOUND[0]]
        known = tuple((name, tensor, facts_of(tensor)) for name, tensor in found)
        return cls(REBOUND, "tensors", seen, tuple(t for _, t in found), known)

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        count, seen = bind(self.holder), bind(self.seen)
        return f"{count}[0] != {seen}[0] and {bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        # Read before comparing: a change that another thread makes meanwhile is seen by the next check.
        count = self.holder[0]
        for name, tensor, before in self.known:
            now = facts_of(tensor)
            if now == before:
                continue
            what = next(i for i, (a, b) in enumerate(zip(before, now, strict=True)) if a != b)
            return f"{_WHAT[what]} of {name} was {before[what]} and is {now[what]}"
        self.seen[0] = count
        return None
