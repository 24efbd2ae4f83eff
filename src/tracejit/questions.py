"""Questions about values that PyTorch asks with functions, where tensors also have methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import ArgumentError
from .tensor import Tensor
from .tensor_info import Storage

__all__ = [
    "get_device",
    "is_complex",
    "is_distributed",
    "is_floating_point",
    "is_inference",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "numel",
    "typename",
]


def is_tensor(obj: Any) -> bool:
    """Is ``obj`` a tensor?

    >>> import tracejit as tj
    >>> tj.is_tensor(tj.ones(2)), tj.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def _of(name: str, method: Callable[[Any], Any], input: Any) -> Any:
    if not isinstance(input, Tensor):
        raise ArgumentError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    return method(input)


def is_floating_point(input: Tensor) -> bool:
    """Is the dtype a floating point type? Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.is_floating_point(tj.ones(2)), tj.is_floating_point(tj.arange(2))
    (True, False)
    """
    return bool(_of("is_floating_point", Tensor.is_floating_point, input))


def is_complex(input: Tensor) -> bool:
    """Is the dtype complex? Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.is_complex(tj.ones(2)), tj.is_complex(tj.tensor([1j]))
    (False, True)
    """
    return bool(_of("is_complex", Tensor.is_complex, input))


def is_signed(input: Tensor) -> bool:
    """Does the dtype hold negative numbers? Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.is_signed(tj.ones(2)), tj.is_signed(tj.ones(2, dtype=tj.uint8))
    (True, False)
    """
    return bool(_of("is_signed", Tensor.is_signed, input))


def is_inference(input: Tensor) -> bool:
    """Was the tensor made in `inference_mode`? Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.is_inference(tj.ones(2))
    False
    """
    return bool(_of("is_inference", Tensor.is_inference, input))


def get_device(input: Tensor) -> int:
    """The number of the device that the tensor lies on, -1 for the host. Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.get_device(tj.ones(2))
    -1
    """
    return int(_of("get_device", Tensor.get_device, input))


def _has_compatible_shallow_copy_type(input: Any, from_: Any) -> bool:
    """Can a tensor be given the memory of another one, because they lie on devices of the same kind?

    >>> import tracejit as tj
    >>> _has_compatible_shallow_copy_type(tj.ones(1), tj.ones(2))
    True
    """
    found: bool = input.device.type == from_.device.type
    return found


def is_distributed(input: Tensor) -> bool:
    """False: tensors lie on one machine. Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.is_distributed(tj.ones(2))
    False
    """
    return bool(_of("is_distributed", lambda _: False, input))


def is_nonzero(input: Tensor) -> bool:
    """The truth of a tensor with one element. Raises ``RuntimeError`` for other sizes.

    >>> import tracejit as tj
    >>> tj.is_nonzero(tj.tensor([0.5]))
    True
    """
    return bool(_of("is_nonzero", bool, input))


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Have the two tensors equal shapes? Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.is_same_size(tj.ones(2), tj.ones(2)), tj.is_same_size(tj.ones(2), tj.ones(1, 2))
    (True, False)
    """

    def same(x: Tensor) -> bool:
        return bool(x.shape == _of("is_same_size", lambda y: y.shape, other))

    return bool(_of("is_same_size", same, input))


def numel(input: Tensor) -> int:
    """The number of elements. Raises ``TypeError`` for what is no tensor.

    >>> import tracejit as tj
    >>> tj.numel(tj.ones(2, 3))
    6
    """
    return int(_of("numel", Tensor.numel, input))


def is_storage(obj: Any) -> bool:
    """Is ``obj`` the memory of a tensor?

    >>> import tracejit as tj
    >>> tj.is_storage(tj.ones(2).untyped_storage()), tj.is_storage(tj.ones(2))
    (True, False)
    """
    return isinstance(obj, Storage)


def typename(obj: Any) -> str:
    """The name of the kind of ``obj``: of a tensor with its dtype, of anything else the class with its module.

    >>> import tracejit as tj
    >>> tj.typename(tj.ones(2)), tj.typename([])
    ('tracejit.FloatTensor', 'list')
    """
    if isinstance(obj, Tensor):
        name: str = obj.type()
        return name
    cls = obj if isinstance(obj, type) else type(obj)
    plain = cls.__module__ in ("builtins", "__builtin__")
    return cls.__qualname__ if plain else f"{cls.__module__}.{cls.__qualname__}"


def _assert(condition: Any, message: Any = "") -> None:
    """``assert`` as a function."""
    assert condition, message
