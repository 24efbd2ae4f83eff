"""Initial values of parameters: in-place functions with PyTorch's names and formulae."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "sigmoid"), 1.0),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps variances equal across ``nonlinearity`` (``param``: the slope of leaky_relu).

    Raises ``ValueError`` for an unknown name or a slope that is no number.

    >>> from tracejit.nn import init
    >>> round(init.calculate_gain("relu"), 4), init.calculate_gain("linear")
    (1.4142, 1.0)
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Draw from the uniform distribution on [a, b).

    >>> import tracejit as tj
    >>> bool((tj.nn.init.uniform_(tj.empty(9), 2.0, 3.0) >= 2).all())
    True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Draw from the normal distribution.

    >>> import tracejit as tj
    >>> tj.nn.init.normal_(tj.empty(2, 3)).shape
    tracejit.Size([2, 3])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value.

    >>> import tracejit as tj
    >>> tj.nn.init.constant_(tj.empty(2), 3.0)
    tensor([3., 3.])
    """
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Any) -> Any:
    """Fill with zeros.

    >>> import tracejit as tj
    >>> tj.nn.init.zeros_(tj.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Any) -> Any:
    """Fill with ones.

    >>> import tracejit as tj
    >>> tj.nn.init.ones_(tj.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def _fill(tensor: Any, values: Any) -> Any:
    """Copy an array into ``tensor``, without history."""
    with no_grad():
        return tensor.copy_(Tensor._wrap(np.asarray(values, tensor.dtype.np)))


def eye_(tensor: Any) -> Any:
    """Fill a matrix with the identity; ``ValueError`` unless it has two dimensions.

    >>> import tracejit as tj
    >>> tj.nn.init.eye_(tj.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _fill(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill a convolution's weight so that it passes its input on, in every group.

    Raises ``ValueError`` unless there are 3 to 5 dimensions and ``groups`` divides the first.

    >>> import tracejit as tj
    >>> tj.nn.init.dirac_(tj.empty(2, 2, 3))[0]
    tensor([[0., 1., 0.],
            [0., 0., 0.]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    out_per_group = tensor.shape[0] // groups
    values = np.zeros(tuple(tensor.shape))
    centre = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(out_per_group, tensor.shape[1])):
            values[(group * out_per_group + channel, channel, *centre)] = 1
    return _fill(tensor, values)


def _fans(tensor: Any) -> tuple[int, int]:
    """Inputs and outputs of a unit: extents 1 and 0, times the receptive field."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Any, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _fans(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform on ±gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    >>> import tracejit as tj
    >>> bool((tj.nn.init.xavier_uniform_(tj.empty(3, 3)).abs() <= 1).all())
    True
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    >>> import tracejit as tj
    >>> tj.nn.init.xavier_normal_(tj.empty(3, 5)).shape
    tracejit.Size([3, 5])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Uniform on ±gain * sqrt(3 / fan) (He et al., 2015); an empty tensor stays as it is, with a warning.

    >>> import tracejit as tj
    >>> bool((tj.nn.init.kaiming_uniform_(tj.empty(4, 6)).abs() <= 1).all())
    True
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Normal with standard deviation gain / sqrt(fan) (He et al., 2015).

    >>> import tracejit as tj
    >>> tj.nn.init.kaiming_normal_(tj.empty(4, 6), mode="fan_out").shape
    tracejit.Size([4, 6])
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Normal values confined to [a, b], by inverting the normal distribution function.

    >>> import tracejit as tj
    >>> bool((tj.nn.init.trunc_normal_(tj.empty(99)).abs() <= 2).all())
    True
    """
    from scipy.special import ndtr, ndtri

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    low, high = ndtr((a - mean) / std), ndtr((b - mean) / std)
    uniform_(tensor, 0.0, 1.0, generator)
    share = tensor.detach().numpy().astype(np.float64)
    values = mean + std * ndtri(low + share * (high - low))
    return _fill(tensor, np.clip(values, a, b))


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A random (semi-)orthogonal matrix, dimensions after the first flattened (Saxe et al., 2013).

    >>> import tracejit as tj
    >>> w = tj.nn.init.orthogonal_(tj.empty(3, 3))
    >>> bool(((w @ w.T - tj.eye(3)).abs() < 1e-5).all())
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if 0 in tensor.shape:
        return tensor
    normal_(tensor, 0.0, 1.0, generator)
    rows = tensor.shape[0]
    flat = tensor.detach().numpy().astype(np.float64).reshape(rows, -1)
    wide = rows < flat.shape[1]
    q, r = np.linalg.qr(flat.T if wide else flat)
    # The sign of R's diagonal makes the distribution uniform (Mezzadri, 2006).
    q = q * np.sign(np.diagonal(r))
    return _fill(tensor, gain * (q.T if wide else q).reshape(tuple(tensor.shape)))


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal values, of which a fraction ``sparsity`` of every column is zero (Martens, 2010).

    >>> import tracejit as tj
    >>> int((tj.nn.init.sparse_(tj.empty(10, 2), sparsity=0.5) == 0).sum())
    10
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    uniform_(tensor, 0.0, 1.0, generator)
    order = np.argsort(tensor.detach().numpy().astype(np.float64), axis=0)
    normal_(tensor, 0.0, std, generator)
    values = tensor.detach().numpy().copy()
    zeros = order[: math.ceil(sparsity * tensor.shape[0])]
    np.put_along_axis(values, zeros, 0, axis=0)
    return _fill(tensor, values)


# The names of old, without the underscore that says that they write in place.
uniform, normal, constant, eye, dirac = uniform_, normal_, constant_, eye_, dirac_
xavier_uniform, xavier_normal = xavier_uniform_, xavier_normal_
kaiming_uniform, kaiming_normal = kaiming_uniform_, kaiming_normal_
orthogonal, sparse = orthogonal_, sparse_
_calculate_fan_in_and_fan_out, _calculate_correct_fan = _fans, _fan


# Under these names PyTorch keeps what the functions above do, and initialisers of models call it.
_no_grad_fill_ = constant_
_no_grad_normal_ = normal_
_no_grad_trunc_normal_ = trunc_normal_
_no_grad_uniform_ = uniform_
_no_grad_zero_ = zeros_
