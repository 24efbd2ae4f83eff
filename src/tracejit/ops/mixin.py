"""Operators and methods shared by eager tensors and IR values: what gradient rules and composites may use."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from ..dtypes import DType, bool_
from ..errors import ArgumentError, ShapeError, warn
from ..types import TensorType
from . import elementwise as e
from .comparison import bitwise_not
from .keywords import as_called
from .movement import permute
from .table import FUNCTIONS, METHODS


def _binary(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """A dunder method that calls the published function ``name``."""

    def operator(self: Any, other: Any) -> Any:
        if not isinstance(other, _OPERANDS) and not _is_numpy_scalar(other):
            return NotImplemented
        function = FUNCTIONS[name]
        return function(other, self) if reflected else function(self, other)

    operator.__name__ = name
    return operator


def _inplace(name: str) -> Callable[[Any, Any], Any]:
    """``x += y`` as the in-place method; IR values, which are immutable, get a new value."""

    def operator(self: Any, other: Any) -> Any:
        if not isinstance(other, _OPERANDS) and not _is_numpy_scalar(other):
            return NotImplemented
        target = METHODS[name] if hasattr(self, "_assign") else FUNCTIONS[name[:-1]]
        return target(self, other)

    operator.__name__ = name
    return operator


def _write_part(whole: Any, name: str, value: Any) -> None:
    """``value`` into the real or the imaginary parts of a tensor."""
    if not isinstance(value, _OPERANDS) and not _is_numpy_scalar(value):
        raise TypeError(f"can't assign a {type(value).__name__} to a tensor")
    getattr(whole, name).copy_(value)


def _is_numpy_scalar(value: Any) -> bool:
    return isinstance(value, np.generic)  # arrays call back, by their functions


def _warn_of_turning(rank: int) -> None:
    if rank:
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*range(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    else:
        warn("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")


class OperatorMixin:
    """Arithmetic operators; methods are added from the registry of published functions."""

    __slots__ = ()
    __array_priority__ = 1000
    takes_varying_numbers = True  # operators between a varying number and this are this one's

    if TYPE_CHECKING:
        spec: TensorType

        def __getattr__(self, name: str) -> Any: ...

    @property
    def shape(self) -> Any:
        """The extents, as a tuple of ints that also answers ``numel()``."""
        return Size(self.spec.shape)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.spec.shape)

    __add__ = _binary("add")
    __radd__ = _binary("add", reflected=True)
    __sub__ = _binary("sub")
    __rsub__ = _binary("sub", reflected=True)
    __mul__ = _binary("mul")
    __rmul__ = _binary("mul", reflected=True)
    __truediv__ = _binary("div")
    __rtruediv__ = _binary("div", reflected=True)
    __rdiv__ = __rtruediv__
    __floordiv__ = _binary("floor_divide")
    __rfloordiv__ = _binary("floor_divide", reflected=True)
    __mod__ = _binary("remainder")
    __rmod__ = _binary("remainder", reflected=True)
    __pow__ = _binary("pow")
    __rpow__ = _binary("pow", reflected=True)
    __matmul__ = _binary("matmul")
    __rmatmul__ = _binary("matmul", reflected=True)
    __and__ = _binary("bitwise_and")
    __rand__ = _binary("bitwise_and", reflected=True)
    __or__ = _binary("bitwise_or")
    __ror__ = _binary("bitwise_or", reflected=True)
    __xor__ = _binary("bitwise_xor")
    __rxor__ = _binary("bitwise_xor", reflected=True)
    __eq__ = _binary("eq")
    __ne__ = _binary("ne")
    __lt__ = _binary("lt")
    __le__ = _binary("le")
    __gt__ = _binary("gt")
    __ge__ = _binary("ge")
    __lshift__ = _binary("bitwise_left_shift")
    __rlshift__ = _binary("bitwise_left_shift", reflected=True)
    __rshift__ = _binary("bitwise_right_shift")
    __rrshift__ = _binary("bitwise_right_shift", reflected=True)
    __iadd__ = _inplace("add_")
    __isub__ = _inplace("sub_")
    __imul__ = _inplace("mul_")
    __itruediv__ = _inplace("div_")
    __ifloordiv__ = _inplace("floor_divide_")
    __imod__ = _inplace("remainder_")
    __ipow__ = _inplace("pow_")
    __iand__ = _inplace("bitwise_and_")
    __ior__ = _inplace("bitwise_or_")
    __ixor__ = _inplace("bitwise_xor_")
    __ilshift__ = _inplace("bitwise_left_shift_")
    __irshift__ = _inplace("bitwise_right_shift_")
    __hash__ = object.__hash__

    @property
    def T(self) -> Any:  # noqa: N802
        """The dimensions in reverse order; with a warning unless there are two."""
        if self.ndim != 2:
            _warn_of_turning(self.ndim)
        return permute(self, dims=tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two dimensions exchanged; ``RuntimeError`` for vectors. A number stays as it is."""
        if not self.ndim:
            return self
        if self.ndim < 2:
            raise ShapeError(
                "tensor.mT is only supported on matrices or batches of matrices. "
                f"Got {self.ndim}-D tensor."
            )
        return FUNCTIONS["transpose"](self, -2, -1)

    @property
    def H(self) -> Any:  # noqa: N802
        """The conjugate transpose of a matrix; ``RuntimeError`` for others. A number has its conjugate."""
        if self.ndim not in (0, 2):
            raise ShapeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor."
            )
        return FUNCTIONS["conj"](FUNCTIONS["t"](self))

    @property
    def mH(self) -> Any:  # noqa: N802
        """The last two dimensions exchanged, conjugates; ``RuntimeError`` below two dimensions."""
        return FUNCTIONS["adjoint"](self)

    @property
    def real(self) -> Any:
        """The real parts; the tensor itself when it is not complex. What is assigned to them is written into them."""
        return FUNCTIONS["real"](self)

    @real.setter
    def real(self, value: Any) -> None:
        _write_part(self, "real", value)

    @property
    def imag(self) -> Any:
        """The imaginary parts; ``RuntimeError`` when it is not complex. What is assigned is written into them."""
        return FUNCTIONS["imag"](self)

    @imag.setter
    def imag(self, value: Any) -> None:
        _write_part(self, "imag", value)

    def __neg__(self) -> Any:
        return e.neg(self)

    def __pos__(self) -> Any:
        if self.dtype is bool_:
            raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
        return self

    def __abs__(self) -> Any:
        return FUNCTIONS["abs"](self)

    def __invert__(self) -> Any:
        if self.dtype.is_differentiable:
            raise ArgumentError(
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
            )
        return bitwise_not(self)


