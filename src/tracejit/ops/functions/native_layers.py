"""What PyTorch's layers call, under its names: normalisation with statistics, dropout with its mask, and the like."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...errors import ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from .. import source as s
from .. import transcendental as t
from ..table import FUNCTIONS, function
from .common import Number, Tensor, as_type, constant, shape_of, upcast
from .convolutions import conv1d
from .embeddings import shorten_rows
from .normalization import group_norm, layer_norm, normalized_by_batch
from .norms import vector_norm
from .reductions import count
from .sampling import draw_uniform
from .spatial import Sizes

Three = tuple[Tensor, Tensor, Tensor]


def _statistics(x: Tensor, dims: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Tensor, ...]:
    """Means and reciprocal standard deviations over ``dims``."""
    wide = upcast(x)
    n = count(wide, dims)
    mean = e.div(r.sum(wide, dims=dims, keepdim=True), n)
    variance = e.div(r.sum(e.square(e.sub(wide, mean)), dims=dims, keepdim=True), n)
    found = as_type(mean, x.dtype), as_type(t.rsqrt(e.add(variance, eps)), x.dtype)
    return found if keepdim else tuple(m.squeeze(one, dims=dims) for one in found)


@function(method=False)
def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Three:
    """:func:`layer_norm`, the means, and the reciprocal standard deviations.

    Raises ``RuntimeError`` when the last dimensions are not ``normalized_shape``.

    >>> import tracejit as tj
    >>> tj.native_layer_norm(tj.tensor([1.0, 3.0]), (2,), None, None, 0.0)
    (tensor([-1.,  1.]), tensor([2.]), tensor([1.]))
    """
    found = layer_norm(input, normalized_shape, weight, bias, eps)
    trailing = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    dims = tuple(range(input.ndim - trailing, input.ndim))
    mean, deviation = _statistics(e.detach_copy(input), dims, eps, True)
    return found, mean, deviation


@function(method=False)
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,  # noqa: N803
    C: int,  # noqa: N803
    HxW: int,  # noqa: N803
    group: int,
    eps: float,
) -> Three:
    """:func:`group_norm` of ``N`` samples, and (N, group) means and reciprocal standard deviations.

    Raises ``RuntimeError`` when ``N``, ``C`` and ``HxW`` do not make up the input.

    >>> import tracejit as tj
    >>> tj.native_group_norm(tj.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    if N * C * HxW != input.spec.numel:
        raise ShapeError(
            f"native_group_norm: expected {N} x {C} x {HxW} elements, but got input of shape "
            f"{list(shape_of(input))}"
        )
    channels = m.reshape(input, shape=(N, C, HxW))
    found = m.reshape(group_norm(channels, group, weight, bias, eps), shape=shape_of(input))
    grouped = m.reshape(input, shape=(N, group, C // group * HxW))
    mean, deviation = _statistics(grouped, (2,), eps, False)
    return found, mean, deviation


@function(method=False)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Three:
    """:func:`batch_norm`, and in training the means and reciprocal standard deviations of the batch, else none.

    >>> import tracejit as tj
    >>> tj.native_batch_norm(tj.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)[1:]
    (tensor([2.]), tensor([1.]))
    """
    found = normalized_by_batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if not training:
        empty = s.full(shape=(0,), value=0, dtype=input.dtype)
        return found, empty, empty
    mean, deviation = _statistics(e.detach_copy(input), (0, *range(2, input.ndim)), eps, False)
    return found, mean, deviation


@function(method=False)
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Each element zero with probability ``p``, else divided by ``1 - p``, unless ``train`` is false; and which stayed.

    >>> import tracejit as tj
    >>> tj.native_dropout(tj.ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    if train is False:
        return e.clone(input), constant(True, dtypes.bool_, shape_of(input))
    fine = dtypes.float64 if input.dtype is dtypes.float64 else dtypes.float32
    keep = c.ge(draw_uniform(shape_of(input), fine, None, input), p)
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    return e.mul(e.mul(as_type(keep, input.dtype), input), scale), keep


@function(method=False)
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows of ``input`` at ``indices``, in place, to a norm of at most ``max_norm``.

    >>> import tracejit as tj
    >>> tj.embedding_renorm_(tj.tensor([[3.0, 4.0], [6.0, 8.0]]), tj.tensor([1]), 5.0, 2.0)
    tensor([[3., 4.],
            [3., 4.]])
    """
    shorten_rows(input, indices, max_norm, norm_type)
    return input


@function(method=False)
def norm_except_dim(v: Tensor, pow: Number = 2, dim: int = 0) -> Tensor:
    """The ``pow`` norm over all dimensions but ``dim``, which are kept as ones; over all of them where that is -1.

    >>> import tracejit as tj
    >>> tj.norm_except_dim(tj.tensor([[3.0, 4.0], [6.0, 8.0]]))
    tensor([[ 5.],
            [10.]])
    """
    if dim == -1:
        return vector_norm(v, pow)
    return vector_norm(v, pow, [d for d in range(v.ndim) if d != dim], True)


@function(method=False)
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``v`` with the length ``g`` over all dimensions but ``dim``.

    >>> import tracejit as tj
    >>> tj._weight_norm(tj.tensor([[3.0, 4.0]]), tj.tensor([[10.0]]))
    tensor([[6., 8.]])
    """
    return e.mul(v, e.div(g, norm_except_dim(v, 2, dim)))


@function(method=False)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """:func:`conv1d` of (time, batch, channels) with ``weight`` (kernel, in, out).

    >>> import tracejit as tj
    >>> tj.conv_tbc(tj.ones(3, 1, 2), tj.ones(2, 2, 1), tj.zeros(1)).flatten()
    tensor([4., 4.])
    """
    turned = m.permute(input, dims=(1, 2, 0)), m.permute(weight, dims=(2, 1, 0))
    return m.permute(conv1d(*turned, bias, padding=pad), dims=(2, 0, 1))


@function(method=False)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    """A convolution of as many dimensions as ``weight`` has, or a transposed one.

    >>> import tracejit as tj
    >>> tj.convolution(tj.ones(1, 1, 3), tj.ones(1, 1, 2), None, [1], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])
    """
    rank = weight.ndim - 2
    if transposed:
        function = FUNCTIONS[f"conv_transpose{rank}d"]
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return FUNCTIONS[f"conv{rank}d"](input, weight, bias, stride, padding, dilation, groups)
