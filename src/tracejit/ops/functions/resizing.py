"""Images at another resolution."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentValueError, ShapeError, warn
from ...extents import is_symbolic
from .. import elementwise as e
from .. import limits
from ..resampling import mix_along
from ..shapes import refuse_vast
from ..table import FUNCTIONS, function
from .common import Tensor, as_type, check_tensor, require_float, shape_of, upcast

Shape = tuple[int, ...]

#: The modes that weigh neighbours, and the spatial dimensions that they take.
_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
#: How far from the middle the filters reach that leave out what a smaller image cannot show.
_REACH = {"bilinear": 1, "bicubic": 2, "lanczos": 3}
_MODES = (
    "nearest",
    "linear",
    "bilinear",
    "bicubic",
    "trilinear",
    "lanczos",
    "area",
    "nearest-exact",
)


def _check_mode(x: Tensor, mode: str) -> None:
    """Is there such a mode for tensors of this rank?"""
    rank = _RANKS.get(mode, x.ndim - 2) + 2
    if mode in _MODES and 3 <= x.ndim <= 5 and x.ndim == rank:
        return
    if 3 <= x.ndim <= 5 and mode in ("linear", "bilinear", "trilinear"):
        raise NotImplementedError(f"Got {x.ndim}D input, but {mode} mode needs {rank}D input")
    raise NotImplementedError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported "
        f"(got {x.ndim}D) for the modes: {' | '.join(_MODES)} (got {mode})"
    )


def _check_antialias(x: Tensor, mode: str, antialias: bool, align_corners: bool | None) -> None:
    if antialias and (mode not in _REACH or x.ndim != 4):
        raise ArgumentValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
            "tensor as input"
        )
    if mode == "lanczos" and x.ndim == 4 and align_corners:
        raise ArgumentValueError("Lanczos mode does not support align_corners=True")
    if mode == "lanczos" and x.ndim == 4 and not antialias:
        raise ArgumentValueError("Lanczos mode requires antialias=True")


def _per_dim(name: str, value: Any, own: Shape, forms: tuple[str, str]) -> tuple[Any, ...]:
    """One of ``value`` for each spatial dimension."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * len(own)
    if len(given) != len(own):
        called, letters = forms
        raise ArgumentValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(own)} and {called} {value}. Please provide input tensor in "
            f"(N, C, d1, d2, ...,dK) format and {called.split(' of')[0]} in {letters} format."
        )
    return given


def _sizes(
    own: Shape, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[Shape, tuple[float | None, ...]]:
    """The extents of the result, and the scales to take positions by (None: what the extents give)."""
    if size is not None and scale_factor is not None:
        raise ArgumentValueError("only one of size or scale_factor should be defined")
    nothing = (None,) * len(own)
    if size is not None:
        wanted = _per_dim("output", size, own, ("output size of", "(o1, o2, ...,oK)"))
        if recompute:
            raise ArgumentValueError(
                "recompute_scale_factor is not meaningful with an explicit size."
            )
        return tuple(map(_whole, wanted)), nothing
    if scale_factor is None:
        raise ArgumentValueError("either size or scale_factor should be defined")
    forms = "scale_factor of shape", "(s1, s2, ...,sK)"
    scales = _per_dim("scale_factor", scale_factor, own, forms)
    wanted = tuple(
        n * int(f) if is_symbolic(n) and float(f).is_integer() else _floor(float(n) * f)
        for n, f in zip(own, scales, strict=True)
    )
    return wanted, nothing if recompute else tuple(map(float, scales))


def _floor(value: float) -> int:
    if not -(2.0**63) <= value < 2.0**63:
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return math.floor(value)


def _named(sizes: Shape) -> str:
    return ", ".join(f"{name}: {n}" for name, n in zip("DHW"[-len(sizes) :], sizes, strict=True))


def _whole(size: Any) -> int:
    """An extent of the result, which is no number with a fraction."""
    try:
        return operator.index(size)
    except TypeError:
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
            f"but got size with types {[type(size)]}"
        ) from None


