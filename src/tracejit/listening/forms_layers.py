"""Layers' functions as operators; see :mod:`tracejit.listening.forms`."""

from __future__ import annotations

import math
from typing import Any

from ..aten import ATEN as A
from .forms import AS_WRITTEN, form, reshape
from .forms_arithmetic import matmul
from .forms_reductions import usual_order
from .history import natively
from .quiet import quietly

__all__: list[str] = []


@form("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    rank = len(input.shape)
    if len(weight.shape) != 2 or rank == 0 or (bias is not None and len(bias.shape) != 1):
        return AS_WRITTEN
    if bias is None:
        return matmul(input, A.t(weight))
    if rank == 2:
        return A.addmm(bias, input, A.t(weight))
    if rank > 2 and quietly(input.is_contiguous):
        rows = A.view(input, [math.prod(input.shape[:-1]), input.shape[-1]])
        out = A.addmm(bias, rows, A.t(weight))
        return A.view(out, [*input.shape[:-1], weight.shape[0]])
    return A.add(matmul(input, A.t(weight)), bias)


def _softened(name: str) -> Any:
    def soften(
        input: Any, dim: Any = None, dtype: Any = None, _stacklevel: Any = 3, **more: Any
    ) -> Any:
        if dim is None or more or not isinstance(dim, int) or isinstance(dtype, int):
            return AS_WRITTEN
        if dtype is None and not input.dtype.is_floating_point:
            return AS_WRITTEN
        if dtype is not None and input.dtype is not dtype:
            input = A._to_copy(input, dtype=dtype)
        return getattr(A, name)(input, dim, False)

    return soften


def _softened_at(name: str) -> Any:
    own = _softened(name)

    def soften(input: Any, dim: Any, dtype: Any = None) -> Any:
        return own(input, dim, dtype=dtype)

    return soften


form("F.softmax")(_softened("_softmax"))
form("F.log_softmax")(_softened("_log_softmax"))
form("softmax")(_softened_at("_softmax"))
form("log_softmax")(_softened_at("_log_softmax"))


@form("F.softmin")
def _softmin(input: Any, dim: Any = None, dtype: Any = None, _stacklevel: Any = 3) -> Any:
    if dim is None or dtype is not None:
        return AS_WRITTEN
    return A._softmax(A.neg(input), dim, False)


def _activation(name: str, *defaults: Any) -> Any:
    def activate(input: Any, *options: Any, inplace: bool = False, **named: Any) -> Any:
        if len(options) > len(defaults):
            *options, inplace = options  # type: ignore[assignment]
        values = list(options)
        for key, default in defaults[len(values) :]:
            values.append(named.pop(key, default))
        if named:
            return AS_WRITTEN
        return getattr(A, f"{name}_" if inplace else name)(input, *values)

    return activate


for _name, _options in {
    "relu": (),
    "silu": (),
    "mish": (),
    "hardswish": (),
    "hardsigmoid": (),
    "leaky_relu": (("negative_slope", 0.01),),
    "elu": (("alpha", 1.0),),
    "hardtanh": (("min_val", -1.0), ("max_val", 1.0)),
}.items():
    form(f"F.{_name}", _name)(_activation(_name, *_options))


@form("celu", "F.celu")
def _celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    return (A.celu_ if inplace else A.celu)(input, alpha)


@form("relu6", "F.relu6")
def _relu6(input: Any, inplace: bool = False) -> Any:
    return (A.hardtanh_ if inplace else A.hardtanh)(input, 0.0, 6.0)


@form("selu", "F.selu")
def _selu(input: Any, inplace: bool = False) -> Any:
    if inplace:
        return AS_WRITTEN
    return A.elu(input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@form("threshold", "F.threshold")
def _threshold(input: Any, threshold: Any, value: Any, inplace: bool = False) -> Any:
    return (A.threshold_ if inplace else A.threshold)(input, threshold, value)


@form("log_sigmoid")
def _logsigmoid(input: Any) -> Any:
    return A.log_sigmoid_forward(input)[0]


@form("prelu", "F.prelu")
def _prelu(input: Any, weight: Any) -> Any:
    rank = len(input.shape)
    if rank >= 2 and len(weight.shape) == 1:
        weight = A.view(weight, [1, weight.shape[0], *[1] * (rank - 2)])
    return A._prelu_kernel(input, weight)


@form("softsign", "F.softsign")
def _softsign(input: Any) -> Any:
    return A.div(input, A.add(A.abs(input), 1))


@form("tanhshrink", "F.tanhshrink")
def _tanhshrink(input: Any) -> Any:
    return A.sub(input, A.tanh(input))


@form("F.dropout", "dropout")
def _dropout(
    input: Any, p: float = 0.5, training: bool = True, inplace: bool = False, **more: Any
) -> Any:
    training = more.pop("train", training)
    if more or inplace or not 0 <= p < 1:
        return AS_WRITTEN
    if not training or p == 0 or not input.numel():
        return input
    return A.native_dropout(input, p, True)[0]


# --- normalization --------------------------------------------------------------------------------


@form("layer_norm", "F.layer_norm")
def _layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    if list(input.shape[-len(shape) :]) != shape:
        return AS_WRITTEN
    return A.native_layer_norm(input, shape, weight, bias, eps)[0]


@form("group_norm", "F.group_norm")
def _group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    if len(input.shape) < 2 or input.shape[1] % num_groups:
        return AS_WRITTEN
    n, channels, *rest = input.shape
    return A.native_group_norm(input, weight, bias, n, channels, math.prod(rest), num_groups, eps)[
        0
    ]


@form("F.batch_norm")
def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if len(input.shape) < 2 or (training and input.numel() <= input.shape[1]):
        return AS_WRITTEN
    if not training and running_mean is None:
        return AS_WRITTEN
    statistics = running_mean, running_var
    return A.native_batch_norm(input, weight, bias, *statistics, training, momentum, eps)[0]


@form("F.instance_norm")
def _instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if running_mean is not None or running_var is not None or not use_input_stats:
        return AS_WRITTEN
    n, channels, *rest = input.shape
    if math.prod(rest) < 2:
        return AS_WRITTEN
    rows = [None if x is None else A.repeat(x, [n]) for x in (weight, bias)]
    images = reshape(input, [1, n * channels, *rest])
    out = A.native_batch_norm(images, *rows, None, None, True, momentum, eps)[0]
    return A.view(out, [n, channels, *rest])


@form("F.normalize")
def _normalize(
    input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None
) -> Any:
    if out is not None or not input.dtype.is_floating_point or not usual_order(p):
        return AS_WRITTEN
    length = A.clamp_min(A.linalg_vector_norm(input, p, [dim], True), eps)
    return A.div(input, A.expand(length, list(input.shape)))


@form("rms_norm", "F.rms_norm")
def _rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    from ..number_limits import finfo

    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    if input.dtype.is_half or list(input.shape[-len(shape) :]) != shape:
        return AS_WRITTEN
    rank = len(input.shape)
    dims = [rank - 1 - i for i in range(len(shape))]
    small = finfo(input.dtype).eps if eps is None else eps
    scale = A.rsqrt(A.add_.Scalar(A.mean(A.pow(input, 2), dims, True), small))
    out = A.mul(input, scale)
    return out if weight is None else A.mul(out, weight)


def _norm_itself(name: str) -> None:
    """All results of such a function may have gradients where a program calls it."""

    def run(*args: Any) -> Any:
        return natively(getattr(A, name).default, args, {})

    form(name)(run)


for _name in ("native_layer_norm", "native_group_norm", "native_batch_norm"):
    _norm_itself(_name)

# --- losses ---------------------------------------------------------------------------------------

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _nll(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    if (
        len(input.shape) not in (1, 2)
        or reduction not in _REDUCTIONS
        or target.dtype.is_floating_point
    ):
        return AS_WRITTEN
    return A.nll_loss_forward(input, target, weight, _REDUCTIONS[reduction], ignore_index)[0]


def _old(options: dict[str, Any]) -> bool:
    return any(options.pop(name, None) is not None for name in ("size_average", "reduce"))


@form("F.nll_loss")
def _nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    if size_average is not None or reduce is not None:
        return AS_WRITTEN
    return _nll(input, target, weight, reduction, ignore_index)


@form("F.cross_entropy")
def _cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    plain = size_average is None and reduce is None and label_smoothing == 0.0
    if not plain or len(input.shape) not in (1, 2) or reduction not in _REDUCTIONS:
        return AS_WRITTEN
    if target.shape != input.shape:
        scores = A._log_softmax(input, len(input.shape) - 1, False)
        return _nll(scores, target, weight, reduction, ignore_index)
    if weight is not None or len(input.shape) != 2:
        return AS_WRITTEN
    products = A.mul(A._log_softmax(input, 1, False), target)
    if reduction == "none":
        return A.neg(A.sum(products, [1]))
    total = A.neg(A.sum(products))
    return A.div.Scalar(total, input.shape[0]) if reduction == "mean" else total


def _loss(name: str, option: str = "", default: float = 1.0) -> Any:
    def loss(input: Any, target: Any, *args: Any, reduction: str = "mean", **options: Any) -> Any:
        if args or _old(options) or options.pop("weight", None) is not None:
            return AS_WRITTEN
        values = [options.pop(option, default)] if option else []
        if options or input.shape != target.shape or reduction not in _REDUCTIONS:
            return AS_WRITTEN
        return getattr(A, name)(input, target, _REDUCTIONS[reduction], *values)

    return loss


form("F.mse_loss")(_loss("mse_loss"))
form("F.smooth_l1_loss")(_loss("smooth_l1_loss", "beta"))
form("F.huber_loss")(_loss("huber_loss", "delta"))


@form("F.l1_loss")
def _l1_loss(input: Any, target: Any, *args: Any, reduction: str = "mean", **options: Any) -> Any:
    if args or _old(options) or options.pop("weight", None) is not None or options:
        return AS_WRITTEN
    if input.shape != target.shape or reduction not in _REDUCTIONS:
        return AS_WRITTEN
    found = A.abs(A.sub(input, target))
    return found if reduction == "none" else getattr(A, reduction)(found)


@form("F.binary_cross_entropy")
def _bce(
    input: Any, target: Any, weight: Any = None, *args: Any, reduction: str = "mean", **options: Any
) -> Any:
    if (
        args
        or _old(options)
        or options
        or input.shape != target.shape
        or reduction not in _REDUCTIONS
    ):
        return AS_WRITTEN
    return A.binary_cross_entropy(input, target, weight, _REDUCTIONS[reduction])


@form("F.binary_cross_entropy_with_logits")
def _bce_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    *args: Any,
    reduction: str = "mean",
    pos_weight: Any = None,
    **options: Any,
) -> Any:
    if (
        args
        or _old(options)
        or options
        or input.shape != target.shape
        or reduction not in _REDUCTIONS
    ):
        return AS_WRITTEN
    kind = _REDUCTIONS[reduction]
    return A.binary_cross_entropy_with_logits(input, target, weight, pos_weight, kind)
