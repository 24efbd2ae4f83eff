"""Several tensors laid one after the other, and cut apart again, as code for half precision does with parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..ops.functions.joining import cat

__all__ = ["_flatten_dense_tensors", "_take_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Iterable[Any]) -> Any:
    """The elements of ``tensors`` in one row.

    >>> import tracejit as tj
    >>> _flatten_dense_tensors([tj.ones(1, 2), tj.zeros(1)])
    tensor([1., 1., 0.])
    """
    return cat([x.contiguous().view(-1) for x in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Iterable[Any]) -> tuple[Any, ...]:
    """Views of the row ``flat`` that are shaped as ``tensors``.

    >>> import tracejit as tj
    >>> _unflatten_dense_tensors(tj.arange(3), [tj.ones(1, 2), tj.zeros(1)])
    (tensor([[0, 1]]), tensor([2]))
    """
    views, start = [], 0
    for like in tensors:
        count = like.numel()
        part = flat.narrow(0, start, count) if count else flat.new_empty(0)
        views.append(part.view(like.shape))
        start += count
    return tuple(views)


def _take_tensors(tensors: Iterable[Any], size_limit: int) -> Iterator[Sequence[Any]]:
    """Lists of tensors of one type each, of up to ``size_limit`` bytes where no single one is larger.

    >>> import tracejit as tj
    >>> [len(group) for group in _take_tensors([tj.ones(2), tj.ones(2), tj.arange(1), tj.ones(1)], 16)]
    [2, 1, 1]
    """
    groups: dict[str, tuple[list[Any], int]] = {}
    for x in tensors:
        size = x.numel() * x.element_size()
        group, taken = groups.get(x.type(), ([], 0))
        if taken and taken + size > size_limit:
            yield group
            group, taken = [], 0
        group.append(x)
        groups[x.type()] = group, taken + size
    for group, _ in groups.values():
        yield group
