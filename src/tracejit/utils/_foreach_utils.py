"""What optimizers that work on lists of tensors ask first: which tensors go together, and whether to do so at all.

Functions of lists (``_foreach_add_`` and its like) work on tensors of every kind and device. They are loops here, so
nothing is gained by them, and no device is one that they are meant for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ..device import device as Device
from ..dtypes import DType
from ..tensor import Tensor

__all__ = ["Indices", "TensorListList"]

TensorListList: TypeAlias = list[list[Tensor | None]]
Indices: TypeAlias = list[int]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """None: no kind of device has kernels of its own for lists of tensors.

    >>> _get_foreach_kernels_supported_devices()
    []
    """
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """The kinds of device where ``fused=True`` may be asked of the package's optimizers.

    >>> _get_fused_kernels_supported_devices()
    ['cpu', 'cuda']
    """
    return ["cpu", "cuda"]


def _device_has_foreach_support(device: Any) -> bool:
    """May functions of lists be used there? Yes on every device that holds tensors.

    >>> import tracejit as tj
    >>> _device_has_foreach_support(tj.device("cpu")), _device_has_foreach_support(tj.device("mps"))
    (True, False)
    """
    return Device(device).type in _get_fused_kernels_supported_devices()


def _has_foreach_support(tensors: Iterable[Tensor | None], device: Any) -> bool:
    """Are all of ``tensors`` plain ones (or None), on a ``device`` where functions of lists may be used?

    >>> import tracejit as tj
    >>> _has_foreach_support([tj.ones(1), None], tj.device("cpu"))
    True
    """
    plain = all(x is None or type(x) is Tensor for x in tensors)
    return _device_has_foreach_support(device) and plain


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Device, DType], tuple[list[list[Any]], list[int]]]:
    """``tensorlistlist`` divided by where the tensors of the first list are and which dtype they have.

    Lists are as long as the first or empty, which they stay; others than the first may hold None. For every group a
    pair: lists as in ``tensorlistlist`` of what belongs to it, in order, and positions in the given lists (none without
    ``with_indices``). Raises ``RuntimeError`` for lists of other lengths and for no or an empty first list.

    >>> import tracejit as tj
    >>> groups = _group_tensors_by_device_and_dtype([[tj.ones(1), tj.arange(2), tj.zeros(1)], []], True)
    >>> [(dtype, lists[0], where) for (_, dtype), (lists, where) in groups.items()]
    [(tracejit.float32, [tensor([1.]), tensor([0.])], [0, 2]), (tracejit.int64, [tensor([0, 1])], [1])]
    """
    if not tensorlistlist or not len(tensorlistlist[0]):
        raise RuntimeError("the first list of tensors is empty")
    first = tensorlistlist[0]
    if any(len(row) not in (0, len(first)) for row in tensorlistlist):
        raise RuntimeError("lists of tensors are as long as the first, or empty")
    groups: dict[tuple[Device, DType], tuple[list[list[Any]], list[int]]] = {}
    for index, tensor in enumerate(first):
        key = (tensor.device, tensor.dtype)
        lists, where = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for into, row in zip(lists, tensorlistlist, strict=True):
            if len(row):
                into.append(row[index])
        if with_indices:
            where.append(index)
    return groups
