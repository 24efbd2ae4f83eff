"""What stands in a tensor for its memory while the operation that makes it is put off: see `deferral`."""

from __future__ import annotations

from typing import Any, Protocol

from .errors import TracejitError
from .meta import MetaArray, meta_array
from .ops.op import Op

__all__ = ["Deferred"]


class _Owner(Protocol):
    def compute(self) -> None: ...


class Deferred:
    """Stands in a tensor for its memory until the elements are computed; ``array`` computes them."""

    __slots__ = (
        "__weakref__",
        "attributes",
        "found",
        "layout",
        "meta",
        "op",
        "operands",
        "owner",
        "versions",
    )

    def __init__(
        self, owner: _Owner, op: Op, operands: list[Any], attributes: dict[str, Any], layout: Any
    ) -> None:
        self.owner = owner
        self.op = op
        self.operands = operands  # arrays, what is put off, and numbers
        self.attributes = attributes
        self.layout = layout
        self.versions: list[tuple[Any, int]] = []
        self.found: Any = None
        self.meta: MetaArray | None = None

    @property
    def array(self) -> Any:
        """The elements."""
        if self.found is None:
            self.owner.compute()
        return self.found

    def without_memory(self) -> MetaArray:
        """An array that lies like this one will."""
        if self.meta is None:
            kind = self.layout.spec
            self.meta = meta_array(kind.shape, kind.dtype.np)
        return self.meta

    def compute(self) -> None:
        """Run the operation."""
        for writes, value in self.versions:
            if writes.value != value:
                raise TracejitError(
                    f"{self.op.name} was put off, and what it reads was written to meanwhile",
                    "Please report this; tracejit.config.defers = False avoids it.",
                )
        operands = [x.array if type(x) is Deferred else x for x in self.operands]
        self.found = self.op.evaluate(operands, self.attributes)
        self.operands, self.versions, self.meta = [], [], None
