# ruff: noqa: N999
"""What programs import from PyTorch's compiled core: classes that have a place of their own here, and questions.

The answers are those of a package without a script compiler. A core there is not, so everything else is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from . import fft as _fft
from . import linalg as _linalg
from . import special as _special
from .autograd.grad_mode import is_grad_enabled
from .device import device
from .dispatch_keys import DispatchKey, DispatchKeySet
from .dispatch_keys import ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard
from .dtypes import DType as dtype  # noqa: N813  (PyTorch's spelling)
from .errors import LinAlgError as _LinAlgError
from .made_modules import make_module
from .memory_formats import memory_format
from .nn import functional
from .nn.tree import _wanted
from .ops.mixin import Size
from .random import Generator, default_generator
from .scripting import is_tracing as _is_tracing
from .settings import get_num_threads, set_flush_denormal
from .tensor import Tensor as TensorBase

__all__ = [
    "DispatchKey",
    "DispatchKeySet",
    "Generator",
    "Size",
    "TensorBase",
    "_ExcludeDispatchKeyGuard",
    "_LinAlgError",
    "_TensorBase",
    "_TensorMeta",
    "_is_tracing",
    "default_generator",
    "device",
    "dtype",
    "get_num_threads",
    "is_grad_enabled",
    "memory_format",
    "set_flush_denormal",
]

_TensorBase = TensorBase


class _KindsOfTensors(type):
    def __instancecheck__(cls, kind: object) -> bool:
        return type.__instancecheck__(cls, kind) or (
            cls is _TensorMeta and isinstance(kind, type) and issubclass(kind, TensorBase)
        )


class _TensorMeta(type, metaclass=_KindsOfTensors):
    """The class of classes of tensors, for those that programs derive from it; every class of tensors counts."""


#: Inside them, classes of tensors take no functions over: they never do.
DisableTorchFunction = DisableTorchFunctionSubclass = contextlib.nullcontext

#: Classes of scripted programs. Nothing here makes one, but editors import such names by themselves.
_SCRIPTED = (
    *(
        "AnyType",
        "Argument",
        "Block",
        "BoolType",
        "ClassType",
        "Code",
        "DictType",
        "EnumType",
        "FloatType",
    ),
    *(
        "FunctionSchema",
        "Graph",
        "IntType",
        "InterfaceType",
        "ListType",
        "Node",
        "NoneType",
        "NumberType",
    ),
    *("OptionalType", "StringType", "TensorType", "TupleType", "Type", "UnionType", "Use", "Value"),
)


class _Scripted:
    """A part of a scripted program, of which there are none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{type(self).__name__}: there are no scripted programs here")


globals().update({name: type(name, (_Scripted,), {"__module__": __name__}) for name in _SCRIPTED})


def _disabled_torch_function_impl(
    func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
) -> Any:
    """``func`` of the arguments: a class of tensors that takes no functions over has this for that.

    >>> _disabled_torch_function_impl(max, (), (1, 2))
    2
    """
    return func(*args, **(kwargs or {}))


def _get_tracing_state() -> None:
    """None: nothing is traced; recording is an ordinary run, on real values.

    >>> _get_tracing_state()
    """


def _log_api_usage_once(event: str) -> None:
    """Accepted and without effect: nobody keeps count.

    >>> _log_api_usage_once("python.nn_module")
    """


def _jit_setting(enabled: bool) -> bool:
    """Takes a setting of a script compiler that there is not; what was set before: False.

    >>> _jit_set_profiling_mode(True)
    False
    """
    return False


_jit_set_profiling_mode = _jit_set_profiling_executor = _jit_setting
_jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _jit_set_autocast_mode = _jit_setting
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_setting


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """What the arguments of ``Module.to`` ask for: device, dtype, whether not to wait, and the order in memory.

    >>> import tracejit as tj
    >>> _parse_to("cpu", tj.float64)
    (device(type='cpu'), tracejit.float64, False, None)
    """
    order = kwargs.pop("memory_format", None)
    wait_not = kwargs.pop("non_blocking", False) or any(x is True for x in args)
    dtype, place = _wanted(args, kwargs)
    return None if place is None else device(place), dtype, wait_not, order


def _are_functorch_transforms_active() -> bool:
    """False: inside the transforms of :mod:`tracejit.func` code runs on tensors like any other.

    >>> _are_functorch_transforms_active()
    False
    """
    return False


def _is_wrapped(tensor: Any) -> bool:
    """Does a transform of :mod:`tracejit.func` stand in for the tensor? They hand functions tensors like any other."""
    return False


def _level(tensor: Any) -> int:
    """The depth of the transform that stands in for a tensor: -1, which is none."""
    return -1


def _unwrapped(tensor: Any) -> Any:
    """The tensor that a transform stands in for: the one that it is."""
    return tensor


make_module("_C._nn", functional, _parse_to=_parse_to, log_sigmoid=functional.logsigmoid)
for _space, _path in ((_linalg, "linalg"), (_fft, "fft"), (_special, "special")):
    make_module(
        f"_C._{_path}", **{f"{_path}_{name}": getattr(_space, name) for name in _space.__all__}
    )
make_module(
    "_C._functorch",
    get_unwrapped=_unwrapped,
    **dict.fromkeys(
        ("is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor"), _is_wrapped
    ),
    **dict.fromkeys(("maybe_get_bdim", "maybe_get_level"), _level),
)
