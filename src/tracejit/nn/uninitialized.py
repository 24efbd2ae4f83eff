"""Parameters and buffers whose shape is not known yet."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np

from ..autograd.grad_mode import no_grad
from ..dtypes import get_default_dtype
from ..errors import ArgumentValueError
from ..ops.functions.factories import empty
from ..tensor import Tensor
from .parameter import Buffer, Parameter

__all__ = [
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class UninitializedTensorMixin:
    """What tensors without a shape share: they get one, and memory, by :meth:`materialize`."""

    __slots__ = ()

    cls_to_become: ClassVar[type[Tensor]]

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of ``shape`` whose elements are not set; dtype and device stay unless they are given."""
        with no_grad():
            made = empty(shape, dtype=dtype or self.dtype, device=device or self.device)
        self._become(made)

    def _become(self, made: Tensor) -> None:
        """Take the memory of a new tensor. Whoever knows this one, an optimizer say, knows what it became."""
        this: Any = self
        this.__class__ = self.cls_to_become
        this._array, this._block, this._pointer = made.array, made._block, 0
        this._type = this._layout = None

    @property
    def shape(self) -> NoReturn:
        """Refused. Raises ``RuntimeError``."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def numel(self) -> NoReturn:
        """Refused. Raises ``ValueError``."""
        raise ArgumentValueError(
            "Attempted to use an uninitialized parameter in numel. This error happens when you are using a lazy module "
            "or explicitly manipulating uninitialized parameters: call `forward` with a dummy batch first."
        )

    def share_memory_(self) -> NoReturn:
        """Refused. Raises ``RuntimeError``."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = self._alike()
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    >>> import tracejit as tj
    >>> parameter = tj.nn.UninitializedParameter()
    >>> parameter.materialize((2, 3))
    >>> type(parameter), parameter.shape
    (<class 'tracejit.nn.parameter.Parameter'>, tracejit.Size([2, 3]))
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(_nothing(device, dtype), requires_grad)

    def _alike(self) -> UninitializedParameter:
        return type(self)(self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet.

    >>> import tracejit as tj
    >>> isinstance(tj.nn.LazyBatchNorm1d().running_mean, tj.nn.UninitializedBuffer)
    True
    """

    __slots__ = ()
    cls_to_become = Buffer

    def __init__(
        self,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> None:
        super().__init__(_nothing(device, dtype), persistent)
        self.requires_grad_(requires_grad)

    def _alike(self) -> UninitializedBuffer:
        return type(self)(self.requires_grad, self.device, self.dtype, self.persistent)


def _nothing(device: Any, dtype: Any) -> Tensor:
    kind = get_default_dtype() if dtype is None else dtype
    tensor = Tensor._wrap(np.zeros(0, kind.np))
    return tensor if device is None else tensor.to(device)


def is_lazy(param: Any) -> bool:
    """Is it a parameter or buffer without a shape?

    >>> import tracejit as tj
    >>> is_lazy(tj.nn.LazyLinear(2).weight), is_lazy(tj.nn.Linear(2, 2).weight)
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


def must_have_a_shape(param: Any, what: str) -> None:
    """``ValueError`` for what has no shape, where ``what`` would work on its elements.

    >>> import tracejit as tj
    >>> must_have_a_shape(tj.nn.Linear(1, 1).weight, "weight_norm")
    """
    if is_lazy(param):
        raise ArgumentValueError(
            f"The module passed to {what} can't have uninitialized parameters. Make sure to run the dummy forward "
            f"before applying {what}"
        )
