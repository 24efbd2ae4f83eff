"""Variants of layers: random slopes, responses normalised across channels, activations that overwrite their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ArgumentValueError
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import pooling as p
from ..table import function
from . import activations as a
from .common import Tensor, as_type, require_float, shape_of, upcast
from .sampling import draw_uniform


@function(method=False)
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``x`` above zero, ``slope * x`` below; slopes are drawn from [lower, upper) in training, else their mean.

    Raises ``RuntimeError`` where the bounds cross.

    >>> import tracejit as tj
    >>> tj.rrelu(tj.tensor([-2.0, 2.0]), 0.25, 0.75)
    tensor([-1.,  2.])
    """
    require_float("leaky_relu_cpu", input)
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    slope: Any = (lower + upper) / 2
    if training:
        drawn = draw_uniform(shape_of(input), input.dtype, None, input)
        slope = e.add(e.mul(drawn, upper - lower), lower)
    result = e.leaky(input, slope)
    return input._assign(result) if inplace else result


@function(method=False)
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels (dimensions 0 and 1).

    Raises ``ValueError`` when ``p`` is not in [0, 1].

    >>> import tracejit as tj
    >>> tj.feature_alpha_dropout(tj.ones(1, 2, 3), 0.5).sum()
    tensor(6.)
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    saturated = -1.7580993408473766
    shape = (*shape_of(input)[:2], *(1 for _ in shape_of(input)[2:]))
    keep = c.ge(draw_uniform(shape, upcast(input).dtype, None, input), p)
    scale = 0.0 if p == 1.0 else ((1 - p) * (1 + p * saturated**2)) ** -0.5
    shift = -scale * saturated * p
    result = e.add(e.mul(e.where(keep, input, saturated), scale), shift)
    return input._assign(result) if inplace else result


@function(method=False, large=True)
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``x / (k + alpha * mean of x**2 over size neighbouring channels)**beta`` for (N, C, *).

    Raises ``ValueError`` below three dimensions.

    >>> import tracejit as tj
    >>> tj.local_response_norm(tj.ones(1, 1, 1), 1, alpha=3.0)
    tensor([[[0.3536]]])
    """
    if input.ndim < 3:
        raise ArgumentValueError(
            f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
        )
    x = upcast(input)
    if not input.spec.numel:
        return input
    last = (0, *range(2, x.ndim), 1)
    squares = p.sum_windows(
        m.permute(e.square(x), dims=last),
        kernel=(size,),
        stride=(1,),
        padding=((size // 2, (size - 1) // 2),),
        dilation=(1,),
    )
    back = (0, x.ndim - 1, *range(1, x.ndim - 1))
    share = e.div if input.dtype.is_differentiable else e.floor_divide  # means of integers are some
    mean = share(m.permute(squares, dims=back), size)
    result = e.div(x, e.pow(e.add(e.mul(mean, alpha), k), beta))
    return as_type(result, input.dtype) if input.dtype.is_differentiable else result


def _overwriting(activation: Callable[..., Tensor], example: str) -> Callable[..., Tensor]:
    name = activation.__name__

    def activate(input: Tensor, *args: Any, **options: Any) -> Tensor:
        return activation(input, *args, **{**options, "inplace": True})

    activate.__name__ = activate.__qualname__ = f"{name}_"
    activate.__doc__ = (
        f"``{name}`` written back to its input.\n\n>>> import tracejit as tj\n"
        f">>> x = tj.tensor([-1.0, 2.0])\n>>> tj.{name}_(x{example}) is x\nTrue\n"
    )
    return activate


for _activation in (a.relu, a.elu, a.selu, a.celu, a.leaky_relu, a.hardtanh, rrelu):
    function(method=False)(_overwriting(_activation, ""))
function(method=False)(_overwriting(a.threshold, ", 0.5, 0.0"))
