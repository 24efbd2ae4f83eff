"""Sums, means, products and extremes of neighbouring rows: ``segment_reduce``."""

from __future__ import annotations

from typing import Any

from ..shapes import normalize_dim
from ..table import FUNCTIONS, function
from .common import Tensor, check_tensor, constant, shape_of

_KINDS = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}
_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": float("-inf"), "amin": float("inf")}


@function(method=False)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """The "sum", "mean", "prod", "max" or "min" of each segment along ``axis``, which ``lengths`` or ``offsets`` tell.

    Segments start from ``initial``. Dimensions before ``axis`` may have segments of their own. Raises ``RuntimeError``
    for lengths that are negative or, unless ``unsafe``, do not add up to the extent.

    >>> import tracejit as tj
    >>> tj.segment_reduce(tj.tensor([1.0, 2.0, 3.0]), "sum", lengths=tj.tensor([2, 0, 1]))
    tensor([3., 0., 3.])
    """
    check_tensor("segment_reduce", data, "data")
    kind = _KINDS.get(reduce, reduce)
    if kind not in _EMPTY:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"\"segment_reduce\" not implemented for '{data.dtype.title}'")
    dim = normalize_dim(axis, max(data.ndim, 1))
    ends = _ends(data, lengths, offsets, dim, unsafe)
    return _reduced(data, kind, ends, dim, initial)


def _ends(data: Tensor, lengths: Any, offsets: Any, dim: int, unsafe: bool) -> Tensor:
    """Where segments begin, and where the last one ends, along the last dimension."""
    given, name = (offsets, "offsets") if lengths is None else (lengths, "lengths")
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if given.dtype.is_floating_point or given.dtype.is_complex or given.dtype.name == "bool":
        raise NotImplementedError(
            f'"segment_reduce" not implemented for {name} of {given.dtype.title}'
        )
    if data.ndim < given.ndim:
        raise RuntimeError(f"Expected data.dim() >= {name}.dim() to be true, but got false.")
    if given.ndim != dim + 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {name} but got {dim}."
        )
    if shape_of(given)[:-1] != shape_of(data)[:dim]:
        raise RuntimeError(f"segment_reduce(): Expected {name} and data to agree before the axis.")
    if name == "offsets":
        return given.contiguous()
    if not unsafe:
        if bool((given < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if not bool((given.sum(-1) == shape_of(data)[dim]).all()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    return FUNCTIONS["pad"](given.cumsum(-1), (1, 0))


def _reduced(data: Tensor, kind: str, ends: Tensor, dim: int, initial: float | None) -> Tensor:
    count, extent = shape_of(ends)[-1] - 1, shape_of(data)[dim]
    rest = tuple(1 for _ in shape_of(data)[dim + 1 :])
    places = FUNCTIONS["arange"](extent, dtype=ends.dtype).expand(*shape_of(ends)[:-1], extent)
    # 0 is what comes before the first segment, count + 1 what comes behind the last one.
    at = FUNCTIONS["searchsorted"](ends, places.contiguous(), right=True)
    at = at.reshape(*shape_of(at), *rest).expand(*shape_of(data))
    start = _EMPTY[kind]
    if initial is not None and kind in ("sum", "mean", "prod"):
        start = float(initial)
    shape = (*shape_of(data)[:dim], count + 2, *shape_of(data)[dim + 1 :])
    target = constant(start, data.dtype, shape)
    how = "sum" if kind == "mean" else kind
    found = FUNCTIONS["scatter_reduce"](target, dim, at, data, how, include_self=True)
    found = found.narrow(dim, 1, count)
    if kind == "mean":
        sizes = ends.diff(dim=-1).reshape(*shape_of(ends)[:-1], count, *rest)
        empty = float("nan") if initial is None else start
        return (found / sizes).masked_fill(sizes == 0, empty)
    if initial is not None and kind in ("amax", "amin"):
        beyond = found < initial if kind == "amax" else found > initial
        return found.masked_fill(beyond, float(initial))
    return found
