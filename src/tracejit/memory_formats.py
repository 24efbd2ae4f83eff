"""Names for orders of elements in memory, and for layouts. Tensors are kept row by row, whatever is asked for."""

from __future__ import annotations

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "legacy_contiguous_format",
    "memory_format",
    "preserve_format",
    "strided",
]


class memory_format:  # noqa: N801  (PyTorch's spelling)
    """An order of elements in memory, as a hint that arguments called ``memory_format`` take.

    >>> import tracejit as tj
    >>> tj.zeros(1, 2, 3, 3).contiguous(memory_format=tj.channels_last).is_contiguous()
    True
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tracejit.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout:  # noqa: N801  (PyTorch's spelling)
    """How a tensor's elements are kept. All tensors are ``strided``; programs compare with the others.

    >>> import tracejit as tj
    >>> tj.ones(2).layout, isinstance(tj.strided, tj.layout), tj.ones(2).layout == tj.sparse_csr
    (tracejit.strided, True, False)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tracejit.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
#: What ``contiguous_format`` was called in arguments that kept the order of elements by default.
legacy_contiguous_format = contiguous_format
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = layout("strided")
#: Layouts that no tensor has.
SPARSE = {
    f"sparse_{kind}": layout(f"sparse_{kind}") for kind in ("coo", "csr", "csc", "bsr", "bsc")
}
globals().update(SPARSE)  # where pickles look for them
