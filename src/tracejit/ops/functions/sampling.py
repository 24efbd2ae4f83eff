"""Random tensors: rand, randn, randint, bernoulli, multinomial, dropout and the in-place fills."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ...device import index_of
from ...dtypes import DType
from ...meta import META
from ...varying import is_varying
from .. import comparison as c
from .. import elementwise as e
from .. import limits, shapes
from .. import ordering as o
from .. import random as source
from .. import reduction as r
from .. import transcendental as t
from ..complex_numbers import complex_of_parts
from ..keys import making_on, next_key
from ..source import full
from ..table import function
from .common import (
    Tensor,
    as_type,
    check_tensor,
    default_index,
    is_tensor,
    place_of,
    refuse,
    settle,
    shape_of,
    with_zero_gradient,
)
from .draw_bounds import refuse_bounds
from .factories import made
from .value_checks import are_shares, hold_everywhere


def _drawn(op: Any, generator: Any, near: Any, **attributes: Any) -> Tensor:
    """One draw of a source, on a device or where the tensor ``near`` lies (None: on the host)."""
    where = place_of(near, None) if is_tensor(near) else near
    number = default_index() if where is None else index_of(where)
    if number == META:
        with making_on(META):
            kind = attributes.get("dtype", dtypes.int64)
            made: Tensor = full(shape=attributes["shape"], value=0, dtype=kind)
        return made
    if number < 0:
        key, index = next_key(generator)
        return op(key, index=index, **attributes)
    with making_on(number):
        key, index = next_key(generator)
        result = op(key, index=index, **attributes)
    return settle(result, where)


def draw_uniform(shape: tuple[int, ...], dtype: DType, generator: Any, near: Any = None) -> Tensor:
    """One draw of uniform numbers in [0, 1), of both parts of complex ones.

    ``near`` is a device, or a tensor to be beside.
    """
    if dtype.is_complex:
        return complex_of_parts(draw_uniform((*shape, 2), dtype.to_real(), generator, near))
    return _drawn(source.random_uniform, generator, near, shape=shape, dtype=dtype)


def draw_normal(shape: tuple[int, ...], dtype: DType, generator: Any, near: Any = None) -> Tensor:
    """One draw of standard normal numbers; complex ones have a variance of one too.

    ``near`` is a device, or a tensor to be beside.
    """
    if dtype.is_complex:
        parts = draw_normal((*shape, 2), dtype.to_real(), generator, near)
        return complex_of_parts(e.mul(parts, math.sqrt(0.5)))
    return _drawn(source.random_normal, generator, near, shape=shape, dtype=dtype)


def draw_integers(
    shape: tuple[int, ...], low: int, high: int, dtype: DType, generator: Any, near: Any = None
) -> Tensor:
    """One draw of integers in [low, high); ``near`` is a device, or a tensor to be beside."""
    bits = _drawn(source.random_bits, generator, near, shape=shape)
    inside = e.remainder(bits, high - low) if high - low < 1 << 63 else bits
    return as_type(e.add(inside, low) if low else inside, dtype)


def _sized(sizes: tuple[Any, ...], dtype: Any) -> tuple[tuple[int, ...], DType]:
    shape = shapes.size_arguments(sizes) if sizes else ()
    shapes.refuse_negative(shape)
    return shape, dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


@function(method=False)
def rand(
    *size: Any,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1).

    Raises ``RuntimeError`` for integer dtypes and negative sizes.

    >>> import tracejit as tj
    >>> x = tj.rand(1000)
    >>> bool(((x >= 0) & (x < 1)).all())
    True
    """
    shape, kind = _sized(size, dtype)
    return made(draw_uniform(shape, kind, generator, device), requires_grad, device)


