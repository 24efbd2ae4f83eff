"""Channels exchanged for pixels, and channels of groups interleaved."""

from __future__ import annotations

from ...errors import ShapeError
from .. import movement as m
from ..shapes import numel
from ..table import alias, function
from .common import Tensor, check_tensor, own, shape_of


@function(method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C * r**2, H, W) as (*, C, H * r, W * r): channels become pixels.

    Raises ``RuntimeError`` when the channels do not divide.

    >>> import tracejit as tj
    >>> tj.pixel_shuffle(tj.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    _check_image("pixel_shuffle", input)
    r = upscale_factor
    if r < 1:
        raise ShapeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = shape_of(input)
    if channels % (r * r):
        raise ShapeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    k = len(lead)
    cut = m.reshape(input, shape=(*lead, channels // (r * r), r, r, height, width))
    moved = m.permute(cut, dims=(*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return own(m.reshape(moved, shape=(*lead, channels // (r * r), height * r, width * r)))


@function(method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H * r, W * r) as (*, C * r**2, H, W): the inverse of :func:`pixel_shuffle`.

    Raises ``RuntimeError`` when height or width do not divide.

    >>> import tracejit as tj
    >>> tj.pixel_unshuffle(tj.arange(4).reshape(1, 2, 2), 2).flatten()
    tensor([0, 1, 2, 3])
    """
    _check_image("pixel_unshuffle", input)
    r = downscale_factor
    if r < 1:
        raise ShapeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = shape_of(input)
    for name, extent, dim in (("height", height, -2), ("width", width, -1)):
        if extent % r:
            raise ShapeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({dim})={extent} is not divisible by {r}"
            )
    k = len(lead)
    cut = m.reshape(input, shape=(*lead, channels, height // r, r, width // r, r))
    moved = m.permute(cut, dims=(*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return own(m.reshape(moved, shape=(*lead, channels * r * r, height // r, width // r)))


def _check_image(name: str, x: Tensor) -> None:
    check_tensor(name, x)
    if x.ndim < 3:
        raise ShapeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} "
            "dimension(s)"
        )


@function(method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, *) taken from ``groups`` groups in turn.

    Raises ``RuntimeError`` when the channels do not divide into groups.

    >>> import tracejit as tj
    >>> tj.channel_shuffle(tj.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    _check_image("channel_shuffle", input)
    samples, channels, *size = shape_of(input)
    if groups < 1 or channels % groups:
        raise ShapeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    cut = m.reshape(input, shape=(samples, groups, channels // groups, numel(size)))
    return own(m.reshape(m.permute(cut, dims=(0, 2, 1, 3)), shape=shape_of(input)))


alias("native_channel_shuffle", channel_shuffle, method=False)
