"""Attributes that the code of a function looks for in tensors, and that these have not got.

The answer of ``hasattr(x, "name")`` is a fact of the tensor that a call brings, so it is asked again of later ones.
Tensors from elsewhere stay the same ones: of those, a guard looks at their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...tensor import Tensor
from ..state.checks import Check, NewNames
from ..state.reads import Names
from ..state.tensors import names_kept
from .inputs import Signature

__all__ = ["AbsentAttributes", "WithoutAttributes"]


@dataclass(frozen=True, slots=True)
class WithoutAttributes:
    """An argument has none of these attributes."""

    asked: frozenset[str]

    def broken(self, names: dict[str, Any]) -> list[str]:
        """Python conditions under which ``t`` is not as expected; adds what they refer to to ``names``."""
        name = f"asked{len(names)}"
        names[name] = self.asked
        return [f"t.__dict__ and not {name}.isdisjoint(t.__dict__)"]


class AbsentAttributes:
    """The part of a recorder that is told which attributes tensors lack."""

    signature: Signature
    positions: dict[int, int]
    checks: list[Check]

    def absent(self, tensor: Tensor, name: str, names: Names) -> None:
        """Code that reads ``names`` asked ``tensor`` for an attribute that it lacks."""
        position = self.positions.get(id(tensor))
        if position is not None:
            self.signature.absent.setdefault(position, set()).add(name)
        else:
            label, kept = f"a Tensor {tuple(tensor.shape)}", names_kept(tensor)
            self.checks.append(NewNames(vars(tensor), label, names, kept=kept))

    def without_attributes(self) -> Iterable[tuple[int, WithoutAttributes]]:
        """What must be true of the attributes of arguments."""
        for position, asked in self.signature.absent.items():
            yield position, WithoutAttributes(frozenset(asked))
