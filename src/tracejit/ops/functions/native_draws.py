"""Dropout as PyTorch has it at the top of the package, in place too, and draws of binomial counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import dtypes
from .. import comparison as c
from .. import elementwise as e
from ..table import FUNCTIONS, function
from .common import Tensor, check_tensor, constant, shape_of
from .dropout import by_channel, drawn
from .sampling import draw_uniform


def _check(name: str, input: Tensor, p: float) -> None:
    check_tensor(name, input)
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def _plain(input: Tensor, p: float) -> Tensor:
    return drawn(input, shape_of(input), p)


def _features(input: Tensor, p: float) -> Tensor:
    if p == 1.0:
        return e.mul(input, 0.0)
    _check_features(input)
    return drawn(input, by_channel(input), p)


def _check_features(input: Tensor) -> None:
    if len(shape_of(input)) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")


def _alpha(input: Tensor, p: float) -> Tensor:
    if p == 1.0:
        return e.mul(input, 0.0)
    return FUNCTIONS["alpha_dropout"](input, p, True)


def _alpha_features(input: Tensor, p: float) -> Tensor:
    if p == 1.0:
        return e.mul(input, 0.0)
    _check_features(input)
    return FUNCTIONS["feature_alpha_dropout"](input, p, True)


@function(method=False)
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Each channel (dimensions 0 and 1) zero with probability ``p``, else divided by ``1 - p``, if ``train``.

    Raises ``RuntimeError`` when ``p`` is not in [0, 1] or there are no channels.

    >>> import tracejit as tj
    >>> tj.feature_dropout(tj.ones(1, 2), 0.5, train=False)
    tensor([[1., 1.]])
    """
    _check("feature_dropout", input, p)
    return _features(input, p) if train and p and input.spec.numel else input


def _in_place(name: str, draw: Callable[[Tensor, float], Tensor]) -> None:
    def write(input: Tensor, p: float, train: bool) -> Tensor:
        _check(name, input, p)
        if not train or not p or not input.spec.numel:
            return input
        if not (input.dtype.is_floating_point or input.dtype.is_complex):
            raise RuntimeError(
                f"result type Float can't be cast to the desired output type {input.dtype.title}"
            )
        since = input._next_node()
        return input._assign(draw(input, p), since)

    write.__name__ = write.__qualname__ = name
    write.__doc__ = (
        f"``{name[:-1]}`` written to ``input``.\n\n    Raises ``RuntimeError`` when ``p`` is not in [0, 1].\n\n"
        f"    >>> import tracejit as tj\n    >>> tj.{name}(tj.ones(1, 2), 0.5, train=False)\n"
        "    tensor([[1., 1.]])\n    "
    )
    function(method=False)(write)


for _name, _function in (
    ("dropout_", _plain),
    ("feature_dropout_", _features),
    ("alpha_dropout_", _alpha),
    ("feature_alpha_dropout_", _alpha_features),
):
    _in_place(_name, _function)


@function(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """How many of ``count`` trials succeed, each with probability ``prob``.

    As many numbers are drawn as there are trials at most, for every element. Raises ``ValueError`` for counts that are
    no floating-point numbers.

    >>> import tracejit as tj
    >>> tj.binomial(tj.tensor([3.0, 5.0, 0.0]), tj.tensor([1.0, 0.0, 0.5]))
    tensor([3., 0., 0.])
    """
    check_tensor("binomial", count, "count")
    check_tensor("binomial", prob, "prob", 2)
    if not count.dtype.is_floating_point:
        raise ValueError(
            f"binomial only supports floating-point dtypes for count, got: {count.dtype.title}"
        )
    count, prob = FUNCTIONS["broadcast_tensors"](e.detach_copy(count), e.detach_copy(prob))
    shape = shape_of(count)
    most = float(count.nan_to_num(0.0, posinf=math.inf).amax().item()) if count.spec.numel else 0.0
    if math.isinf(most):
        raise ValueError("binomial draws a number for every trial: counts must be finite")
    most = max(0, int(most))
    u = draw_uniform((most, *shape), dtypes.float32, generator, count)
    trial = FUNCTIONS["arange"](1, most + 1, dtype=count.dtype)
    trial = trial.reshape(most, *(1 for _ in shape))
    drawn = c.lt(u, prob) & c.le(trial, count)
    found = drawn.to(count.dtype).sum(0)
    found = e.where(
        c.ge(prob, 1.0), e.where(c.gt(count, 0.0), count, constant(0, count.dtype)), found
    )
    odd = c.isnan(prob) | c.isnan(count)
    return e.where(odd, constant(math.nan, count.dtype), found)
