"""The eager tensor: values, a place in the autograd graph, and storage it may share with views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import ops
from .answering import ANSWERS, watched
from .memory_formats import contiguous_format, strided
from .modes import MODES
from .ops.table import METHODS
from .tensor_autograd import AutogradMethods
from .tensor_core import TensorCore, Version, ViewStep
from .tensor_info import InfoMethods
from .tensor_inplace import InplaceMethods, write_through
from .tensor_older import OlderMethods
from .tensor_parts import PLAIN
from .tensor_protocols import ProtocolMethods
from .types import TensorType

if TYPE_CHECKING:  # the methods of the table, which are installed when it is complete
    from .typed_methods import TypedMethods
else:
    TypedMethods = AutogradMethods

__all__ = ["Tensor", "Version", "ViewStep", "install_methods", "write_through"]


class Tensor(
    TypedMethods,
    InplaceMethods,
    InfoMethods,
    OlderMethods,
    ProtocolMethods,
    TensorCore,
):
    """A multi-dimensional array that can record the operations done to it.

    Made by :func:`tracejit.tensor` and the other factories; ``Tensor(2, 3)`` and ``Tensor([2, 3])`` make tensors of the
    default dtype, of sizes and of values. Raises ``TypeError`` for other arguments.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ()

    def __new__(cls, *data: Any, **options: Any) -> Tensor:
        """A tensor of sizes or values."""
        from .dtypes import get_default_dtype
        from .tensor_kinds import constructed

        made = constructed(get_default_dtype(), data)
        return made if cls is Tensor else cls._make_subclass(cls, made)

    def __init__(self, *data: Any, **options: Any) -> None:
        if not hasattr(self, "_array"):  # else it was made already
            super().__init__()

    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:
        """A leaf of class ``cls``, mostly for its ``__new__``, on the memory of ``data``."""
        made: Tensor = _new(cls)
        made._share(data)
        if require_grad:
            made.requires_grad_()
        return watched(made)

    @staticmethod
    def _make_wrapper_subclass(
        cls: Any,
        size: Any,
        strides: Any = None,
        storage_offset: Any = None,
        memory_format: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
        _extra_dispatch_keys: Any = None,
        storage_size: Any = None,
    ) -> Any:
        """A tensor of a class that answers for operators: without elements of its own, but a type and a device.

        Raises ``NotImplementedError`` where its class is to answer for its size, layout and device, too, and for
        memory of another order or size than ``strides`` tell.
        """
        asked = {
            "memory_format": memory_format not in (None, contiguous_format),
            "layout": layout not in (None, strided),
            "pin_memory": pin_memory,
            "dispatch_sizes_strides_policy": dispatch_sizes_strides_policy,
            "dispatch_device": dispatch_device,
            "dispatch_layout": dispatch_layout,
            "_extra_dispatch_keys": _extra_dispatch_keys,
            "storage_size": storage_size is not None,
        }
        refused = [name for name, value in asked.items() if value]
        if refused:
            raise NotImplementedError(f"_make_wrapper_subclass: {', '.join(refused)} cannot be set")
        return ANSWERS.made_of(cls, size, strides, storage_offset, dtype, device, requires_grad)

    def as_subclass(self, cls: Any) -> Any:
        """The same memory and history as a tensor of a class.

        >>> import tracejit as tj
        >>> type(tj.ones(1).as_subclass(tj.nn.Buffer)).__name__
        'Buffer'
        """
        return ANSWERS.as_class(self, cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What tensors of a class do with a function that one of them is given to: results are of the class."""
        return ANSWERS.default(cls, func, types, args, kwargs)

    def _share(self, data: Tensor) -> None:
        """Show the memory of ``data``, without its history."""
        self._begin()
        self._array = data._array
        self._block = data._block
        self._pointer = data._pointer
        self._type = data._type
        self._layout = data._layout
        self._writes = data._writes
        if MODES.recorder is not None and not data._stands_for_samples():
            MODES.recorder.detach(data, self)

    @classmethod
    def _wrap(cls, array: Any) -> Tensor:
        """A tensor on an array, without copying."""
        self: Tensor = _new(Tensor)
        self._array = array
        self._block = None
        self._pointer = 0
        self._type = None
        self._layout = None
        self._requires_grad = False
        self._grad_fn = None
        self._writes = Version()
        self._base = None
        self._inference = False
        return self

    @classmethod
    def _of_block(cls, block: Any, type: TensorType, layout: Any) -> Tensor:
        """A contiguous tensor on a memory block."""
        self: Tensor = _new(Tensor)
        self._array = None
        self._block = block
        self._pointer = block.ptr
        self._type = type
        self._layout = layout
        self._requires_grad = False
        self._grad_fn = None
        self._writes = Version()
        self._base = None
        self._inference = False
        return self


PLAIN.add(Tensor)
_new = object.__new__


def install_methods() -> None:
    """Publish every function of the registry as a method, once the table is complete.

    Methods written out in the tensor classes win on tensors; IR values get the published ones.

    >>> import tracejit as tj
    >>> tj.tensor(-1.0).abs()
    tensor(1.)
    """
    for name, target in METHODS.items():
        if name not in ops.OperatorMixin.__dict__:
            setattr(ops.OperatorMixin, name, ops.as_method(name, target))
