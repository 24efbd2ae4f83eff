"""Dropout in its forms, and the Gumbel softmax."""

from __future__ import annotations

from collections.abc import Callable

from ... import dtypes
from ...errors import ArgumentValueError, warn
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import reduction as r
from .. import transcendental as t
from ..table import function
from .common import Tensor, check_tensor, constant, refuse, shape_of
from .sampling import draw_uniform, exponential
from .softmax import softmax


def _check_probability(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ArgumentValueError(
            f"dropout probability has to be between 0 and 1, but got {p} ({name})"
        )


def _dropped(x: Tensor, shape: tuple[int, ...], p: float, inplace: bool = False) -> Tensor:
    """``x`` with dropout of what ``shape`` tells apart; ``x`` itself where nothing is dropped."""
    if p == 0.0:
        return x
    found = drawn(x, shape, p)
    return x._assign(found) if inplace else found


def by_channel(x: Tensor) -> tuple[int, ...]:
    """The shape of what is drawn once for each channel (dimensions 0 and 1).

    >>> import tracejit as tj
    >>> by_channel(tj.ones(2, 3, 4, 5))
    (2, 3, 1, 1)
    """
    return (*shape_of(x)[:2], *(1 for _ in shape_of(x)[2:]))


def drawn(x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """``x`` with dropout of what ``shape`` tells apart, all of it where ``p`` is one.

    >>> import tracejit as tj
    >>> drawn(tj.ones(2), (2,), 1.0)
    tensor([0., 0.])
    """
    if p == 1.0:
        return e.mul(x, 0.0 if x.dtype.is_differentiable else constant(0, x.dtype))
    refuse("dropout", x.dtype, "bool int complex")
    fine = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    keep = c.ge(draw_uniform(shape, fine, None, x), p)
    return e.mul(e.where(keep, 1.0 / (1.0 - p), constant(0, x.dtype)), x)


@function()
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element zero with probability ``p``, else divided by ``1 - p``; unchanged unless ``training``.

    Raises ``ValueError`` when ``p`` is not in [0, 1].

    >>> import tracejit as tj
    >>> tj.dropout(tj.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    check_tensor("dropout", input)
    _check_probability("dropout", p)
    return _dropped(input, shape_of(input), p, inplace) if training else input


def _check_rank(name: str, rank: int) -> None:
    """Say that a sample, or a batch of them, has another rank: images of no channels are taken, with a warning."""
    spatial = int(name[-2])
    taken = spatial + 1, spatial + 2
    if spatial == 1 and rank not in taken:
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    if rank < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if spatial == 2 and rank == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead."
        )
    if spatial > 1 and rank not in taken:
        warn(
            f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            f"{name} exists to provide channel-wise dropout on inputs with {spatial} spatial dimensions, a channel "
            "dimension, and an optional batch dimension."
        )


def _channel_dropout(name: str) -> Callable[..., Tensor]:
    def drop(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        _check_probability(name, p)
        _check_rank(name, input.ndim)
        if not training:
            return input
        if name == "dropout2d" or input.ndim == int(name[-2]) + 2:
            return _dropped(input, by_channel(input), p, inplace)
        return _dropped(input, by_channel(m.unsqueeze(input, dims=(0,)))[1:], p, inplace)

    drop.__name__ = name
    drop.__doc__ = (
        "Dropout of whole channels (dimension 1; 0 without a batch, which ``dropout2d`` always has).\n\n"
        f">>> import tracejit as tj\n>>> tj.{name}(tj.ones(1, 2, 3), training=False).sum()\ntensor(6.)\n"
    )
    return drop


@function(method=False)
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of self-normalising networks.

    >>> import tracejit as tj
    >>> tj.alpha_dropout(tj.ones(3), 0.5)
    tensor([1., 1., 1.])
    """
    _check_probability("alpha_dropout", p)
    if not training or p == 0.0:
        return input
    saturated = -1.7580993408473766
    keep = c.ge(draw_uniform(shape_of(input), dtypes.float32, None, input), p)
    a = 0.0 if p == 1.0 else ((1 - p) * (1 + p * saturated**2)) ** -0.5
    b = -a * saturated * p
    return e.add(e.mul(e.where(keep, input, saturated), a), b)


@function(method=False)
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution; one-hot with soft gradients when ``hard``.

    >>> import tracejit as tj
    >>> tj.gumbel_softmax(tj.zeros(2, 3)).sum(-1).shape
    tracejit.Size([2])
    """
    noise = exponential(shape_of(logits), logits.dtype, 1.0, None, logits)
    soft = softmax((logits - t.log(noise)) / tau, dim)
    if not hard:
        return soft
    d = dim % logits.ndim
    best = r.argmax(soft, dims=(d,), keepdim=True)
    ones = constant(1, logits.dtype, shape_of(best))
    sharp = ix.scatter(constant(0, logits.dtype, shape_of(soft)), best, ones, dim=d)
    return e.add(e.sub(sharp, e.detach_copy(soft)), soft)


for _name in ("dropout1d", "dropout2d", "dropout3d"):
    function(method=False)(_channel_dropout(_name))
