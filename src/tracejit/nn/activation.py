"""Activation layers: a function of every element."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType
from ..errors import warn
from . import functional as F
from . import init
from .linear import empty_parameter
from .module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InPlace(Module):
    """An activation that can overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def function(self, input: Any) -> Any:
        """The activation out of place."""
        raise NotImplementedError

    def forward(self, input: Any) -> Any:
        """The activation of every element."""
        result = self.function(input)
        return input._assign(result) if self.inplace else result

    def extra_repr(self) -> str:
        """Whether the input is overwritten."""
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0).

    >>> import tracejit as tj
    >>> tj.nn.ReLU()(tj.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def function(self, input: Any) -> Any:
        """max(x, 0)."""
        return F.relu(input)


class ReLU6(_InPlace):
    """min(max(x, 0), 6)."""

    def function(self, input: Any) -> Any:
        """x clamped to [0, 6]."""
        return F.relu6(input)


class SiLU(_InPlace):
    """x * sigmoid(x), also called swish."""

    def function(self, input: Any) -> Any:
        """x * sigmoid(x)."""
        return F.silu(input)


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    def function(self, input: Any) -> Any:
        """x * tanh(softplus(x))."""
        return F.mish(input)


class Hardswish(_InPlace):
    """x * relu6(x + 3) / 6."""

    def function(self, input: Any) -> Any:
        """x * relu6(x + 3) / 6."""
        return F.hardswish(input)

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class Hardsigmoid(_InPlace):
    """relu6(x + 3) / 6."""

    def function(self, input: Any) -> Any:
        """relu6(x + 3) / 6."""
        return F.hardsigmoid(input)

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class SELU(_InPlace):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))) with the constants of self-normalising networks."""

    def function(self, input: Any) -> Any:
        """The scaled exponential linear unit."""
        return F.selu(input)


class LeakyReLU(_InPlace):
    """x above zero, ``negative_slope * x`` below."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def function(self, input: Any) -> Any:
        """x or negative_slope * x."""
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" * self.inplace)


class ELU(_InPlace):
    """x above zero, ``alpha * (exp(x) - 1)`` below."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def function(self, input: Any) -> Any:
        """The exponential linear unit."""
        return F.elu(input, self.alpha)

    def extra_repr(self) -> str:
        """The scale below zero."""
        return f"alpha={self.alpha}" + (", inplace=True" * self.inplace)


class CELU(ELU):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    def function(self, input: Any) -> Any:
        """The continuously differentiable exponential linear unit."""
        return F.celu(input, self.alpha)


def _renamed(old: str, given: float | None, new: str, value: float) -> float:
    """What an argument says under the name that it had, with a warning; else under its own."""
    if given is None:
        return value
    warn(f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning)
    return given


class Hardtanh(_InPlace):
    """x clamped to [min_val, max_val]; ``ValueError`` unless min_val < max_val."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        min_val = _renamed("min_value", min_value, "min_val", min_val)
        max_val = _renamed("max_value", max_value, "max_val", max_val)
        if not max_val > min_val:
            raise ValueError(f"Hardtanh: max_val {max_val} must be above min_val {min_val}")
        self.min_val = min_val
        self.max_val = max_val

    def function(self, input: Any) -> Any:
        """x clamped."""
        return F.hardtanh(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The range."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" * self.inplace)


class Threshold(_InPlace):
    """x where it is above ``threshold``, else ``value``."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def function(self, input: Any) -> Any:
        """x or value."""
        return F.threshold(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        """Threshold and value."""
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" * self.inplace)


class GELU(Module):
    """x * P(Z <= x) for a standard normal Z; ``approximate="tanh"`` for the cheaper formula.

    >>> import tracejit as tj
    >>> tj.nn.GELU()(tj.tensor([0.0]))
    tensor([0.])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """The activation of every element."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Which formula."""
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        """tanh(x)."""
        return input.tanh()


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Any) -> Any:
        """sigmoid(x)."""
        return input.sigmoid()


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x)))."""

    def forward(self, input: Any) -> Any:
        """logsigmoid(x)."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Any) -> Any:
        """softsign(x)."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Any) -> Any:
        """tanhshrink(x)."""
        return F.tanhshrink(input)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        """softplus(x)."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Both parameters."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    """An activation that is zero on [-lambd, lambd]."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Half the width of the zero band."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x outside [-lambd, lambd], zero inside."""

    def forward(self, input: Any) -> Any:
        """hardshrink(x)."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards zero by ``lambd``, zero inside [-lambd, lambd]."""

    def forward(self, input: Any) -> Any:
        """softshrink(x)."""
        return F.softshrink(input, self.lambd)


class GLU(Module):
    """a * sigmoid(b) for the halves a, b of the input along ``dim``."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """glu(x)."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension that is halved."""
        return f"dim={self.dim}"


class PReLU(Module):
    """x above zero, ``weight * x`` below, with one learned weight or one per channel (dimension 1)."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = empty_parameter(num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to its initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        """prelu(x)."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"
