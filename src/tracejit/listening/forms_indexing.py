"""Parts of tensors, read and written, as operators; see :mod:`tracejit.listening.forms`."""

from __future__ import annotations

from typing import Any

from ..aten import ATEN as A
from ..tensor import Tensor
from .forms import AS_WRITTEN, form

__all__: list[str] = []

#: Where a slice ends that has no end.
END = (1 << 63) - 1
_LISTS = (list, tuple)


def _items(x: Any, key: Any) -> list[Any] | None:
    """What a key asks for, dimension by dimension; None where it says too much for one place."""
    parts = list(key) if isinstance(key, tuple) else [key]
    used = 0
    for part in parts:
        if part is None or part is Ellipsis or isinstance(part, bool):
            continue
        boolean = isinstance(part, Tensor) and part.dtype.name in ("bool", "uint8")
        used += len(part.shape) if boolean else 1
    at = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(at) > 1 or any(isinstance(part, bool) for part in parts):
        return None
    fill = [slice(None)] * (len(x.shape) - used)
    if at:
        parts[at[0] : at[0] + 1] = fill
    return parts


def _is_place(part: Any) -> bool:
    return isinstance(part, int) or (
        not isinstance(part, (Tensor, slice)) and hasattr(part, "__index__")
    )


def _bounds(part: slice, extent: int) -> tuple[int, int, int] | None:
    """Where a slice begins and ends, as PyTorch says it; None for all."""
    values = [None if y is None else int(y) for y in (part.start, part.stop, part.step)]
    start, stop, step = values
    step = 1 if step is None else step
    if (start or 0) == 0 and step == 1 and (stop is None or stop >= extent):
        return None
    return 0 if start is None else start, END if stop is None else stop, step


def shown(x: Any, key: Any) -> tuple[Any, list[Any]] | None:
    """The view that numbers and slices ask for, and a row of what is looked up in it; None where it is not known.

    >>> import tracejit as tj
    >>> shown(tj.arange(6).reshape(2, 3), (1, slice(1, None)))
    (tensor([4, 5]), [])
    """
    parts = _items(x, key)
    if parts is None:
        return None
    dim, looked = 0, {}
    for part in parts:
        if _is_place(part):
            x = A.select(x, dim, int(part))
        elif isinstance(part, slice):
            bounds = _bounds(part, x.shape[dim])
            if bounds is not None:
                x = A.slice(x, dim, *bounds)
            dim += 1
        elif part is None:
            x = A.unsqueeze(x, dim)
            dim += 1
        elif isinstance(part, Tensor):
            if not part.shape:  # it tells a place, or whether there is one
                return None
            looked[dim] = part
            dim += len(part.shape) if part.dtype.name == "bool" else 1
        else:
            return None
    row: list[Any] = [looked.get(d) for d in range(max(looked, default=-1) + 1)]
    boolean = [d for d, part in looked.items() if part.dtype.name == "bool" and len(part.shape) > 1]
    return None if len(boolean) > 0 and len(looked) > 1 else (x, row)


def _plain(key: Any) -> Any:
    """The key with rows of numbers as tensors; None where there is something else in it."""
    from ..tensor_make import tensor

    parts = key if isinstance(key, tuple) else (key,)
    found = [tensor(part) if isinstance(part, _LISTS) else part for part in parts]
    known = (Tensor, slice, type(None), type(Ellipsis))
    if not all(isinstance(part, known) or _is_place(part) for part in found):
        return None
    return tuple(found)


@form("__getitem__")
def _getitem(self: Any, key: Any) -> Any:
    plain = _plain(key)
    if plain is None or not len(self.shape):
        return AS_WRITTEN
    found = shown(self, plain)
    if found is None:
        return AS_WRITTEN
    x, row = found
    if row:
        return A.index(x, row)
    return A.alias(x) if x is self else x


@form("__setitem__")
def _setitem(self: Any, key: Any, value: Any) -> Any:
    plain = _plain(key)
    if plain is None or not (isinstance(value, (Tensor, int, float, complex))):
        return AS_WRITTEN
    number = not isinstance(value, Tensor)
    if number:
        from ..tensor_make import tensor

        if _items(self, plain) is None:
            return AS_WRITTEN
        value = A.lift_fresh(tensor(value, dtype=self.dtype, device=self.device))
    found = shown(self, plain) if len(self.shape) else (self, [])
    if found is None:
        return AS_WRITTEN
    x, row = found
    if number and not row:
        A.fill_(x, value)
        return None
    if row:
        A.index_put_(x, row, value)
    else:
        while len(value.shape) > len(x.shape) and value.shape[0] == 1:
            value = A.squeeze(value, 0)
        A.copy_(x, value)
    return None


@form("F.embedding")
def _embedding(
    input: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if max_norm is not None or input.dtype.is_floating_point:
        return AS_WRITTEN
    row = -1 if padding_idx is None else padding_idx + (weight.shape[0] if padding_idx < 0 else 0)
    return A.embedding(weight, input, row, scale_grad_by_freq, sparse)
