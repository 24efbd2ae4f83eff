"""Layers that learn their input sizes from the first input."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..dtypes import get_default_dtype
from ..tensor import Tensor
from . import batchnorm, convolution, linear
from .module import Module
from .parameter import Buffer, Parameter
from .structure import changed

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "UninitializedBuffer",
    "UninitializedParameter",
]


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet.

    >>> import tracejit as tj
    >>> isinstance(tj.nn.LazyLinear(2).weight, tj.nn.UninitializedParameter)
    True
    """

    __slots__ = ()

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        kind = get_default_dtype() if dtype is None else dtype
        super().__init__(Tensor._wrap(np.zeros(0, kind.np)), requires_grad)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


class UninitializedBuffer(Buffer):
    """A buffer whose shape is not known yet.

    >>> import tracejit as tj
    >>> isinstance(tj.nn.LazyBatchNorm1d().running_mean, tj.nn.UninitializedBuffer)
    True
    """

    __slots__ = ()

    def __init__(self, device: Any = None, dtype: Any = None, persistent: bool = True) -> None:
        kind = get_default_dtype() if dtype is None else dtype
        super().__init__(Tensor._wrap(np.zeros(0, kind.np)), persistent)

    def __repr__(self) -> str:
        return "<UninitializedBuffer>"


#: Attributes that count what the first input tells; zero until then.
_SIZES = ("in_features", "in_channels", "num_features")


class _Lazy:
    """Becomes the layer ``becomes`` once it knows the size of its input.

    The arguments are kept; the first input, or a state that is loaded, tells the size. The class changes then, so that
    nothing of this remains.
    """

    becomes: ClassVar[type[Module]]
    names: ClassVar[tuple[str, ...]] = ("weight", "bias")
    statistics: ClassVar[tuple[str, ...]] = ()
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def _wait(self: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        Module.__init__(self)
        object.__setattr__(self, "_arguments", (arguments, options))
        made = self._made(options.get("groups", 1))
        for name, value in made.__dict__.items():
            self.__dict__.setdefault(name, 0 if name in _SIZES else value)
        for name in self.names:
            known = getattr(made, name, None) is not None
            self.register_parameter(name, UninitializedParameter() if known else None)
        for name in self.statistics:
            known = getattr(made, name, None) is not None
            self.register_buffer(name, UninitializedBuffer() if known else None)
        for name, buffer in made._buffers.items():
            if name not in self._buffers:  # the count of batches has its shape already
                self.register_buffer(name, buffer)

    def _made(self: Any, size: int) -> Module:
        """The layer for inputs of a size, which is its first argument."""
        arguments, options = self._arguments
        made: Module = self.becomes(size, *arguments, **options)
        return made

    def has_uninitialized_params(self) -> bool:
        """True: the size of the input is not known."""
        return True

    def initialize_parameters(self: Any, input: Any) -> None:
        """Take the size from ``input``."""
        self._become(self._made(self._size_of(input)))

    def _become(self: Any, made: Module) -> None:
        before = {name: self._parameters.get(name) for name in self.names}
        state = {**made.__dict__, "_hooks": self._hooks, "_version": self._version}
        training = self.training
        self.__dict__.clear()
        self.__class__ = type(made)
        self.__dict__.update(state)
        for name, parameter in before.items():
            if parameter is not None:
                self._parameters[name] = _filled(parameter, self._parameters[name])
        self.train(training)
        changed(self)

    def _size_of(self: Any, input: Any) -> int:
        return int(input.shape[1])

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The layer's result; the first call makes the parameters."""
        self.initialize_parameters(args[0])
        return self(*args, **kwargs)


def _filled(parameter: Any, made: Any) -> Any:
    """The parameter that optimizers may know already, with the values of the one just made."""
    array = made.array.astype(parameter.dtype.np, copy=False)  # it may have been converted since
    parameter.__class__ = Parameter
    parameter._array, parameter._block, parameter._pointer = array, None, 0
    parameter._type = parameter._layout = None
    return parameter


class _LazyChannels(_Lazy):
    """The size is the number of channels, in front of ``rank`` spatial dimensions."""

    rank: ClassVar[int]

    def _size_of(self: Any, input: Any) -> int:
        return int(input.shape[-self.rank - 1])


class LazyLinear(_Lazy, linear.Linear):
    """Linear whose ``in_features`` are those of the first input.

    >>> import tracejit as tj
    >>> layer = tj.nn.LazyLinear(2)
    >>> layer(tj.ones(4, 3)).shape, layer
    (tracejit.Size([4, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    becomes = linear.Linear

    def __init__(self, *args: Any, **options: Any) -> None:
        self._wait(args, options)

    def _size_of(self: Any, input: Any) -> int:
        return int(input.shape[-1])


def _lazy(name: str, becomes: Any, rank: int | None, **members: Any) -> Any:
    """The lazy form of a layer; one with running statistics has them, and weights, unless it is told otherwise."""
    usual = {"affine": 2, "track_running_stats": 3} if "statistics" in members else {}

    def begin(self: Any, *args: Any, **options: Any) -> None:
        left_out = {option: True for option, place in usual.items() if len(args) <= place}
        self._wait(args, {**left_out, **options})

    base = _Lazy if rank is None else _LazyChannels
    words = f"{becomes.__name__} whose number of channels is that of the first input."
    members.update(__doc__=words, __init__=begin, becomes=becomes, __module__=__name__)
    return type(name, (base, becomes), {**members, **({} if rank is None else {"rank": rank})})


_RUNNING = {"statistics": ("running_mean", "running_var")}
LazyConv1d, LazyConv2d, LazyConv3d = (
    _lazy(f"LazyConv{n}d", getattr(convolution, f"Conv{n}d"), n) for n in (1, 2, 3)
)
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(f"LazyConvTranspose{n}d", getattr(convolution, f"ConvTranspose{n}d"), n)
    for n in (1, 2, 3)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(f"LazyBatchNorm{n}d", getattr(batchnorm, f"BatchNorm{n}d"), None, **_RUNNING)
    for n in (1, 2, 3)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(f"LazyInstanceNorm{n}d", getattr(batchnorm, f"InstanceNorm{n}d"), n, **_RUNNING)
    for n in (1, 2, 3)
)
