"""Pooling to a given size, and the inverse of max pooling.

Result i along a dimension of n elements pools the elements from ``floor(i * n / size)`` up to ``ceil((i + 1) * n /
size)``. Where those runs are equally long they are windows; else they are first laid out side by side, filled up to the
longest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...errors import ArgumentError, ArgumentValueError, ShapeError
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import reduction as r
from .. import source as s
from ..precision import full_precision
from ..resampling import mix_along
from ..shapes import numel, refuse_vast
from ..table import function
from ..windows import Windows
from .common import Tensor, as_type, check_tensor, constant, require_float, shape_of, upcast
from .pooling_windows import largest_and_numbers, largest_of, positions_of, sums_of, windows_of
from .spatial import Shape, batched, per_dim, unbatched

Runs = list[range]


def _runs(n: int, size: int) -> Runs:
    return [range(i * n // size, -(-(i + 1) * n // size)) for i in range(size)]


def _sizes(name: str, output_size: Any, x: Tensor) -> Shape:
    own = shape_of(x)[2:]
    given = (
        tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * len(own)
    )
    if len(given) != len(own):
        raise ShapeError(f"{name}: output_size must be {len(own)}")
    if len(own) == 1 and given[0] is None:
        raise ArgumentError(
            f"{name}(): argument 'output_size' (position 2) must be tuple of ints, not NoneType"
        )
    size = tuple(n if want is None else want for n, want in zip(own, given, strict=True))
    if any(n < 0 for n in size):
        raise ShapeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {size}"
        )
    refuse_vast((*shape_of(x)[:2], *size), x.dtype.itemsize)
    for d, n in enumerate(own):
        if n == 0:
            raise ShapeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input "
                f"has sizes {list(shape_of(x))} with dimension {d + 2} being empty"
            )
    return size


def _even(own: Shape, size: Shape) -> bool:
    return all(want and n % want == 0 for n, want in zip(own, size, strict=True))


def _tiles(kernel: Shape) -> Windows:
    """Windows that lie side by side."""
    return Windows(kernel, kernel, ((0, 0),) * len(kernel), (1,) * len(kernel))


def _table(rows: Sequence[Sequence[int]]) -> Tensor:
    flat = tuple(i for row in rows for i in row)
    return s.literal(values=flat, shape=(len(flat),), dtype=dtypes.int64)


def _laid_out(x: Tensor, dim: int, runs: Runs) -> tuple[Tensor, int]:
    """The runs along ``dim`` one after the other, each as long as the longest, and that length.

    They are filled up by repeating their last elements.
    """
    longest = max((len(run) for run in runs), default=1)
    places = tuple(place for run in runs for place in (*run, *((run[-1],) * (longest - len(run)))))
    if places == tuple(range(x.shape[dim])):
        return x, longest
    return mix_along(x, dim=dim, places=(places,), weights=((1.0,) * len(places),)), longest


def _refuse_few_dimensions(x: Tensor, rank: int, size: Any) -> None:
    """Sizes in a sequence stand for the last dimensions, behind one of channels."""
    if rank > 1 and not isinstance(size, int) and x.ndim <= len(size):
        raise ArgumentValueError(f"Input dimension should be at least {len(size) + 1}")


def _adaptive_avg(rank: int, input: Tensor, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    check_tensor(name, input)
    _refuse_few_dimensions(input, rank, output_size)
    x, added = batched(name, input, rank)
    require_float(name, x)
    own, size = shape_of(x)[2:], _sizes(name, output_size, x)
    wide = upcast(x)
    if all(n == 1 for n in size) or not all(size):
        mean = e.div(r.sum(wide, dims=tuple(range(2, x.ndim)), keepdim=True), numel(own))
        if not all(size):
            mean = m.expand(mean, shape=(*shape_of(x)[:2], *size))
    elif _even(own, size):
        kernel = tuple(n // want for n, want in zip(own, size, strict=True))
        mean = e.div(sums_of(wide, _tiles(kernel)), numel(kernel))
    else:
        mean = _uneven_mean(wide, own, size)
    return unbatched(as_type(mean, x.dtype), added)


def _uneven_mean(x: Tensor, own: Shape, size: Shape) -> Tensor:
    """Runs of different lengths: the sums of those along one dimension after the other."""
    divisor, dtype = constant(1, x.dtype), x.dtype
    for axis, (n, want) in enumerate(zip(own, size, strict=True)):
        runs = _runs(n, want)
        x = _sums_of_runs(x, axis + 2, runs)
        shape = tuple(want if d == axis else 1 for d in range(len(size)))
        lengths = s.literal(values=tuple(len(run) for run in runs), shape=shape, dtype=dtype)
        divisor = e.mul(divisor, lengths)
    alone = _tiles(
        (1,) * len(size)
    )  # which makes the gradient hang on x, as that of other averages does
    return e.div(sums_of(x, alone), divisor)


def _sums_of_runs(x: Tensor, dim: int, runs: Runs) -> Tensor:
    """The sums of runs along ``dim``, of which some are shorter than others."""
    terms = range(max(map(len, runs)))
    places = tuple(tuple(run[t] if t < len(run) else -1 for run in runs) for t in terms)
    weights = tuple(tuple(float(place >= 0) for place in row) for row in places)
    return mix_along(x, dim=dim, places=places, weights=weights)


def _adaptive_max(rank: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"
    check_tensor(name, input)
    _refuse_few_dimensions(input, rank, output_size)
    x, added = batched(name, input, rank)
    require_float(name, x)
    own, size = shape_of(x)[2:], _sizes(name, output_size, x)
    if not all(size):
        shape = (*shape_of(x)[:2], *size)
        values, indices = constant(0, x.dtype, shape), constant(0, dtypes.int64, shape)
        return (values, indices) if return_indices else values
    runs = [_runs(n, want) for n, want in zip(own, size, strict=True)]
    kernel = []
    for axis in range(rank):
        x, longest = _laid_out(x, axis + 2, runs[axis])
        kernel.append(longest)
    windows = _tiles(tuple(kernel))
    if not return_indices:
        return unbatched(largest_of(x, windows), added)
    values, numbers = largest_and_numbers(x, windows)
    laid = positions_of(numbers, windows, shape_of(x)[2:])
    return unbatched(values, added), unbatched(_original(laid, runs, kernel, own), added)


def _original(laid: Tensor, runs: list[Runs], kernel: list[int], own: Shape) -> Tensor:
    """Flat positions in the runs laid out as flat positions in the tensor itself."""
    flat: Any = 0
    for axis in reversed(range(len(own))):
        extent = len(runs[axis]) * kernel[axis]
        place = laid if axis == 0 else e.remainder(laid, extent)
        laid = e.floor_divide(laid, extent)
        rows = [[*run, *[run[-1]] * (kernel[axis] - len(run))] for run in runs[axis]]
        own_place = ix.take(_table(rows), place, dim=0)
        flat = e.add(e.mul(own_place, numel(own[axis + 1 :])), flat)
    return flat


#: Those that autocast has computed in float32, as PyTorch lists them.
_FULL = (
    "adaptive_avg_pool3d",
    "adaptive_max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
)


def _describe(target: Any, name: str, text: str, example: str) -> Any:
    target.__name__ = target.__qualname__ = name
    target.__doc__ = f"{text}\n\n>>> import tracejit as tj\n{example}\n"
    return function(method=False, within=full_precision if name in _FULL else None)(target)


def _publish(rank: int) -> None:
    def average(input: Tensor, output_size: Any) -> Tensor:
        return _adaptive_avg(rank, input, output_size)

    def largest(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return _adaptive_max(rank, input, output_size, return_indices)

    def largest_with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        values, indices = _adaptive_max(rank, input, output_size, True)
        return values, indices

    def unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        return _unpool(rank, input, indices, kernel_size, stride, padding, output_size)

    ones = f"tj.ones({', '.join(['1'] + ['4'] * rank)})"
    about = (
        f"over {rank} spatial dimension{'s' * (rank > 1)} so that {'those have' if rank > 1 else 'it has'} "
        "extents ``output_size`` (None: as they are).\n\nRaises ``RuntimeError`` for empty input or sizes."
    )
    _describe(
        average,
        f"adaptive_avg_pool{rank}d",
        f"Means {about}",
        f">>> tj.adaptive_avg_pool{rank}d({ones}, 1).item()\n1.0",
    )
    _describe(
        largest,
        f"adaptive_max_pool{rank}d",
        f"Maxima {about}",
        f">>> tj.adaptive_max_pool{rank}d({ones}, 1).item()\n1.0",
    )
    _describe(
        largest_with_indices,
        f"adaptive_max_pool{rank}d_with_indices",
        f"Maxima and their positions {about}",
        f">>> tj.adaptive_max_pool{rank}d_with_indices({ones}, 1)[1].item()\n0",
    )
    _describe(
        unpool,
        f"max_unpool{rank}d",
        "Values put back where max pooling found them, zero elsewhere.\n\nRaises ``RuntimeError`` when "
        "shapes do not fit or a position is out of range.",
        f">>> pooled, where = tj.max_pool{rank}d({ones}, 2, return_indices=True)\n"
        f">>> tj.max_unpool{rank}d(pooled, where, 2).sum().item()\n{2.0**rank}",
    )


def _unpool(
    rank: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Tensor:
    name = f"max_unpool{rank}d"
    x, added = batched(name, input, rank)
    require_float(name, x)
    where, _ = batched(name, indices, rank)
    if shape_of(x) != shape_of(where):
        raise ShapeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(shape_of(x))}) but got indices tensor with shape: {list(shape_of(where))}"
        )
    counts = shape_of(x)[2:]
    windows = windows_of(name, counts, kernel_size, stride, padding, 1, False)
    size = windows.sizes(counts)
    if output_size is not None:
        wanted = tuple(output_size)[-rank:]
        size = _checked_size(per_dim(name, "output_size", wanted, rank), size, windows.stride)
    samples, channels = shape_of(x)[:2]
    flat = (samples, channels, numel(counts))
    zeros = constant(0, x.dtype, (samples, channels, numel(size)))
    put = ix.scatter(zeros, m.reshape(where, shape=flat), m.reshape(x, shape=flat), dim=2)
    return unbatched(m.reshape(put, shape=(samples, channels, *size)), added)


def _checked_size(wanted: Shape, default: Shape, stride: Shape) -> Shape:
    for n, usual, step in zip(wanted, default, stride, strict=True):
        if not usual - step < n < usual + step:
            raise ValueError(
                f"invalid output_size {wanted} (dim must be between {usual - step} and {usual + step})"
            )
    return wanted


for _rank in (1, 2, 3):
    _publish(_rank)
