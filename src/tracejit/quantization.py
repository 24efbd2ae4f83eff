"""Quantization, which this package does not do: where a model would begin and end it, values pass as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from .made_modules import make_module
from .nn import Identity, Module
from .ops.functions import joining
from .tensor import Tensor

__all__ = [
    "DeQuantStub",
    "FloatFunctional",
    "QConfig",
    "QuantStub",
    "convert",
    "prepare",
    "prepare_qat",
    "quantize_dynamic",
]


class QConfig(NamedTuple):
    """What would look at numbers to quantize them; it can be attached to models."""

    activation: Any
    weight: Any


class QuantStub(Identity):
    """Where a model that is prepared would go over to whole numbers: hands on what it is given.

    >>> import tracejit as tj
    >>> QuantStub()(tj.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig


class DeQuantStub(QuantStub):
    """Where a model that is prepared would come back from whole numbers: hands on what it is given.

    >>> import tracejit as tj
    >>> DeQuantStub()(tj.ones(2))
    tensor([1., 1.])
    """


class FloatFunctional(Module):
    """Sums and products of a model as methods, where one that is prepared would look at their results.

    >>> import tracejit as tj
    >>> FloatFunctional().add(tj.ones(2), 1)
    tensor([2., 2.])
    """

    def forward(self, x: Any) -> NoReturn:
        """Refused, as in PyTorch. Raises ``RuntimeError``."""
        raise RuntimeError("call a method of it (add, mul, cat, ...)")

    def add(self, x: Tensor, y: Any) -> Any:
        """``x + y``."""
        return x + y

    def mul(self, x: Tensor, y: Any) -> Any:
        """``x * y``."""
        return x * y

    add_scalar, mul_scalar = add, mul

    def matmul(self, x: Tensor, y: Tensor) -> Any:
        """``x @ y``."""
        return x @ y

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Any:
        """The tensors one behind the other."""
        return joining.cat(x, dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Any:
        """``relu(x + y)``."""
        return (x + y).relu()


def prepare(*_: Any, **__: Any) -> NoReturn:
    """Refused. Raises ``NotImplementedError``.

    >>> prepare(None)
    Traceback (most recent call last):
    NotImplementedError: models are not quantized; bfloat16 and float16 (model.bfloat16(), autocast) are what there is
    """
    raise NotImplementedError(
        "models are not quantized; bfloat16 and float16 (model.bfloat16(), autocast) are what there is"
    )


prepare_qat = convert = quantize_dynamic = prepare


class _Quantized:
    """What quantizes, or is quantized: there is none."""

    __init__ = prepare


def _make(path: str, names: str, **more: Any) -> None:
    """A module of classes that can be imported, asked for, and not made."""
    kinds = {name: type(name, (_Quantized,), {"__module__": __name__}) for name in names.split()}
    make_module(path, **kinds, **more)


_make(
    "quantization.observer",
    "ObserverBase HistogramObserver MinMaxObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver"
    " MovingAveragePerChannelMinMaxObserver PlaceholderObserver",
)
make_module("quantization.qconfig", QConfig=QConfig)
_make(
    "nn.quantized",
    "BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d Linear Embedding LayerNorm Quantize DeQuantize",
    FloatFunctional=FloatFunctional,
)
