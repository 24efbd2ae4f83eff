"""Operators of PyTorch's core that have no name of their own in programs: gradients, and parts of functions.

Gradients are those of the functions by their own rules, so that they can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import autograd, nn
from .dtypes import DType, uint8
from .modes import MODES
from .ops.functions.resizing import resized as at_sizes
from .ops.table import FUNCTIONS
from .tensor import Tensor
from .tensor_make import tensor

__all__ = ["PARTS"]

F = nn.functional


def _gradients(function: Callable[..., Any], operands: Sequence[Any], g: Tensor) -> list[Any]:
    """The gradients of ``function`` with respect to operands, of which some may be None, given that of its result."""
    again = MODES.grad and any(x is not None and x.requires_grad for x in (*operands, g))
    with autograd.enable_grad():
        given = [
            x if x is None or (again and x.requires_grad) else x.detach().requires_grad_()
            for x in operands
        ]
        out = function(*given)
        asked = [x for x in given if x is not None]
        found = iter(autograd.grad(out, asked, g, create_graph=again, materialize_grads=True))
    return [None if x is None else next(found) for x in given]


def _of(function: Callable[..., Any], *operands: int) -> Callable[..., Any]:
    """``(g, *arguments)`` to the gradient of ``function(*arguments)`` for one operand, or to those for several."""

    def backward(g: Tensor, *args: Any, **options: Any) -> Any:
        def run(*given: Any) -> Any:
            filled = list(args)
            for place, x in zip(operands, given, strict=True):
                filled[place] = x
            return function(*filled, **options)

        found = _gradients(run, [args[place] for place in operands], g)
        return found[0] if len(operands) == 1 else tuple(found)

    return backward


def _backward(function: Callable[..., Any]) -> Callable[..., Any]:
    """``(g, x, *options)`` to the gradient of ``function(x, *options)``."""

    def backward(g: Tensor, x: Tensor, *args: Any, **options: Any) -> Any:
        return _gradients(lambda x: function(x, *args, **options), [x], g)[0]

    return backward


def _tanh_backward(g: Tensor, out: Tensor) -> Any:
    return g * (1 - out * out).conj()


def _sigmoid_backward(g: Tensor, out: Tensor) -> Any:
    return g * (out * (1 - out)).conj()


def _dropout_backward(g: Tensor, mask: Tensor, scale: float) -> Any:
    return g * mask * scale


def _layer_norm_backward(
    g: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Any, ...]:
    del mean
    centre = x.mean(tuple(range(-len(shape), 0)), keepdim=True)
    spread = (x - centre).square().mean(tuple(range(-len(shape), 0)), keepdim=True)
    eps = float((rstd.detach().double() ** -2 - spread.detach().double()).mean())

    def norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Any:
        return F.layer_norm(x, tuple(shape), weight, bias, max(eps, 0.0))

    found = _gradients(norm, [x, weight, bias], g)
    return tuple([y if wanted else None for y, wanted in zip(found, output_mask, strict=True)])


def _embedding_backward(
    g: Tensor, indices: Tensor, count: int, padding_idx: int = -1, scale_grad_by_freq: bool = False
) -> Any:
    rows = g.new_zeros(count, g.shape[-1])
    options: dict[str, Any] = {"scale_grad_by_freq": scale_grad_by_freq}
    if padding_idx >= 0:
        options["padding_idx"] = padding_idx
    return _gradients(lambda rows: F.embedding(indices, rows, **options), [rows], g)[0]


def _pooled_backward(g: Tensor, x: Tensor, *args: Any, **options: Any) -> Any:
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "indices")
    given = {**dict(zip(names, args, strict=False)), **options}
    given.pop("indices", None)
    if given.get("stride") is not None and not given["stride"]:
        del given["stride"]
    return _gradients(lambda x: F.max_pool2d(x, **given), [x], g)[0]


#: What scales of single dimensions are called, the outermost first.
_SCALES = ("scales", "scales_d", "scales_h", "scales_w")


def _resized(mode: str, rank: int) -> Callable[..., Any]:
    """``(x, size, align_corners, *scales)``, where a list of all scales is one of them; "nearest" has no corners."""

    def resized(x: Tensor, output_size: Any, *args: Any, **options: Any) -> Any:
        options = {k: v for k, v in options.items() if v is not None}
        scales = options.pop("scale_factors", None)
        named = [options.pop(k) for k in _SCALES if k in options]
        rest = list(args)
        if mode != "nearest" and rest:
            options["align_corners"] = rest.pop(0)
        if rest and isinstance(rest[0], (list, tuple)):
            scales = rest[0]
        given = [x for x in rest if isinstance(x, float)] + named
        if output_size is None:
            return F.interpolate(x, scale_factor=list(scales or [1] * rank), mode=mode, **options)
        if len(given) == rank:
            return at_sizes(x, tuple(output_size), tuple(given), mode, **options)
        return F.interpolate(x, list(output_size), mode=mode, **options)

    return resized


def _smoothed(mode: str) -> Callable[..., Any]:
    """:func:`_resized` with a filter that widens as the image shrinks."""
    resized = _resized(mode, 2)
    return lambda *args, **options: resized(*args, **options, antialias=True)


def _padded(mode: str) -> Callable[..., Any]:
    def padded(x: Tensor, padding: Sequence[int]) -> Any:
        return F.pad(x, tuple(padding), mode=mode)

    return padded


def _columns(x: Tensor, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return F.unfold(x, kernel, dilation, padding, stride)


def _image(x: Tensor, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return F.fold(x, size, kernel, dilation, padding, stride)


def _safe_softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Any:
    """Softmax, of which rows of nothing but -inf are zero, and so are their gradients."""
    nothing = (x == float("-inf")).all(dim, keepdim=True)
    return F.softmax(x.masked_fill(nothing, 0.0), dim, dtype=dtype).masked_fill(nothing, 0.0)


def _log_sigmoid(x: Tensor) -> tuple[Any, Any]:
    return F.logsigmoid(x), x.new_zeros(0)


def _uniform(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    return x.new_empty(x.shape).uniform_(low, high, generator=generator)


def _nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Any, Any]:
    """The loss, and the weights of all targets together where it is their mean or sum."""
    kind = ("none", "mean", "sum")[reduction]
    loss = F.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=kind)
    counted = target != ignore_index
    each = counted.to(x.dtype)
    if weight is not None:
        each = each * weight[target.where(counted, 0)]
    return loss, each.sum() if reduction else x.new_zeros(())


def _nll_loss_backward(
    g: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total: Tensor,
) -> Any:
    del total
    loss = lambda x: _nll_loss(x, target, weight, reduction, ignore_index)[0]  # noqa: E731
    return _gradients(loss, [x], g)[0]


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *statistics: Any,
) -> tuple[Any, ...]:
    """``(x, weight, bias, [mean, var,] training, momentum, eps)``."""
    *running, training, momentum, eps = statistics
    mean, var = running or (None, None)
    found: tuple[Tensor, ...] = FUNCTIONS["native_batch_norm"](
        x, weight, bias, mean, var, training, momentum, eps
    )
    return found


def _batch_norm_with_update(x: Tensor, *arguments: Any) -> tuple[Any, ...]:
    """``(x, weight, bias, mean, var, momentum, eps)``; the last result is what a library would keep, here nothing."""
    *first, momentum, eps = arguments
    found = FUNCTIONS["native_batch_norm"](x, *first, True, momentum, eps)
    return *found, x.new_zeros(0, dtype=uint8)


def _finite_and_unscaled(grads: Sequence[Tensor], found_inf: Tensor, inverse: Tensor) -> None:
    """Multiply all by ``inverse``; ``found_inf`` becomes one where an element is not finite."""
    with autograd.no_grad():
        for g in grads:
            if not bool(g.isfinite().all()):
                found_inf.fill_(1.0)
            g.mul_(inverse.to(g.dtype))


def _cast(dtype: str) -> Callable[..., Any]:
    def cast(x: Tensor, non_blocking: bool = False) -> Any:
        return getattr(x, dtype)()

    return cast


def _shape_as_tensor(x: Tensor) -> Any:
    return tensor(list(x.shape))


def _unique2(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Any, ...]:
    found = FUNCTIONS["unique"](x, sorted, return_inverse, return_counts)
    parts = list(found) if isinstance(found, tuple) else [found]
    none = parts[0].new_zeros(0).long()
    values = parts.pop(0)
    inverse = parts.pop(0) if return_inverse else none
    return values, inverse, parts.pop(0) if return_counts else none


def _same(x: Any) -> Any:
    return x


def _size(x: Tensor, dim: int) -> Any:
    return x.shape[dim]


def _int_mm(x: Any, y: Any) -> Any:
    return x.int() @ y.int()


_CASTS = ("float", "double", "half", "int", "long", "byte", "char", "short")
#: By the names that they have in ``ops.aten``; those with an underscore in front are at the top of the package as well.
PARTS: dict[str, Callable[..., Any]] = {
    "gelu_backward": _backward(F.gelu),
    "silu_backward": _backward(F.silu),
    "threshold_backward": _backward(lambda x, least: FUNCTIONS["threshold"](x, least, 0)),
    "tanh_backward": _tanh_backward,
    "sigmoid_backward": _sigmoid_backward,
    "native_dropout_backward": _dropout_backward,
    "native_layer_norm_backward": _layer_norm_backward,
    "embedding_dense_backward": _embedding_backward,
    "max_pool2d_with_indices_backward": _pooled_backward,
    "nll_loss_forward": _nll_loss,
    "nll_loss_backward": _nll_loss_backward,
    "log_sigmoid_forward": _log_sigmoid,
    "_adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "_adaptive_avg_pool3d": F.adaptive_avg_pool3d,
    "upsample_nearest1d": _resized("nearest", 1),
    "upsample_nearest2d": _resized("nearest", 2),
    "upsample_nearest3d": _resized("nearest", 3),
    "upsample_linear1d": _resized("linear", 1),
    "upsample_bilinear2d": _resized("bilinear", 2),
    "upsample_bicubic2d": _resized("bicubic", 2),
    "upsample_trilinear3d": _resized("trilinear", 3),
    **{f"_upsample_{mode}2d_aa": _smoothed(mode) for mode in ("bilinear", "bicubic")},
    **{f"reflection_pad{n}d": _padded("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _padded("replicate") for n in (1, 2, 3)},
    "im2col": _columns,
    "col2im": _image,
    "uniform": _uniform,
    "lift_fresh": _same,
    "lift_fresh_copy": FUNCTIONS["clone"],
    "sym_size": _size,
    "_unsafe_view": FUNCTIONS["reshape"],
    "_local_scalar_dense": Tensor.item,
    "_safe_softmax": _safe_softmax,
    "_native_batch_norm_legit": _batch_norm,
    "_batch_norm_with_update": _batch_norm_with_update,
    "_amp_foreach_non_finite_check_and_unscale_": _finite_and_unscaled,
    "_aminmax": FUNCTIONS["aminmax"],
    "_shape_as_tensor": _shape_as_tensor,
    "_unique2": _unique2,
    "_euclidean_dist": FUNCTIONS["cdist"],
    "_conj": FUNCTIONS["conj"],
    "_int_mm": _int_mm,
    **{f"_cast_{kind.title()}": _cast(kind) for kind in _CASTS},
}
