"""vmap: a function of single samples applied to every sample of a batch.

Samples are taken one after the other and results stacked: what the function does to one sample is what happens,
gradients included. Compiled, the samples' operations are rounds of one loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentValueError
from ..ops.functions.joining import stack
from ..ops.functions.slicing import select
from ..tensor import Tensor


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies ``func`` to each slice of its arguments along ``in_dims`` and stacks the results.

    ``in_dims`` and ``out_dims`` are a dimension for all, or nested like the arguments and results; None for arguments
    that are not sliced. Random draws differ from sample to sample unless ``randomness`` is "same". Raises
    ``ValueError`` for dimensions that do not fit and for batches of different sizes.

    >>> import tracejit as tj
    >>> tj.vmap(tj.dot)(tj.ones(2, 3), tj.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentValueError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        dims = tuple(in_dims) if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        if len(dims) != len(args):
            raise ArgumentValueError(
                f"vmap: in_dims has {len(dims)} entries for {len(args)} arguments"
            )
        sizes: list[int] = []
        _measure(args, dims, sizes)
        _measure(tuple(kwargs.values()), (0,) * len(kwargs), sizes)
        if not sizes or len(set(sizes)) > 1:
            raise ArgumentValueError(
                "vmap: at least one Tensor argument must be sliced"
                if not sizes
                else f"vmap: Expected all tensors to have the same size in the mapped dimension, got {sizes}"
            )
        rows = []
        for index in range(sizes[0]):
            named = {k: _sliced(v, 0, index) for k, v in kwargs.items()}
            rows.append(func(*_sliced(args, dims, index), **named))
        return _stacked(rows, out_dims)

    return batched


def _parts(value: Any, dims: Any) -> list[tuple[Any, Any, Any]] | None:
    """The entries of a container with their keys and dims; None for anything else."""
    if isinstance(value, dict):
        return [(k, v, dims[k] if isinstance(dims, dict) else dims) for k, v in value.items()]
    if isinstance(value, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else [dims] * len(value)
        if len(each) != len(value):
            raise ArgumentValueError("vmap: dims are not nested like what they are for")
        return [(i, v, d) for i, (v, d) in enumerate(zip(value, each, strict=True))]
    return None


def _measure(value: Any, dims: Any, sizes: list[int]) -> None:
    """Note how many slices each tensor has."""
    parts = _parts(value, dims)
    for _, part, dim in parts or ():
        _measure(part, dim, sizes)
    if parts is None and isinstance(value, Tensor) and dims is not None:
        if not -value.ndim <= dims < value.ndim:
            raise ArgumentValueError(
                f"vmap: Got in_dim={dims} for an input of dimensionality {value.ndim}"
            )
        sizes.append(value.shape[dims])


def _sliced(value: Any, dims: Any, index: int) -> Any:
    parts = _parts(value, dims)
    if parts is None:
        sliced = isinstance(value, Tensor) and dims is not None
        return select(value, dims, index) if sliced else value
    return _like(value, [_sliced(part, dim, index) for _, part, dim in parts])


def _like(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, dict):
        return type(value)(zip(value, parts, strict=True))
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _stacked(rows: list[Any], dims: Any) -> Any:
    first = rows[0]
    parts = _parts(first, dims)
    if parts is not None:
        return _like(first, [_stacked([row[key] for row in rows], dim) for key, _, dim in parts])
    if not isinstance(first, Tensor):
        raise ArgumentValueError(
            f"vmap: the function must only return Tensors, got type {type(first).__name__}"
        )
    if dims is None:
        return first
    return stack(rows, dims)