#: What the operators take besides scalars of NumPy.
_OPERANDS = (OperatorMixin, bool, int, float, complex)


_part_of = tuple.__getitem__


class Size(tuple[int, ...]):
    """A shape: a tuple of ints with ``numel()``. Parts and sums of shapes are shapes.

    >>> Size((2, 3)).numel(), Size((2, 3))
    (6, tracejit.Size([2, 3]))
    >>> Size((2, 3, 4))[1:].numel(), (5,) + Size((2,))
    (12, tracejit.Size([5, 2]))
    """

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: Any) -> Any:
        item = _part_of(self, index)
        return Size(item) if type(item) is tuple else item

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: Any) -> Any:
        return Size(tuple.__mul__(self, count)) if isinstance(count, int) else NotImplemented

    __rmul__ = __mul__

    def numel(self) -> int:
        """The product of the extents."""
        count = 1
        for extent in self:
            count *= extent
        return count

    def __repr__(self) -> str:
        return f"tracejit.Size([{', '.join(map(str, self))}])"


def as_method(name: str, target: Callable[..., Any]) -> Callable[..., Any]:
    """``target`` as a method: the tensor is its first argument.

    >>> as_method("double", lambda x: x * 2)(21)
    42
    """

    if isinstance(target, FunctionType):
        called: FunctionType = as_called(target, method=True)
        return called

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return target(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = target.__doc__
    method.__wrapped__ = target  # type: ignore[attr-defined]
    return method
