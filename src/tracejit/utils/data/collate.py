"""From a list of samples to one batch: tensors are stacked, numbers become tensors, structures stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...dtypes import float64
from ...ops.functions.joining import stack
from ...tensor import Tensor
from ...tensor_make import as_tensor, tensor

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_collate_fn_map",
    "default_convert",
]

#: What the ``dtype.str`` of arrays of text and of objects has in it; of these no tensors are made.
np_str_obj_array_pattern = re.compile("[SaUO]")


def default_convert(data: Any) -> Any:
    """Arrays in a structure as tensors; everything else as it is.

    >>> import numpy as np, tracejit as tj
    >>> tj.utils.data.default_convert({"a": np.ones(2, np.float32), "b": "text"})
    {'a': tensor([1., 1.]), 'b': 'text'}
    """
    return _mapped(data, _converted)


def pinned_batch(batch: Any, device: Any = None) -> Any:
    """A structure with its tensors, and objects that know how, in pinned memory of the host.

    >>> import tracejit as tj
    >>> pinned_batch({"x": tj.ones(2), "name": "a"})
    {'x': tensor([1., 1.]), 'name': 'a'}
    """
    return _mapped(batch, lambda part: part.pin_memory() if hasattr(part, "pin_memory") else part)


def _mapped(data: Any, change: Callable[[Any], Any]) -> Any:
    """A structure with its parts changed: values of mappings, elements of named tuples and of other sequences."""
    if isinstance(data, (Tensor, str, bytes)):
        return change(data)
    if isinstance(data, Mapping):
        return _like(data, {key: _mapped(value, change) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_mapped(value, change) for value in data))
    if isinstance(data, Sequence):
        return [_mapped(value, change) for value in data]
    return change(data)


def _converted(part: Any) -> Any:
    """An array as a tensor."""
    numbers = isinstance(part, (np.ndarray, np.generic)) and _has_numbers(part)
    return as_tensor(part) if numbers else part


def _has_numbers(array: Any) -> bool:
    return np_str_obj_array_pattern.search(array.dtype.str) is None


def collate(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """One batch of a list of samples of equal structure, by functions for the classes of their parts.

    ``collate_fn_map`` leads from classes, or rows of them, to functions of a list of parts and ``collate_fn_map``;
    the first one that a part is of counts. Mappings, named tuples, tuples and lists are gone through. Raises
    ``TypeError`` for parts of other classes and ``RuntimeError`` for sequences of different lengths.

    >>> collate(["ab", "c"], collate_fn_map={str: lambda parts, collate_fn_map=None: "".join(parts)})
    'abc'
    """
    first = batch[0]
    known = collate_fn_map or {}
    if type(first) in known:
        return known[type(first)](batch, collate_fn_map=collate_fn_map)
    for kind, function in known.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)

    def together(parts: Any) -> Any:
        return collate(parts, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _like(first, {key: together([s[key] for s in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(together(part) for part in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [together(part) for part in zip(*batch, strict=True)]
    raise TypeError(default_collate_err_msg_format.format(type(first)))


default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Tensors along a new first dimension.

    >>> import tracejit as tj
    >>> collate_tensor_fn([tj.ones(1), tj.zeros(1)]).shape
    tracejit.Size([2, 1])
    """
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Arrays as a tensor with a new first dimension. Raises ``TypeError`` for arrays of text or objects.

    >>> import numpy as np
    >>> collate_numpy_array_fn([np.ones(1, np.int64), np.zeros(1, np.int64)])
    tensor([[1],
            [0]])
    """
    if not _has_numbers(batch[0]):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    if batch[0].shape == ():
        return as_tensor(np.stack([np.asarray(value) for value in batch]))
    return stack([as_tensor(value) for value in batch], 0)


collate_numpy_scalar_fn = collate_numpy_array_fn


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Numbers as a tensor of float64.

    >>> collate_float_fn([1.0, 2.0])
    tensor([1., 2.], dtype=tracejit.float64)
    """
    return tensor(list(batch), dtype=float64)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Integers as a tensor.

    >>> collate_int_fn([1, 2])
    tensor([1, 2])
    """
    return tensor(list(batch))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Text as it is.

    >>> collate_str_fn(["a", "b"])
    ['a', 'b']
    """
    return batch


#: The functions of :func:`default_collate`; programs add theirs.
default_collate_fn_map: dict[Any, Any] = {
    Tensor: collate_tensor_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
    np.ndarray: collate_numpy_array_fn,
    np.generic: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of a list of samples of equal structure.

    Tensors and arrays are stacked along a new first dimension, numbers become one tensor (floats float64), strings
    stay a list; mappings, named tuples, tuples and lists are gone through. Classes that programs add to
    ``default_collate_fn_map`` count, too. Raises ``TypeError`` for other values and ``RuntimeError`` for sequences of
    different lengths.

    >>> import tracejit as tj
    >>> tj.utils.data.default_collate([(1, {"x": 0.5}), (2, {"x": 1.5})])
    [tensor([1, 2]), {'x': tensor([0.5000, 1.5000], dtype=tracejit.float64)}]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def _like(mapping: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the same class, where that can be made of a dict."""
    try:
        return type(mapping)(values)
    except TypeError:
        return values
