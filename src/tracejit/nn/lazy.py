"""Layers that learn their input sizes from the first input."""

from __future__ import annotations

from typing import Any, ClassVar

from . import batchnorm, convolution, linear
from .module import Module
from .structure import changed
from .uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy

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
    "LazyModuleMixin",
]


#: Attributes that count what the first input tells; zero until then.
_SIZES = ("in_features", "in_channels", "num_features")


class LazyModuleMixin:
    """A module some of whose parameters or buffers get their shapes from the first input.

    A class that derives from it and from ``Module`` registers an :class:`UninitializedParameter` or buffer, and has
    ``initialize_parameters(*args)``, which takes the arguments of the first call and materializes them. The class
    becomes ``cls_to_become`` then, where one is given. A state that is loaded tells shapes, too. ``RuntimeError`` for a
    first call that leaves something without a shape.

    >>> import tracejit as tj
    >>> class Scale(LazyModuleMixin, tj.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = UninitializedParameter()
    ...     def initialize_parameters(self, x):
    ...         self.factor.materialize(x.shape[-1:])
    ...         tj.nn.init.ones_(self.factor)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale(tj.ones(2, 3)).shape, scale.has_uninitialized_params()
    (tracejit.Size([2, 3]), False)
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize what has no shape; the arguments are those of the first call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Is there a parameter or buffer without a shape?"""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's result; the first call gives shapes."""
        if "_is_settled" in self.__dict__:
            return Module.__call__(self, *args, **kwargs)
        self._infer_parameters(self, args, kwargs)
        return self(*args, **kwargs)

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        """Give shapes, for a first call with these arguments."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        if module.cls_to_become is None:
            module.__dict__["_is_settled"] = True
        else:
            module.__class__ = module.cls_to_become
        changed(module)

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool, /) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if is_lazy(tensor) and prefix + name in destination:
                destination[prefix + name] = tensor

    def _load_from_state_dict(self: Any, values: Any, prefix: str, *others: Any) -> None:
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            value = values.get(prefix + name)
            if is_lazy(tensor) and value is not None and not is_lazy(value):
                tensor.materialize(value.shape)
                changed(self)
        super()._load_from_state_dict(values, prefix, *others)  # type: ignore[misc]


class _Lazy(LazyModuleMixin):
    """Becomes the layer ``cls_to_become`` once it knows the size of its input; the arguments are kept until then."""

    cls_to_become: ClassVar[Any]
    names: ClassVar[tuple[str, ...]] = ("weight", "bias")
    statistics: ClassVar[tuple[str, ...]] = ()
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def _wait(self: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        Module.__init__(self)
        object.__setattr__(self, "_arguments", (arguments, options))
        made = self._made(options.get("groups", 1))
        kind: Any = {name: options.get(name) for name in ("device", "dtype")}
        for name, value in made.__dict__.items():
            self.__dict__.setdefault(name, 0 if name in _SIZES else value)
        for name in self.names:
            known = getattr(made, name, None) is not None
            self.register_parameter(name, UninitializedParameter(**kind) if known else None)
        for name in self.statistics:
            known = getattr(made, name, None) is not None
            self.register_buffer(name, UninitializedBuffer(**kind) if known else None)
        for name, buffer in made._buffers.items():
            if name not in self._buffers:  # the count of batches has its shape already
                self.register_buffer(name, buffer)

    def _made(self: Any, size: int) -> Any:
        """The layer for inputs of a size, which is its first argument."""
        arguments, options = self._arguments
        return self.cls_to_become(size, *arguments, **options)

    def initialize_parameters(self: Any, input: Any, *others: Any, **options: Any) -> None:
        """Take the size from ``input``, and the first values of what no state that was loaded has given."""
        size = self._size_of(input)
        made = self._made(size) if self.has_uninitialized_params() else None
        for table in (self._parameters, self._buffers):
            for name, tensor in table.items():
                if is_lazy(tensor):  # optimizers may know it, and it may have been converted
                    tensor._become(getattr(made, name).detach().to(tensor.device, tensor.dtype))
        for name in _SIZES:
            if name in self.__dict__:
                self.__dict__[name] = size
        self.__dict__.pop("_arguments", None)

    def _size_of(self: Any, input: Any) -> int:
        return int(input.shape[1])


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

    cls_to_become = linear.Linear

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
    members.update(__doc__=words, __init__=begin, cls_to_become=becomes, __module__=__name__)
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
