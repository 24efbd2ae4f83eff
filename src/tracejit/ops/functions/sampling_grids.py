"""Images sampled at positions of a grid, and grids of affine maps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ... import dtypes
from ...errors import ArgumentValueError, DtypeError, ShapeError, warn
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import limits
from .. import movement as m
from .. import source as s
from ..precision import full_precision
from ..shapes import numel, refuse_vast
from ..table import alias, function
from .common import (
    Tensor,
    alone,
    as_type,
    check_tensor,
    require_float,
    shape_of,
    with_zero_gradient,
)
from .joining import stack
from .matrices import matmul
from .slicing import select

Shape = tuple[int, ...]
_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _check_grid(x: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    check_tensor("grid_sample", x)
    check_tensor("grid_sample", grid, "grid", 2)
    if mode not in _MODES:
        raise ArgumentValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but "
            f"got: '{mode}'"
        )
    if mode == "bicubic" and x.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if padding_mode not in _PADDINGS:
        raise ArgumentValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if x.dtype is not grid.dtype:
        raise DtypeError(f"expected scalar type {x.dtype.title} but found {grid.dtype.title}")
    shape, places = shape_of(x), shape_of(grid)
    if len(shape) not in (4, 5) or len(places) != len(shape) or places[-1] != len(shape) - 2:
        raise ShapeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions and the "
            f"positions last, but got input with sizes {list(shape)} and grid with sizes {list(places)}"
        )
    if shape[0] != places[0]:
        raise ShapeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(shape)} and grid with sizes {list(places)}"
        )


def _reflected(p: Tensor, low: float, high: float) -> Tensor:
    """Positions folded back into [low, high], as often as it takes."""
    span = high - low
    if span <= 0:
        return e.mul(p, 0.0)
    distance = e.abs(e.sub(p, low))
    turns = e.floor(e.div(e.detach_copy(distance), span))
    rest = e.sub(distance, e.mul(turns, span))
    even = c.eq(e.remainder(turns, 2.0), 0.0)
    return e.where(even, e.add(rest, low), e.sub(high, rest))


def _placed(grid: Tensor, n: int, padding_mode: str, align: bool) -> Tensor:
    """Positions of [-1, 1] as positions among ``n`` elements."""
    p = (
        e.mul(e.add(grid, 1.0), (n - 1) / 2)
        if align
        else e.div(e.sub(e.mul(e.add(grid, 1.0), n), 1.0), 2.0)
    )
    return _bounded(p, n, padding_mode, align)


def _bounded(p: Tensor, n: int, padding_mode: str, align: bool) -> Tensor:
    """Positions brought among ``n`` elements, except where zeros lie outside."""
    if padding_mode == "zeros":
        return p
    if padding_mode == "reflection":
        p = _reflected(p, 0.0, n - 1.0) if align else _reflected(p, -0.5, n - 0.5)
    return limits.clamp_max(limits.clamp_min(p, 0.0), n - 1.0)


def _aligned(name: str, align_corners: bool | None) -> bool:
    """Are the borders the middles of the outer pixels? A warning where nobody says."""
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            f"specify align_corners=True if the old behavior is desired. See the documentation of {name} for details."
        )
    return bool(align_corners)


@function(method=False, within=full_precision, large=True)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``input`` (N, C, *size) at the positions ``grid`` (N, *out, 2 or 3), x first, -1 and 1 being the borders.

    ``mode`` is "bilinear", "nearest" or, for images, "bicubic" (Keys, 1981, a = -0.75); ``padding_mode`` "zeros",
    "border" or "reflection" tells what lies outside.
    Raises ``ValueError`` for other modes, ``RuntimeError`` for shapes that do not fit.

    >>> import tracejit as tj
    >>> image = tj.arange(4.0).reshape(1, 1, 2, 2)
    >>> tj.grid_sample(image, tj.zeros(1, 1, 1, 2), align_corners=False).item()
    1.5
    """
    require_float("grid_sampler", input)
    _check_grid(input, grid, mode, padding_mode)
    align_corners = _aligned("grid_sample", align_corners)
    size = shape_of(input)[2:]
    rank, out = len(size), shape_of(grid)[1:-1]
    points = m.reshape(grid, shape=(shape_of(grid)[0], 1, numel(out), rank))
    places = []  # one after the other, whatever the shape of the result: so kernels do all of it at once
    for axis, n in enumerate(size):
        along = select(points, 3, rank - 1 - axis)
        bounds = (
            "zeros" if mode == "bicubic" else padding_mode
        )  # there, each of the taps is bounded
        places.append(_placed(along, n, bounds, bool(align_corners)))
    flat = m.reshape(input, shape=(*shape_of(input)[:2], numel(size)))
    if mode == "nearest":
        rounded = [as_type(e.round_half_even(p), dtypes.int64) for p in places]
        return _shaped(with_zero_gradient(_corner(flat, rounded, size, None), places[0]), out)
    if mode == "bicubic":
        taps = [
            _cubic_taps(p, n, padding_mode, bool(align_corners))
            for p, n in zip(places, size, strict=True)
        ]
    else:
        taps = [_linear_taps(p) for p in places]
    total: Any = None
    for corner in itertools.product(*taps):
        weight: Any = corner[0][1]
        for _, share in corner[1:]:
            weight = e.mul(weight, share)
        term = _corner(flat, [as_type(at, dtypes.int64) for at, _ in corner], size, weight)
        total = term if total is None else e.add(total, term)
    return _shaped(total, out)


