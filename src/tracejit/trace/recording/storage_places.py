"""What a run looks at in the storage of a tensor besides the tensor: elements around it, places counted from the start.

A signature tells neither: one call hands over a whole tensor, the next a slice of another one with the same layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...tensor import Tensor
from ...tensor_info import offset_in_storage
from .inputs import Signature
from .recording import Step

__all__ = ["LiesAt", "StoragePlaces"]


@dataclass(frozen=True, slots=True)
class LiesAt:
    """An argument begins at this element of its storage."""

    offset: int

    def broken(self, names: dict[str, Any]) -> list[str]:
        """Python conditions under which ``t`` is not as expected; adds what they refer to to ``names``."""
        names["offset_in_storage"] = offset_in_storage
        return [f"offset_in_storage(t) != {self.offset}"]


class StoragePlaces:
    """The part of a recorder that is told where in their storage tensors are looked at."""

    signature: Signature
    positions: dict[int, int]
    external: dict[int, Any]
    failure: str | None
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]
    unsupported: Callable[[str], None]

    def reach_beyond(self, tensor: Tensor, inside: bool) -> None:
        """Elements at places of a storage are looked at, those of ``tensor`` if they lie ``inside``, or others."""
        if self.failure is not None:
            return
        origin = self.origin(tensor)[0]
        position = self.positions.get(id(origin))
        if position is None and id(origin) not in self.external:
            return  # made by the run, as by every other one
        if origin._base is not None and not inside:
            self.unsupported("as_strided() beyond a view from outside a compiled function")
        elif position is None:
            self.unsupported(
                "as_strided() at places in the storage of a tensor from outside a compiled function"
            )
        else:
            self.signature.places[position] = offset_in_storage(origin)

    def places_in_storage(self) -> Iterable[tuple[int, LiesAt]]:
        """What must be true of where arguments begin."""
        for position, offset in self.signature.places.items():
            yield position, LiesAt(offset)