@function(method=False, large=True)
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(N, C, *spatial) at another resolution, given as ``size`` or ``scale_factor``.

    ``mode`` is "nearest", "nearest-exact", "area", "linear" (3D), "bilinear", "bicubic" (4D) or "trilinear" (5D).
    With ``antialias`` the filter of "bilinear", "bicubic" or "lanczos" widens as the image shrinks.
    Raises ``ValueError`` for options that contradict each other, ``NotImplementedError`` for other modes and ranks.

    >>> import tracejit as tj
    >>> tj.interpolate(tj.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    >>> tj.interpolate(tj.tensor([[[1.0, 3.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1., 2., 3.]]])
    """
    check_tensor("interpolate", input)
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ArgumentValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | "
            "bicubic | trilinear"
        )
    wanted, scales = _sizes(shape_of(input)[2:], size, scale_factor, recompute_scale_factor)
    return resized(input, wanted, scales, mode, align_corners, antialias)


def resized(
    input: Tensor,
    wanted: Shape,
    scales: tuple[float | None, ...],
    mode: str,
    align_corners: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """:func:`interpolate` to extents, with positions by ``scales`` where they are not None."""
    own = shape_of(input)[2:]
    _check_antialias(input, mode, antialias, align_corners)
    _check_mode(input, mode)
    if any(n < 1 for n in (*own, *wanted)) and mode != "area":
        raise ShapeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({_named(own)}) output ({_named(wanted)})"
        )
    refuse_vast((*shape_of(input)[:2], *wanted), input.dtype.itemsize)
    if input.dtype is not dtypes.uint8 or mode in ("linear", "trilinear"):
        require_float(f"upsample_{mode}", input)
    if mode == "area":
        result: Tensor = FUNCTIONS[f"adaptive_avg_pool{len(own)}d"](input, wanted)
        return result
    in_bytes = input.dtype is dtypes.uint8
    x = input if mode.startswith("nearest") else _wide(input)
    axes = list(enumerate(zip(own, wanted, scales, strict=True)))
    for axis, (n, want, scale) in reversed(axes) if antialias or in_bytes else axes:
        if mode.startswith("nearest"):
            x = _nearest(x, axis + 2, n, want, scale, mode == "nearest-exact")
        elif n != want or not (align_corners or scale in (None, 1.0)):
            kind: Any = x.dtype.np.type
            taps = _taps(n, want, scale, mode, bool(align_corners), antialias, kind)
            x = _weighted(x, axis + 2, _fixed_point(taps) if in_bytes else taps)
            if in_bytes:  # rounded after each pass
                x = limits.clamp_between(e.floor(e.add(x, 0.5)), 0, 255)
    return e.clone(x) if x is input else as_type(x, input.dtype)


def _wide(x: Tensor) -> Tensor:
    if x.dtype is dtypes.uint8:  # whose sums of products are whole numbers below 2**53
        return as_type(x, dtypes.float64)
    return upcast(x) if x.dtype.is_floating_point else as_type(x, dtypes.float32)


#: Positions and weights of every result: those of the first tap, those of the second one, ...
Taps = list[tuple[list[int], list[Any]]]


def _taps(
    n: int,
    want: int,
    scale: float | None,
    mode: str,
    align: bool,
    antialias: bool,
    kind: Any,
) -> Taps:
    if antialias:
        return _filter_taps(n, want, float(_step(n, want, scale, align, kind)), mode)
    source = _positions(n, want, scale, align, kind)
    if mode == "bicubic":
        return _cubic_taps(n, source, kind)
    low = [min(int(max(p, 0)), n - 1) for p in source]
    share = [
        min(max(max(p, kind(0)) - kind(i), kind(0)), kind(1))
        for p, i in zip(source, low, strict=True)
    ]
    high = [min(i + 1, n - 1) for i in low]
    return [(low, [kind(1) - w for w in share]), (high, share)]


def _fixed_point(taps: Taps) -> Taps:
    """Weights in units of the largest 2**-p, p up to 22, in which all fit 16 bits: as images of bytes are resized."""
    windows: list[dict[int, float]] = [{} for _ in taps[0][0]]
    for places, weights in taps:  # an element that stands several times has one weight
        for window, place, weight in zip(windows, places, weights, strict=True):
            window[place] = window.get(place, 0.0) + float(weight)
    largest = max(max(window.values()) for window in windows)
    bits = next((p for p in range(22) if int(0.5 + largest * 2 ** (p + 1)) >= 2**15), 22)
    for window in windows:
        for place, weight in window.items():
            window[place] = int(weight * 2**bits + math.copysign(0.5, weight)) / 2**bits
    return [
        (
            places,
            [window.pop(place, 0.0) for window, place in zip(windows, places, strict=True)],
        )
        for places, _ in taps
    ]


def _step(n: int, want: int, scale: float | None, align: bool, kind: Any) -> Any:
    """How many elements lie between results."""
    if align:
        return kind(n - 1) / kind(want - 1) if want > 1 else kind(0)
    return kind(1.0 / scale) if scale else kind(n) / kind(want)


def _positions(n: int, want: int, scale: float | None, align: bool, kind: Any) -> list[Any]:
    """Where each result lies among the elements, in the precision of the tensor."""
    step = _step(n, want, scale, align, kind)
    if align:
        return [kind(i) * step for i in range(want)]
    return [step * (kind(i) + kind(0.5)) - kind(0.5) for i in range(want)]


def _weighted(x: Tensor, dim: int, taps: Taps) -> Tensor:
    """The sum of elements along ``dim`` at the given positions times weights."""
    return mix_along(
        x,
        dim=dim,
        places=tuple(tuple(places) for places, _ in taps),
        weights=tuple(tuple(map(float, weights)) for _, weights in taps),
    )


def _cubic_taps(n: int, source: list[Any], kind: Any) -> Taps:
    """Convolution with Keys' kernel, a = -0.75 (Keys, 1981); the border is repeated."""
    floors = [math.floor(p) for p in source]
    shares = [p - kind(i) for p, i in zip(source, floors, strict=True)]
    taps = []
    for offset in range(-1, 3):
        places = [min(max(i + offset, 0), n - 1) for i in floors]
        taps.append((places, [_keys(abs(t - kind(offset))) for t in shares]))
    return taps


def _filter_taps(n: int, want: int, step: float, mode: str) -> Taps:
    """Averages weighted by a filter, which is as wide as results are apart where they are fewer than elements."""
    wide = max(step, 1.0)
    reach = _REACH[mode] * wide
    windows = []
    for i in range(want):
        middle = step * (i + 0.5)
        first = max(int(middle - reach + 0.5), 0)
        places = list(range(first, max(min(int(middle + reach + 0.5), n), first + 1)))
        weights = [_weight_at(mode, abs(at - middle + 0.5) / wide) for at in places]
        total = sum(weights) or 1.0
        windows.append((places, [w / total for w in weights]))
    most = max(len(places) for places, _ in windows)
    for places, weights in windows:  # of one length: the last element several times
        times = most - len(places) + 1
        places += places[-1:] * (times - 1)
        weights[-1:] = [weights[-1] / times] * times
    return [([p[k] for p, _ in windows], [w[k] for _, w in windows]) for k in range(most)]


def _weight_at(mode: str, distance: float) -> float:
    """A filter at a distance from its middle: a triangle, Keys' with a = -0.5, or a sinc in the window of another."""
    if distance >= _REACH[mode]:
        return 0.0
    if mode == "bilinear":
        return 1.0 - distance
    if mode == "bicubic":
        return float(_keys(distance, -0.5))
    angle = math.pi * distance
    return 3 * math.sin(angle) * math.sin(angle / 3) / (angle * angle) if distance else 1.0


def _keys(distance: Any, a: float = -0.75) -> Any:
    a = type(distance)(a)
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def _nearest(x: Tensor, dim: int, n: int, want: int, scale: float | None, exact: bool) -> Tensor:
    if n == want and scale in (None, 1.0):
        return x
    if is_symbolic(n) and scale in (2, 4, 8):  # whose positions follow from the form alone
        found: Tensor = FUNCTIONS["repeat_interleave"](x, int(scale), dim)
        return found
    if x.ndim == 4 and not exact and want in (n, 2 * n):  # images do not ask for the scale then
        scale = None
    step = np.float32(1.0 / scale) if scale else np.float32(n) / np.float32(want)
    shift = np.float32(0.5) if exact else np.float32(0)
    places = [min(int((np.float32(i) + shift) * step), n - 1) for i in range(want)]
    return mix_along(x, dim=dim, places=(tuple(places),), weights=((1.0,) * want,))


@function(method=False)
def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """What :func:`interpolate` was called, with a ``UserWarning``.

    >>> import tracejit as tj
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     tj.nn.functional.upsample(tj.ones(1, 1, 2), size=4).shape
    tracejit.Size([1, 1, 4])
    >>> [warning.category.__name__ for warning in found]
    ['UserWarning']
    """
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)
