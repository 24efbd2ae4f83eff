"""``FloatTensor`` and its kin: the constructors of old, and what ``isinstance`` checks against.

>>> import tracejit as tj
>>> tj.LongTensor([1, 2]), isinstance(tj.zeros(1), tj.FloatTensor)
(tensor([1, 2]), True)

Those of GPUs are found without one, too: programs ask whether a tensor is of either kind.

>>> isinstance(tj.zeros(1), (tj.cuda.LongTensor, tj.cuda.FloatTensor))
False
"""

from __future__ import annotations

from typing import Any

from . import dtypes
from .dtypes import DType
from .errors import ArgumentError
from .tensor import Tensor
from .tensor_make import tensor


class TensorKind(type):
    """The class of these classes: a tensor is an instance of the one that has its dtype and its kind of device."""

    dtype: DType
    is_cuda: bool

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Tensor) or instance.dtype is not cls.dtype:
            return False
        return instance.is_cuda is cls.is_cuda

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        """A tensor of the given sizes, or of the given values."""
        made = constructed(cls.dtype, data)
        return made.cuda() if cls.is_cuda else made


def constructed(dtype: DType, data: tuple[Any, ...]) -> Tensor:
    """``Tensor(2, 3)`` has sizes, ``Tensor([2, 3])`` values. Raises ``TypeError`` for anything else."""
    if len(data) == 1 and isinstance(data[0], Tensor):
        (given,) = data
        if given.dtype is not dtype:
            raise ArgumentError(f"expected {dtype.tensor_name} (got {given.dtype.tensor_name})")
        alias: Tensor = given._alias()
        return alias
    if len(data) == 1 and isinstance(data[0], (float, complex)):
        raise ArgumentError(f"new(): data must be a sequence (got {type(data[0]).__name__})")
    if len(data) == 1 and not _is_number(data[0]) and not _is_size(data[0]):
        made: Tensor = tensor(data[0], dtype=dtype)
        return made
    sizes = data[0] if data and _is_size(data[0]) else data
    if not all(map(_is_number, sizes)):
        raise ArgumentError(
            f"new(): invalid combination of arguments - got {[type(n).__name__ for n in data]}"
        )
    from .ops.source import full

    shape = tuple(sizes) if data else (0,)
    empty: Tensor = full(shape=shape, value=0, dtype=dtype)
    return empty


def _is_number(value: Any) -> bool:
    """Is this one number? (NumPy's arrays have ``__index__`` too.)"""
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def _is_size(value: Any) -> bool:
    return type(value).__name__ == "Size" and isinstance(value, tuple)


def _kinds(is_cuda: bool) -> dict[str, TensorKind]:
    """The kinds of a device by name."""
    place, module = (" on a GPU", "tracejit.cuda") if is_cuda else ("", "tracejit")
    found = {}
    for dtype in dtypes.ALL:
        name = f"{dtype.title}Tensor"
        words = f"Tensors of {dtype.name}{place}: ``{name}(2, 3)`` has sizes, ``{name}([2, 3])`` values."
        body = {"dtype": dtype, "is_cuda": is_cuda, "__doc__": words, "__module__": module}
        found[name] = TensorKind(name, (), body)
    return found


class SparseKind:
    """A constructor of old for tensors of one dtype from places, values and a size.

    >>> import tracejit as tj
    >>> tj.sparse.FloatTensor(tj.tensor([[1]]), tj.tensor([5.0]), tj.Size([3]))
    tensor([0., 5., 0.])
    """

    def __init__(self, name: str) -> None:
        self.dtype = dtypes.by_name(name)

    def __call__(self, indices: Any, values: Any, size: Any = None) -> Tensor:
        """The tensor with these values."""
        from .ops.functions.sparse import sparse_coo_tensor

        made: Tensor = sparse_coo_tensor(indices, values, size, dtype=self.dtype)
        return made


class _AnyKind(TensorKind):
    """The class of :class:`Variable`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, *data: Any, device: Any = None, **options: Any) -> Tensor:
        """``data`` itself without history, requiring grad or not (its second argument)."""
        if not data:
            return constructed(dtypes.get_default_dtype(), ())
        given = data[0]
        alias: Tensor = given.detach() if given.requires_grad else given
        wanted = options.get("requires_grad", data[1] if len(data) > 1 else False)
        return alias.requires_grad_() if wanted else alias


class Variable(metaclass=_AnyKind):
    """What tensors with gradients were called: ``Variable(data)`` is ``data``, and every tensor is a Variable.

    >>> import tracejit as tj
    >>> tj.autograd.Variable(tj.ones(2), requires_grad=True).requires_grad
    True
    """


#: All of them by name, those of the host and those of GPUs.
KINDS, GPU_KINDS = _kinds(False), _kinds(True)