def _shaped(points: Tensor, out: Shape) -> Tensor:
    return alone(m.reshape(points, shape=(*shape_of(points)[:2], *out)))


def _by_number(name: str) -> Callable[..., Tensor]:
    """:func:`grid_sample` with its modes as numbers, under ``name``."""

    def sample(
        input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> Tensor:
        mode, outside = _MODES[interpolation_mode], _PADDINGS[padding_mode]
        return grid_sample(input, grid, mode, outside, align_corners)

    sample.__name__ = sample.__qualname__ = name
    sample.__doc__ = (
        f":func:`grid_sample`, its modes numbers: of {', '.join(_MODES)}, and of {', '.join(_PADDINGS)}.\n\n"
        ">>> import tracejit as tj\n"
        f">>> tj.{name}(tj.ones(1, 1, {_ONES[name]}), 0, 0, False).flatten()\ntensor([1.])\n"
    )
    return sample


_ONES = {
    "grid_sampler": "2, 2), tj.zeros(1, 1, 1, 2",
    "grid_sampler_2d": "2, 2), tj.zeros(1, 1, 1, 2",
    "grid_sampler_3d": "2, 2, 2), tj.zeros(1, 1, 1, 1, 3",
}
for _name in _ONES:
    function(method=False)(_by_number(_name))


def _linear_taps(p: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The two neighbours of each position, with their weights."""
    low = e.floor(e.detach_copy(p))
    share = e.sub(p, low)
    return [(low, e.sub(1.0, share)), (e.add(low, 1), share)]


def _cubic_taps(p: Tensor, n: int, padding_mode: str, align: bool) -> list[tuple[Tensor, Tensor]]:
    """The four neighbours of each position, with their weights."""
    low = e.floor(e.detach_copy(p))
    share = e.sub(p, low)
    found = []
    for offset in (-1, 0, 1, 2):
        distance = e.abs(e.sub(share, offset))
        place = _bounded(e.add(low, offset), n, padding_mode, align)
        found.append((place, _keys(distance, offset in (0, 1))))
    return found


def _keys(d: Tensor, near: bool) -> Tensor:
    """Keys' kernel with a = -0.75 at distances up to 1 (``near``) or from 1 to 2."""
    a = -0.75
    if near:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0
    return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a


def _corner(flat: Tensor, index: list[Tensor], size: Shape, weight: Tensor | None) -> Tensor:
    """Elements at ``index`` times ``weight``; zero for those outside."""
    samples, channels = shape_of(flat)[:2]
    inside: Any = None
    place: Any = None
    for n, i in zip(size, index, strict=True):
        here = c.logical_and(c.ge(i, 0), c.lt(i, n))
        inside = here if inside is None else c.logical_and(inside, here)
        along = limits.clamp_max(limits.clamp_min(i, 0), n - 1)
        place = along if place is None else e.add(e.mul(place, n), along)
    rows = m.expand(place, shape=(samples, channels, shape_of(place)[2]))
    found = e.chosen(inside, ix.gather(flat, rows, dim=2), 0.0)
    return found if weight is None else e.mul(found, weight)


@function(method=False, large=True)
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid of affine maps ``theta`` (N, 2, 3) or (N, 3, 4) for images of ``size`` (N, C, *size).

    Raises ``ValueError`` when the shapes do not fit.

    >>> import tracejit as tj
    >>> tj.affine_grid(tj.eye(2, 3)[None], (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    check_tensor("affine_grid", theta, "theta")
    if not theta.dtype.is_floating_point:
        raise ArgumentValueError(
            f"Expected theta to have floating point type, but got {theta.dtype}"
        )
    align_corners = _aligned("affine_grid", align_corners)
    out = tuple(int(n) for n in size)[2:]
    rank = len(out)
    if rank not in (2, 3) or shape_of(theta)[1:] != (rank, rank + 1):
        raise ArgumentValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{list(size)}. Got {list(shape_of(theta))}."
        )
    refuse_vast((shape_of(theta)[0], *out, rank + 1), theta.dtype.itemsize)
    coordinates = []
    for axis in reversed(range(rank)):
        n = out[axis]
        steps = s.linspace_of(start=-1.0, end=1.0, count=n, dtype=theta.dtype)
        if n == 1:
            steps = e.mul(steps, 0.0)
        elif not align_corners:
            steps = e.mul(steps, (n - 1) / n)
        shape = tuple(n if d == axis else 1 for d in range(rank))
        coordinates.append(m.expand(m.reshape(steps, shape=shape), shape=out))
    ones = e.add(e.mul(coordinates[0], 0.0), 1.0)
    base = m.reshape(stack([*coordinates, ones], -1), shape=(1, numel(out), rank + 1))
    moved = matmul(base, m.permute(theta, dims=(0, 2, 1)))
    return m.reshape(moved, shape=(shape_of(theta)[0], *out, rank))


alias("affine_grid_generator", affine_grid, method=False)
