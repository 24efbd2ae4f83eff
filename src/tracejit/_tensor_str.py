"""How tensors are printed, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .cuda.arrays import fetched
from .printing import array_text, get_printoptions, set_printoptions, tensor_text
from .tensor import Tensor

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


def __getattr__(name: str) -> Any:
    if name == "PRINT_OPTS":
        return get_printoptions()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Print tensors in another way inside; takes what :func:`set_printoptions` takes.

    >>> import tracejit as tj
    >>> with printoptions(precision=2):
    ...     print(tj.tensor([0.125]))
    tensor([0.12])
    """
    before = dict(vars(get_printoptions()))
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def _tensor_str(self: Tensor, indent: int) -> str:
    return array_text(fetched(self.array), indent)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    return tensor_text(self)