@function(method=False)
def randn(
    *size: Any,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal numbers.

    >>> import tracejit as tj
    >>> tj.randn(2, 3).shape
    tracejit.Size([2, 3])
    """
    shape, kind = _sized(size, dtype)
    return made(draw_normal(shape, kind, generator, device), requires_grad, device)


@function(method=False)
def randint(
    low: int = 0,
    high: Any = None,
    size: Sequence[int] | None = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high), or ``randint(high, size)`` from zero; int64 unless ``dtype`` says otherwise.

    Raises ``RuntimeError`` when the range is empty, or beyond the dtype.

    >>> import tracejit as tj
    >>> x = tj.randint(2, 5, (100,))
    >>> int(x.min()) >= 2, int(x.max()) < 5
    (True, True)
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if isinstance(size, int):
        raise TypeError("randint(): argument 'size' must be tuple of ints, not int")
    shape, kind = _sized((size,), dtypes.int64 if dtype is None else dtype)
    refuse("randint", kind, "complex")
    refuse_bounds(low, high, kind)
    drawn = draw_integers(shape, _bound(low), _bound(high), kind, generator, device)
    return made(drawn, requires_grad, device)


def _bound(number: Any) -> int:
    """A bound as a whole number; one that varies from call to call as it is."""
    varies = is_varying(number) and isinstance(number, int)
    return number if varies else shapes.whole(number)


@function(method=False)
def randperm(
    n: int,
    *,
    generator: Any = None,
    dtype: Any = dtypes.int64,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The integers 0 to ``n - 1`` in random order.

    >>> import tracejit as tj
    >>> tj.randperm(5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    (size,), kind = _sized((n,), dtype)
    refuse("randperm", kind, "bool complex")
    bits = _drawn(source.random_bits, generator, device, shape=(size,))
    order = o.argsort(bits, dim=0, descending=False)
    return made(as_type(order, kind), requires_grad, device)


def _like(name: str, draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def like(
        input: Tensor,
        *,
        generator: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        check_tensor(name, input)
        shape, kind = _sized((shape_of(input),), input.dtype if dtype is None else dtype)
        place = place_of(input, device)
        return made(draw(shape, kind, generator, place), requires_grad, place)

    like.__name__ = name
    like.__doc__ = (
        f"``{name[:-5]}`` in the shape and dtype of ``input``.\n\n"
        f">>> import tracejit as tj\n>>> tj.{name}(tj.ones(2)).shape\ntracejit.Size([2])\n"
    )
    return like


function(method=False)(_like("rand_like", draw_uniform))
function(method=False)(_like("randn_like", draw_normal))


@function(method=False)
def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Integers in [low, high) in the shape and dtype of ``input``.

    >>> import tracejit as tj
    >>> tj.randint_like(tj.ones(2), 5).shape
    tracejit.Size([2])
    """
    low, high = (0, low) if high is None else (low, high)
    return randint(
        low,
        high,
        shape_of(input),
        generator=generator,
        dtype=input.dtype if dtype is None else dtype,
        device=place_of(input, device),
        requires_grad=requires_grad,
    )


@function(method=False)
def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers of given means and standard deviations (tensors, or numbers with ``size``). Gradients are zero.

    Raises ``RuntimeError`` for a negative standard deviation.

    >>> import tracejit as tj
    >>> tj.normal(tj.zeros(3), 1.0).shape
    tracejit.Size([3])
    """
    check_std(std)
    given = [shape_of(x) for x in (mean, std) if is_tensor(x)]
    shape = shapes.broadcast("normal", given) if given else shapes.size_arguments((size or (),))
    like = next((x.dtype for x in (mean, std) if is_tensor(x)), dtypes.get_default_dtype())
    kind = like if dtype is None else dtypes.as_dtype(dtype)
    # Without tensors and a device on the host: PyTorch's does not ask for the device of new tensors.
    place = "cpu" if device is None else device
    near = next((x for x in (mean, std) if is_tensor(x) and shape_of(x)), place)
    noise = draw_normal(shape, kind, generator, near)
    spread, middle = (e.detach_copy(x) if is_tensor(x) else x for x in (std, mean))
    drawn = e.add(e.mul(noise, spread), middle)
    drawn = with_zero_gradient(with_zero_gradient(drawn, mean), std)
    return drawn.requires_grad_(True) if requires_grad else drawn


def check_std(std: Any) -> None:
    """Raise ``RuntimeError`` for standard deviations that are negative, or no numbers, or complex."""
    if not is_tensor(std):
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    elif std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    elif not hold_everywhere(lambda: c.ge(std, 0), near=std):
        raise RuntimeError("normal expects all elements of std >= 0.0")


@function()
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """One with the probability in ``input`` (or ``p``), else zero.

    Raises ``RuntimeError`` for integers and when ``p`` is not in [0, 1].

    >>> import tracejit as tj
    >>> tj.bernoulli(tj.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None and not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    kind = input.dtype
    if not kind.is_floating_point:
        if p is None:
            refuse("bernoulli_tensor_cpu_p_", kind, "bool int complex")
        return as_type(coin(shape_of(input), dtypes.float32, p, generator, input), kind)
    chance = input if p is None else p
    return with_zero_gradient(
        as_type(coin(shape_of(input), kind, chance, generator, input), kind), input
    )


def coin(shape: tuple[int, ...], dtype: DType, p: Any, generator: Any, near: Any = None) -> Tensor:
    """True with probability ``p``, drawn where ``near`` lies; half precision compares finer numbers than it holds."""
    fine = dtypes.float32 if dtype.itemsize == 2 else dtype
    drawn = draw_uniform(shape, fine, generator, near)
    if is_tensor(p) and not are_shares(p):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    return c.lt(drawn, e.detach_copy(p) if is_tensor(p) else p)


@function()
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Tensor:
    """Positions drawn by the weights in ``input``, a vector or rows.

    Raises ``RuntimeError`` for integers, and when more are asked for than there are, without replacement.

    >>> import tracejit as tj
    >>> tj.multinomial(tj.tensor([0.0, 3.0, 0.0]), 1)
    tensor([1])
    """
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input.dtype.title}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    last = input.ndim - 1
    count = shape_of(input)[last]
    if count > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if not replacement and num_samples > count:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    weights = e.detach_copy(as_type(input, dtypes.float64))
    _refuse_weights(weights)
    if not replacement:
        keys = e.div(
            t.log1p(e.neg(draw_uniform(shape_of(input), dtypes.float64, generator, input))), weights
        )
        return o.leading(keys, dim=last, count=num_samples, descending=True)
    totals = o.cumsum(weights, dim=last)
    whole = r.sum(weights, dims=(last,), keepdim=True)
    u = draw_uniform((*shape_of(input)[:last], num_samples), dtypes.float64, generator, input)
    found = o.search_sorted(totals, e.mul(u, whole), right=True)
    return e.minimum(found, count - 1)


def _refuse_weights(weights: Tensor) -> None:
    """Raise ``RuntimeError`` unless all rows are finite, not negative and have something to draw."""
    if not weights.spec.numel or weights.is_cuda:  # there it would have to wait
        return
    whole = r.sum(weights, dims=(weights.ndim - 1,), keepdim=True)
    sound = c.logical_and(c.logical_and(c.ge(weights, 0), c.isfinite(whole)), c.gt(whole, 0))
    if builtins.bool(sound.all()):
        return
    if builtins.bool(c.logical_and(c.isfinite(weights), c.ge(weights, 0)).all()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")


# --- dropout ------------------------------------------------------------------------------------


# --- fills --------------------------------------------------------------------------------------


def exponential(
    shape: tuple[int, ...], dtype: DType, rate: float, generator: Any, near: Any = None
) -> Tensor:
    """``-log(1 - u) / rate``, never zero, drawn where ``near`` lies."""
    fine = dtypes.float32 if dtype.itemsize == 2 else dtype
    u = draw_uniform(shape, fine, generator, near)
    positive = limits.clamp_min(e.neg(t.log1p(e.neg(u))), 1.1754943508222875e-38)
    return as_type(e.div(positive, rate), dtype)
