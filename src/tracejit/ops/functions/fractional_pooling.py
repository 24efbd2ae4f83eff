"""Max pooling to a given size or share of the input, windows placed at random (Graham, 2014)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ...errors import ArgumentValueError, ShapeError
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import source as s
from ..leaning import leaned
from ..precision import full_precision
from ..shapes import numel
from ..table import function
from .common import Tensor, as_type, require_float, shape_of
from .extremes import argmax
from .sampling import draw_uniform
from .spatial import Shape, Sizes, batched, per_dim, unbatched

Share = float | Sequence[float] | None


def _size(name: str, x: Tensor, kernel: Shape, size: Any, ratio: Share) -> Shape:
    own, rank = shape_of(x)[2:], len(kernel)
    if size is None and ratio is None:
        raise ArgumentValueError(
            f"{name} requires specifying either an output_size or an output_ratio"
        )
    if size is None:
        shares: Any = ratio if isinstance(ratio, (tuple, list)) else (ratio,) * rank
        size = tuple(int(n * share) for n, share in zip(own, shares, strict=True))
    wanted = per_dim(name, "output_size", size, rank)
    if any(n < 1 or n + k - 1 > full for n, k, full in zip(wanted, kernel, own, strict=True)):
        raise ShapeError(
            f"{name}: pool size {list(kernel)} and output size {list(wanted)} do not fit into {list(own)}"
        )
    return wanted


def _starts(noise: Tensor, full: int, size: int, kernel: int) -> Tensor:
    """Where windows begin along one dimension, (samples, channels, size): pseudo-random steps that end at the end."""
    last = full - kernel
    step = last / max(size - 1, 1)
    place = s.arange(start=0, step=1, count=size, dtype=dtypes.int64)
    noise = m.unsqueeze(noise, dims=(2,))
    moved = e.mul(e.add(as_type(place, noise.dtype), noise), step)
    first = as_type(e.mul(noise, step), dtypes.int64)
    starts = e.sub(as_type(moved, dtypes.int64), first)
    return e.where(place == size - 1, last, starts)


def _pooled(
    rank: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Any,
    output_ratio: Share,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    require_float(name, input)
    x, alone = batched(name, input, rank)
    kernel = per_dim(name, "kernel_size", kernel_size, rank)
    sizes, own = _size(name, x, kernel, output_size, output_ratio), shape_of(x)[2:]
    lead = shape_of(x)[:2]
    if samples is None:
        samples = draw_uniform((*lead, rank), x.dtype, None, x)
    samples = samples[: lead[0]]  # a single input may come with the numbers of a batch
    places: Any = 0
    for d in range(rank):
        # In two dimensions the first number is the one of the columns, as in PyTorch.
        noise = samples[..., rank - 1 - d if rank == 2 else d]
        starts = _starts(noise, own[d], sizes[d], kernel[d])
        inside = s.arange(start=0, step=1, count=kernel[d], dtype=dtypes.int64)
        at = e.add(m.unsqueeze(starts, dims=(3,)), inside)
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = sizes[d], kernel[d]
        at = m.reshape(at, shape=(*lead, *shape))
        places = e.add(e.mul(places, own[d]), at) if d else at
    count, within = numel(sizes), numel(kernel)
    places = m.reshape(places, shape=(*lead, count * within))
    flat = m.reshape(x, shape=(*lead, numel(own)))
    windows = m.reshape(leaned(ix.gather(flat, places, dim=2)), shape=(*lead, count, within))
    best = argmax(e.detach_copy(windows), -1, keepdim=True)
    values = m.reshape(ix.gather(windows, best, dim=3), shape=(*lead, *sizes))
    found = ix.gather(m.reshape(places, shape=(*lead, count, within)), best, dim=3)
    return unbatched(values, alone), unbatched(m.reshape(found, shape=(*lead, *sizes)), alone)


@function(method=False, within=full_precision)
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Any = None,
    output_ratio: Share = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows that lie at random places of (N, C, H, W) or (C, H, W), in order and up to the edge.

    The result has ``output_size``, or ``output_ratio`` times the size of the input. Raises ``RuntimeError`` when
    windows do not fit, ``ValueError`` when neither is given.

    >>> import tracejit as tj
    >>> tj.fractional_max_pool2d(tj.arange(9.0).reshape(1, 3, 3), 2, output_size=1)
    tensor([[[8.]]])
    """
    found = _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


@function(method=False, within=full_precision)
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Any = None,
    output_ratio: Share = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows that lie at random places of (N, C, D, H, W) or (C, D, H, W).

    Options and errors are those of :func:`fractional_max_pool2d`.

    >>> import tracejit as tj
    >>> tj.fractional_max_pool3d(tj.arange(8.0).reshape(1, 2, 2, 2), 1, output_ratio=0.5)
    tensor([[[[7.]]]])
    """
    found = _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


def _with_indices(rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """``fractional_max_pool{rank}d`` that tells where the maxima lie."""

    def pool(
        input: Tensor,
        kernel_size: Sizes,
        output_size: Any = None,
        output_ratio: Share = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return _pooled(rank, input, kernel_size, output_size, output_ratio, _random_samples)

    pool.__name__ = pool.__qualname__ = f"fractional_max_pool{rank}d_with_indices"
    pool.__doc__ = (
        f":func:`fractional_max_pool{rank}d`, and where in the input the maxima lie.\n\n"
        ">>> import tracejit as tj\n"
        f">>> x = tj.arange({3**rank}.0).reshape(1{', 3' * rank})\n"
        f">>> tj.{pool.__name__}(x, 2, output_size=1)[1].item()\n{3**rank - 1}\n"
    )
    return pool


for _rank in (2, 3):
    function(method=False)(_with_indices(_rank))
