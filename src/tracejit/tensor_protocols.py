"""What Python, NumPy and other libraries ask of a tensor: numbers, sequences, arrays, DLPack, copies, pickles, text."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ops
from .copied_tensor import clone_in_order, copy_gradient, deep_array, of_class
from .cuda.arrays import fetched, is_on_device, placed, told
from .device import CPU, device, device_at
from .errors import ArgumentError, ArgumentValueError, AutogradError, ConversionError
from .lengths import compared_length
from .meta import META
from .mirrored import Mirrored
from .modes import MODES
from .ops.table import FUNCTIONS
from .tensor_core import TensorCore

if TYPE_CHECKING:
    from .tensor import Tensor

_UFUNCS = {
    **{name: name for name in ("add", "floor_divide", "remainder", "matmul")},
    **{name: name for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "subtract": "sub",
    "multiply": "mul",
    "true_divide": "div",
    "divide": "div",
    "power": "pow",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}


class ProtocolMethods(TensorCore):
    """Conversions out of the world of tensors."""

    __slots__ = ()

    # --- Python numbers and sequences -------------------------------------------------------------

    def item(self) -> bool | int | float:
        """The value of a one-element tensor as a Python number; ``RuntimeError`` for more elements.

        >>> import tracejit as tj
        >>> tj.tensor([2.5]).item()
        2.5
        """
        array = self._data("Tensor.item() cannot be called on meta tensors")
        if array.size != 1:
            raise ConversionError(
                f"a Tensor with {array.size} elements cannot be converted to Scalar"
            )
        try:
            value: bool | int | float = array.item()
        except RuntimeError as error:
            raise told(error) from None
        if self.dtype.is_extension:
            value = float(value)
        if MODES.recorder is not None:
            return MODES.recorder.number_read(self, value)  # type: ignore[no-any-return]
        return value

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; a number for a 0-d tensor.

        >>> import tracejit as tj
        >>> tj.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        if MODES.recorder is not None:
            if not self.spec.shape:
                return self.item()
            if MODES.recorder.follows_items(self):
                return [x.tolist() for x in self.unbind(0)]
            sizes = MODES.recorder.read(self, "tolist()")
            if sizes is not None:
                return sizes
        array = fetched(self.array)
        return (array.astype(np.float32) if self.dtype.is_extension else array).tolist()

    def __bool__(self) -> bool:
        array = self._data("Tensor.item() cannot be called on meta tensors")
        if array.size != 1:
            count = "no values" if array.size == 0 else "more than one value"
            raise ConversionError(
                f"Boolean value of Tensor with {count} is ambiguous",
                "" if array.size == 0 else "Use .any() or .all().",
            )
        try:
            value = bool(array)
        except RuntimeError as error:
            raise told(error) from None
        if MODES.recorder is not None:
            return MODES.recorder.guard(self, value)  # type: ignore[no-any-return]
        return value

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def _number(self, real: bool = True) -> Any:
        if self.array.size != 1:
            raise ArgumentValueError("only one element tensors can be converted to Python scalars")
        value: Any = self.item()
        if real and isinstance(value, complex):
            raise ConversionError("value cannot be converted to a real number without loss")
        return value

    def __complex__(self) -> complex:
        return complex(self._number(real=False))

    def __index__(self) -> int:
        if self.dtype.is_differentiable or self.array.size != 1:
            raise ArgumentError(
                "only integer tensors of a single element can be converted to an index"
            )
        return int(self.item())

    def __len__(self) -> int:
        shape = self.spec.shape
        if not shape:
            raise ArgumentError("len() of a 0-d tensor")
        count: int = shape[0]
        return count if type(count) is int else compared_length(count)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.spec.shape:
            raise ArgumentError("iteration over a 0-d tensor")
        return (_row(self, index) for index in range(self.spec.shape[0]))

    def __reversed__(self) -> Any:
        if not self.spec.shape:
            return self
        return FUNCTIONS["flip"](self, 0)

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (TensorCore, bool, int, float, complex, np.number, np.bool_)):
            raise ConversionError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool(FUNCTIONS["any"](FUNCTIONS["eq"](self, element)))

    # --- NumPy ------------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The values as a NumPy array that shares memory with this tensor.

        Raises ``RuntimeError`` when the tensor requires grad, unless ``force`` or where gradients are off.

        >>> import tracejit as tj
        >>> tj.tensor([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        if not force and MODES.grad and self.requires_grad:
            raise AutogradError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if not force and type(self._block) is Mirrored:
            bit, name = ("conjugate", "conj") if self.dtype.is_complex else ("negative", "neg")
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{name}().numpy() instead."
            )
        if not force and self._device_index() != -1:
            raise ArgumentError(
                f"can't convert {self.device} device type tensor to numpy.",
                "Use Tensor.cpu() to copy the tensor to host memory first.",
            )
        recorder = MODES.recorder
        array: np.ndarray[Any, Any] | None = None if recorder is None else recorder.array_of(self)
        # A view, so that reshaping the result in place does not reach into the tensor.
        if array is None:
            array = fetched(self.array).view()
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = np.asarray(self.numpy())
        if dtype is not None and array.dtype != np.dtype(dtype):
            if copy is False:
                raise ValueError(f"a copy is needed to convert {self.dtype!r} to {np.dtype(dtype)}")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """``ndarray op tensor`` is a tensor operation; other ufuncs compute in NumPy and give tensors."""
        name = _UFUNCS.get(ufunc.__name__)
        if method == "__call__" and not kwargs and name in FUNCTIONS:
            from .interop import operands_of

            return FUNCTIONS[name](*operands_of(name, inputs))
        out = kwargs.get("out", ())
        if any(isinstance(x, TensorCore) for x in out):
            return NotImplemented
        arrays = [x.__array__() if isinstance(x, ProtocolMethods) else x for x in inputs]
        result = getattr(ufunc, method)(*arrays, **kwargs)
        if out:
            return result
        if isinstance(result, tuple):
            return tuple(self._wrap(np.asarray(r)) for r in result)
        return self._wrap(np.asarray(result))

    # --- DLPack -----------------------------------------------------------------------------------

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the storage; ``BufferError`` when the tensor requires grad."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if type(self._block) is Mirrored and self.dtype.is_complex:
            raise BufferError("Can't export tensors with the conjugate bit set")
        if is_on_device(self.array):
            if MODES.recorder is not None:
                MODES.recorder.escape(self, "__dlpack__()")
            array = self.array
            if copy and dl_device in (None, self.__dlpack_device__()):
                array, copy = array.copy(), None  # CuPy copies to the host only
            return array.__dlpack__(
                stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
            )
        if self.dtype.is_extension:
            raise BufferError(
                f"{self.dtype.name} tensors cannot be exported: NumPy has no DLPack code for it"
            )
        array = self.numpy()
        return array.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        index = self.get_device()
        return (1, 0) if index < 0 else (2, index)

    @property
    def __cuda_array_interface__(self) -> Any:
        """Memory on a GPU as other libraries read it, without copying; ``AttributeError`` on the host."""
        array = self.array
        if not is_on_device(array):
            raise AttributeError(
                "Can't get __cuda_array_interface__ on non-CUDA tensor. Use tensor.cuda() first."
            )
        if self.requires_grad:
            raise AutogradError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. Use tensor.detach() first."
            )
        if MODES.recorder is not None:
            MODES.recorder.escape(self, "__cuda_array_interface__")
        return array.__cuda_array_interface__

    # --- copies, pickles --------------------------------------------------------------------------

    def __copy__(self) -> Tensor:
        """Another tensor on the same storage, in the same place of the graph."""
        if self._copied_by_ops() and self._grad is None and not self.requires_grad:
            alias: Tensor = self.detach()
            return alias
        other = self._of_my_class(self.array)
        other._writes = self._writes
        other._requires_grad, other._grad_fn = self.requires_grad, self._grad_fn
        if self._output_nr:
            other._output_nr = self._output_nr
        other._grad = self._grad
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            known: Tensor = memo[id(self)]
            return known
        if not self.is_leaf:
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment.",
                "Copy tensor.detach(), or clone() it.",
            )
        if self._copied_by_ops():
            copied: Tensor = clone_in_order(self)
            memo[id(self)] = copied
            if self._requires_grad:
                copied.requires_grad_()
            copy_gradient(self, copied)
            return copied
        other = memo[id(self)] = self._of_my_class(deep_array(self.array, memo), memo)
        other._requires_grad = self._requires_grad
        if self._grad is not None:
            other._grad = self._grad.__deepcopy__(memo)
        return other

    def _copied_by_ops(self) -> bool:
        """Is a recording going on, which hears of a copy that is made by operations?"""
        from .tensor import Tensor

        return MODES.recorder is not None and type(self) is Tensor

    def _of_my_class(self, array: Any, memo: dict[int, Any] | None = None) -> Tensor:
        """A tensor on ``array`` with this one's class, and copies of what answers for its operators."""
        made: Tensor = of_class(type(self), array)
        if self._shown_at is not None:
            own = self._attached()
            made.__dict__.update(own if memo is None else deepcopy(own, memo))
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.is_leaf and self.requires_grad:
            raise AutogradError(
                "cannot pickle a tensor that was computed in a graph that requires grad",
                "Pickle tensor.detach() instead.",
            )
        if MODES.recorder is not None:
            MODES.recorder.escape(self, "pickling")
        kind = type(self)
        data = np.ascontiguousarray(fetched(self.array)).reshape(self.array.shape)
        parts = (kind, data.tobytes(), self.dtype, data.shape, self._requires_grad)
        return _rebuild, (*parts, self.get_device())

    # --- text -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        from .printing import tensor_text

        recorder, MODES.recorder = MODES.recorder, None
        try:
            text = tensor_text(self)  # type: ignore[arg-type]
        finally:
            MODES.recorder = recorder
        if recorder is not None:
            recorder.escape(self, "repr()")
        return text

    def __format__(self, spec: str) -> str:
        if not self.spec.shape:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *ops.table.METHODS})

    __hash__ = object.__hash__

    @property
    def device(self) -> device:
        """Where the storage lives."""
        index = self._device_index()
        if index == META and self._shown_at is not None:
            shown: device = self._shown_at
            return shown
        return CPU if index == -1 else device_at(index)


def _row(tensor: Any, index: int) -> Tensor:
    """``tensor[index]``, a view."""
    row: Any = tensor._mere_part(index) if MODES.unusual is None else None
    if row is None:
        shape = tensor.spec.shape
        starts = (index,) + (0,) * (len(shape) - 1)
        counts, steps = (1, *shape[1:]), (1,) * len(shape)
        part = ops.movement.slice(tensor, starts=starts, counts=counts, steps=steps)
        row = ops.movement.squeeze(part, dims=(0,))
    ops.overlaps.are_pieces([row], "Unbind")
    found: Tensor = row
    return found


def _rebuild(
    kind: Any,
    data: bytes,
    dtype: Any,
    shape: tuple[int, ...],
    requires_grad: bool,
    index: int = -1,
) -> Any:
    """A tensor from its pickled parts, on the device it was on."""
    array = placed(np.frombuffer(bytearray(data), dtype.np).reshape(shape), index)
    tensor = of_class(kind, array)
    tensor._requires_grad = requires_grad
    return tensor
