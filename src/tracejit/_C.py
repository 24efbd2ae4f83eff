# ruff: noqa: N999
"""What programs import from PyTorch's compiled core: classes that have a place of their own here, and questions.

The answers are those of a package without a script compiler. A core there is not, so everything else is missing.
"""

from __future__ import annotations

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
from .listening.classes import disabled
from .listening.stack import LISTENERS
from .made_modules import make_module
from .memory_formats import memory_format
from .modes import MODES
from .nn import functional
from .nn.tree import _wanted
from .operator_tags import Tag
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
    "Tag",
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


_disabled_torch_function_impl = disabled


class DisableTorchFunctionSubclass:
    """Inside, classes of tensors take no functions over; modes are told of functions.

    >>> with DisableTorchFunctionSubclass():
    ...     _is_torch_function_enabled()
    False
    """

    def __enter__(self) -> None:
        self._before = LISTENERS.excluded, LISTENERS.functions
        self._exclude()

    def _exclude(self) -> None:
        LISTENERS.excluded += 1

    def __exit__(self, *_: Any) -> None:
        LISTENERS.excluded, LISTENERS.functions = self._before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Inside, neither classes of tensors nor modes are told of functions."""

    def _exclude(self) -> None:
        LISTENERS.excluded += 1
        LISTENERS.functions = ()


def _is_torch_function_enabled() -> bool:
    """Do classes of tensors take functions over?

    >>> _is_torch_function_enabled()
    True
    """
    return not LISTENERS.excluded


class _DisableTorchDispatch:
    """Inside, nobody is told of operators: neither modes nor classes that answer for them."""

    def __enter__(self) -> None:
        self._before = LISTENERS.quiet
        LISTENERS.quiet = True

    def __exit__(self, *_: Any) -> None:
        LISTENERS.quiet = self._before


class _AutoDispatchBelowAutograd:
    """Inside, operators have no history."""

    def __enter__(self) -> None:
        self._before = MODES.grad
        MODES.grad = False

    def __exit__(self, *_: Any) -> None:
        MODES.grad = self._before


def _len_torch_dispatch_stack() -> int:
    """How many modes are told of operators.

    >>> _len_torch_dispatch_stack()
    0
    """
    return len(LISTENERS.dispatch)


def _len_torch_function_stack() -> int:
    """How many modes are told of functions.

    >>> _len_torch_function_stack()
    0
    """
    return len(LISTENERS.functions)


def _get_torch_dispatch_stack_at(index: int) -> Any:
    """One of the modes that are told of operators, the outermost being the first."""
    return LISTENERS.dispatch[index]


def _get_function_stack_at(index: int) -> Any:
    """One of the modes that are told of functions, the outermost being the first."""
    return LISTENERS.functions[index]


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

#: What is at the top of the package, too.
SHARED = {
    name: globals()[name]
    for name in (
        *_SCRIPTED,
        *("DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet"),
    )
}


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
