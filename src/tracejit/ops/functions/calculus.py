"""Integrals and slopes of sampled functions; covariances of sampled variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...errors import ShapeError
from .. import complex_numbers as cx
from .. import elementwise as e
from .. import limits
from .. import movement as m
from .. import ordering as o
from .. import reduction as r
from .. import transcendental as t
from ..linear_algebra import adjoint
from ..promotion import UnsupportedDtypeError
from ..table import alias, function
from .common import Number, Tensor, as_type, dim_of, is_tensor, promoted, shape_of
from .joining import cat
from .matrices import matmul
from .slicing import select, slice_along


def _areas(y: Tensor, x: Tensor | None, dx: Number, d: int) -> Tensor:
    """The trapezoids between neighbours along ``d``."""
    n = max(shape_of(y)[d] - 1, 0)
    first = min(1, shape_of(y)[d])
    doubled = e.add(slice_along(y, d, 0, n), slice_along(y, d, first, n))
    if x is None:
        return e.mul(doubled, dx / 2)
    along = d if x.ndim == y.ndim else 0
    if shape_of(x)[along] != shape_of(y)[d]:
        raise ShapeError(
            "trapezoid: There must be one `x` value for each sample point, but got "
            f"{shape_of(x)[along]} and {shape_of(y)[d]}"
        )
    widths = e.sub(slice_along(x, along, first, n), slice_along(x, along, 0, n))
    if x.ndim == 1:
        widths = m.reshape(widths, shape=tuple(n if i == d else 1 for i in range(y.ndim)))
    return e.div(e.mul(doubled, widths), 2.0)


@function(method=False, large=True)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1.0, dim: int = -1) -> Tensor:
    """The integral of samples ``y`` along ``dim`` by trapezoids, at ``x`` or ``dx`` apart.

    Raises ``RuntimeError`` when ``x`` has another number of samples.

    >>> import tracejit as tj
    >>> tj.trapezoid(tj.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    d = dim_of(dim, y)
    if x is not None or not shape_of(y)[d]:
        return r.sum(_areas(y, x, dx, d), dims=(d,), keepdim=False)
    ends = e.add(select(y, d, 0), select(y, d, -1))
    return e.mul(e.sub(r.sum(y, dims=(d,), keepdim=False), e.mul(ends, 0.5)), dx)


@function(method=False, large=True)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number = 1.0, dim: int = -1
) -> Tensor:
    """The integral up to each sample but the first.

    >>> import tracejit as tj
    >>> tj.cumulative_trapezoid(tj.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    d = dim_of(dim, y)
    return o.cumsum(_areas(y, x, dx, d), dim=d)


@function(method=False)
def gradient(
    input: Tensor,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Slopes along each of ``dim`` by central differences, one-sided of ``edge_order`` at the ends.

    ``spacing`` is a number, one per dimension, or a vector of positions per dimension. Raises ``RuntimeError`` for
    dimensions with too few samples.

    >>> import tracejit as tj
    >>> tj.gradient(tj.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    if input.dtype is dtypes.uint8:
        raise UnsupportedDtypeError("tracejit.gradient does not support uint8 input.")
    spacing = 1 if spacing is None else spacing
    if edge_order not in (1, 2):
        raise RuntimeError("gradient only supports edge_order=1 and edge_order=2.")
    dims = [dim] if isinstance(dim, int) else list(range(input.ndim)) if dim is None else list(dim)
    steps = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(
            f"gradient expected spacing to be unspecified, a scalar or a list of length {len(dims)}"
        )
    places = [dim_of(d, input) for d in dims]
    for d in places:
        if places.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(
        _slope(input, dim_of(d, input), step, edge_order)
        for d, step in zip(dims, steps, strict=True)
    )


def _slope(x: Tensor, d: int, spacing: Any, order: int) -> Tensor:
    n = shape_of(x)[d]
    if n < order + 1:
        raise RuntimeError("gradient expected each dimension size to be at least edge_order+1")
    if is_tensor(spacing) and spacing.ndim == 0:
        spacing = spacing.item()
    if not is_tensor(spacing):
        positions = None
        gaps: Any = None
    else:
        positions = as_type(spacing, promoted(spacing, x)).reshape(
            tuple(-1 if i == d else 1 for i in range(x.ndim))
        )
        gaps = e.sub(slice_along(positions, d, 1, n - 1), slice_along(positions, d, 0, n - 1))
    rises = e.sub(slice_along(x, d, 1, n - 1), slice_along(x, d, 0, n - 1))
    slopes = e.div(rises, spacing if gaps is None else gaps)
    if (
        gaps is None
    ):  # the neighbours' difference: the sum of two slopes is NaN beside an infinite number
        rise = e.sub(slice_along(x, d, 2, n - 2), slice_along(x, d, 0, n - 2))
        inner = e.div(rise, 2 * spacing)
    else:
        before, after = slice_along(gaps, d, 0, n - 2), slice_along(gaps, d, 1, n - 2)
        left, right = e.div(after, e.add(before, after)), e.div(before, e.add(before, after))
        first, last = slice_along(slopes, d, 0, n - 2), slice_along(slopes, d, 1, n - 2)
        inner = e.add(e.mul(first, left), e.mul(last, right))
    ends = []
    for edge in (0, n - 2):
        slope = slice_along(slopes, d, edge, 1)
        if order == 2:
            inward = slice_along(slopes, d, 1 if edge == 0 else n - 3, 1)
            near = 1.0 if gaps is None else slice_along(gaps, d, edge, 1)
            far = 1.0 if gaps is None else slice_along(gaps, d, 1 if edge == 0 else n - 3, 1)
            share = near / (near + far)
            slope = e.add(slope, e.mul(e.sub(slope, inward), share))
        ends.append(slope)
    return cat([ends[0], inner, ends[1]], d)


@function()
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of variables (rows) over observations (columns).

    ``fweights`` are whole numbers of repetitions, ``aweights`` the importance of observations. Raises ``RuntimeError``
    for more than two dimensions and weights that do not fit.

    >>> import tracejit as tj
    >>> tj.cov(tj.tensor([[0.0, 2.0], [2.0, 0.0]]))
    tensor([[ 2., -2.],
            [-2.,  2.]])
    """
    if input.dtype is dtypes.bool_:
        raise UnsupportedDtypeError("cov(): bool dtype is not supported for input")
    if input.ndim > 2:
        raise ShapeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    x = m.reshape(input, shape=(1, input.spec.numel)) if input.ndim < 2 else input
    _check_weights(x, fweights=fweights, aweights=aweights)
    weights = fweights
    if aweights is not None:
        weights = aweights if weights is None else e.mul(weights, aweights)
    count = shape_of(x)[1]
    total: Any = count if weights is None else r.sum(weights, dims=(0,), keepdim=False)
    weighted = x if weights is None else e.mul(x, weights)
    centred = e.sub(x, e.div(r.sum(weighted, dims=(1,), keepdim=True), total))
    scaled = centred if weights is None else e.mul(centred, weights)
    free = _freedom(total, correction, fweights, aweights)
    found = e.div(matmul(scaled, adjoint(centred)), free)
    return m.reshape(found, shape=()) if shape_of(x)[0] == 1 else found


