"""Batches cut into pieces for several devices, and results of several devices put together, in nested values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..ops.table import FUNCTIONS
from ..tensor import Tensor
from ..utils.tree_questions import is_namedtuple_instance

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """A value for each device: tensors are cut along ``dim``, what is no tensor goes to all of them.

    >>> import tracejit as tj
    >>> scatter({"x": tj.arange(3), "n": 1}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'n': 1}, {'x': tensor([2]), 'n': 1}]
    """
    if isinstance(inputs, Tensor):
        pieces = inputs.chunk(len(target_gpus), dim)
        return tuple([x.to(place) for x, place in zip(pieces, target_gpus, strict=False)])
    if isinstance(inputs, (tuple, list, dict)) and inputs:
        parts = inputs.items() if isinstance(inputs, dict) else inputs
        rows = zip(*[scatter(x, target_gpus, dim) for x in parts], strict=False)
        make: Callable[[Any], Any] = tuple if type(inputs) is tuple else type(inputs)
        if is_namedtuple_instance(inputs):
            make = type(inputs)._make  # type: ignore[union-attr]
        return [make(row) for row in rows]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """The arguments of a call for each device.

    >>> scatter_kwargs((1,), {"n": 2}, ["cpu"])
    (((1,),), ({'n': 2},))
    """
    given = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    given += [()] * (len(named) - len(given))
    named += [{}] * (len(given) - len(named))
    return tuple(given), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """One value of one for each device: tensors are joined along ``dim``; else there may be None in nested values.

    Tensors without dimensions become the elements of one. Raises ``ValueError`` for dicts of different lengths.

    >>> import tracejit as tj
    >>> gather([{"x": tj.ones(1)}, {"x": tj.zeros(2)}], "cpu")
    {'x': tensor([1., 0., 0.])}
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        return _joined(outputs, target_device, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(one) != len(first) for one in outputs):
            raise ValueError("All dicts must have the same number of keys")
        pairs = [(k, gather([one[k] for one in outputs], target_device, dim)) for k in first]
        return type(first)(pairs)
    rows = [gather(row, target_device, dim) for row in zip(*outputs, strict=True)]
    return first._make(rows) if is_namedtuple_instance(first) else type(first)(rows)


def _joined(tensors: Sequence[Tensor], place: Any, dim: int) -> Any:
    if dim == 0 and all(x.dim() == 0 for x in tensors):
        warnings.warn(
            "gather: tensors without dimensions become the elements of a vector.", stacklevel=3
        )
        tensors = [x.view(1) for x in tensors]
    return FUNCTIONS["cat"]([x.to(place) for x in tensors], dim)
