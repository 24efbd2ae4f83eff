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

__all__ = ["default_collate", "default_convert"]

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


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of a list of samples of equal structure.

    Tensors and arrays are stacked along a new first dimension, numbers become one tensor (floats float64), strings
    stay a list; mappings, named tuples, tuples and lists are gone through. Raises ``TypeError`` for other values and
    ``RuntimeError`` for sequences of different lengths.

    >>> import tracejit as tj
    >>> tj.utils.data.default_collate([(1, {"x": 0.5}), (2, {"x": 1.5})])
    [tensor([1, 2]), {'x': tensor([0.5000, 1.5000], dtype=tracejit.float64)}]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch), 0)
    if isinstance(first, (str, bytes)):  # NumPy's, too
        return batch
    if isinstance(first, (np.ndarray, np.generic)):
        return _of_arrays(batch, first)
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([s[key] for s in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(part) for part in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(part) for part in zip(*batch, strict=True)]
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first)}"
    )


def _of_arrays(batch: Sequence[Any], first: Any) -> Any:
    if not _has_numbers(first):
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {first.dtype}"
        )
    if first.shape == ():
        return as_tensor(np.stack([np.asarray(value) for value in batch]))
    return stack([as_tensor(value) for value in batch], 0)


def _like(mapping: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the same class, where that can be made of a dict."""
    try:
        return type(mapping)(values)
    except TypeError:
        return values