def _check_weights(x: Tensor, **given: Tensor | None) -> None:
    """``RuntimeError`` unless weights are vectors, one number per observation, repetitions whole numbers."""
    for name, weights in given.items():
        if weights is None:
            continue
        whole = name == "fweights"
        if weights.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
            )
        if (weights.dtype.category == "int") is not whole:
            wanted = "integral" if whole else "floating point"
            raise RuntimeError(
                f"cov(): expected {name} to have {wanted} dtype but got {name} with {weights.dtype.title} dtype"
            )
        if bool((weights < 0).any()):
            raise RuntimeError(f"cov(): {name} cannot be negative")
        if weights.spec.numel != shape_of(x)[1]:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{weights.spec.numel} != {shape_of(x)[1]}"
            )


def _freedom(total: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    if aweights is not None and correction:
        squares = aweights if fweights is None else e.mul(aweights, fweights)
        share = e.div(r.sum(e.mul(squares, aweights), dims=(0,), keepdim=False), total)
        return limits.clamp_min(e.sub(total, e.mul(share, correction)), 0)
    return (
        max(total - correction, 0)
        if isinstance(total, int)
        else limits.clamp_min(e.sub(total, correction), 0)
    )


@function()
def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of variables (rows) over observations (columns).

    >>> import tracejit as tj
    >>> tj.corrcoef(tj.tensor([[0.0, 2.0], [2.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    covariances = cov(input)
    if not covariances.ndim:
        return e.div(covariances, covariances)
    deviations = t.sqrt(m.diagonal(covariances, offset=0, dim1=0, dim2=1))
    scaled = e.div(e.div(covariances, m.unsqueeze(deviations, dims=(1,))), deviations)
    if scaled.dtype.is_complex:  # each part by itself
        return cx.complex_of_parts(limits.clamp_between(cx.parts_of_complex(scaled), -1.0, 1.0))
    return limits.clamp_between(scaled, -1.0, 1.0)


alias("trapz", trapezoid, method=False)
