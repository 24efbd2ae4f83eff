"""What functions and types are called in text: by the paths where PyTorch's graphs have them, below this package.

A function that PyTorch has in Python is recorded with its arguments spelled out: those with a default by their names.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import tracejit

from .. import fft, linalg, special
from ..aten import Overload, Packet
from ..nn import functional
from ..operators import CustomOpDef
from ..ops.op import Op
from ..ops.tensors_only import StrictOp
from ..tensor import Tensor

__all__ = [
    "APART",
    "OPERATORS",
    "Published",
    "base_name",
    "is_ours",
    "known",
    "pretty_target",
    "publish_as",
    "published",
    "qualified_name",
    "type_text",
]

#: Operators as objects.
OPERATORS = (Overload, Packet, CustomOpDef)

#: Functions of ``nn.functional`` that are PyTorch's own, in C.
_NATIVE = frozenset(
    """adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist
    pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_ sigmoid tanh""".split()  # noqa: SIM905
)
_NATIVE_LAYERS = frozenset(
    """avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention
    softplus softshrink""".split()  # noqa: SIM905
)
#: Functions of the package that PyTorch has in Python.
_IN_PYTHON = frozenset(
    """atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum meshgrid
    norm split stft tensordot unique unique_consecutive""".split()  # noqa: SIM905
)
#: Functions that ask about anything, make tensors of anything, or set something: they run as they are.
APART = frozenset(
    """tensor as_tensor asarray is_tensor is_storage typename from_numpy frombuffer from_dlpack to_dlpack save load
    promote_types result_type can_cast broadcast_shapes upsample upsample_nearest upsample_bilinear""".split()  # noqa: SIM905
)
_QUESTIONS = (
    *("is_complex", "is_floating_point", "is_nonzero", "is_same_size", "is_signed", "numel"),
    *("get_device", "_assert", "is_inference"),
)
_CALLABLE = (FunctionType, Op, StrictOp)


class Published(NamedTuple):
    """A function as graphs have it."""

    target: Callable[..., Any]
    text: str
    name: str
    spelled: bool


def _layer_function(name: str, target: Any) -> Published:
    if name in _NATIVE and hasattr(tracejit, name):
        return Published(target, f"tracejit.{name}", name, False)
    if name in _NATIVE_LAYERS:
        core = "log_sigmoid" if name == "logsigmoid" else name
        return Published(target, f"tracejit._C._nn.{core}", core, False)
    spelled = type(target) is FunctionType
    return Published(target, f"tracejit.nn.functional.{name}", name, spelled)


def _of_space(space: Any, name: str) -> Published:
    short = space.__name__.rpartition(".")[2]
    text = f"tracejit._C._{short}.{short}_{name}"
    return Published(getattr(space, name), text, f"{short}_{name}", False)


def _all() -> Iterator[Published]:
    """Every function that is recorded, those first whose name counts."""
    for name in functional.__all__:
        if name.startswith("upsample"):
            continue  # calls of what resizes
        yield _layer_function(name, getattr(functional, name))
    for name in ("multi_head_attention_forward",):
        yield _layer_function(name, getattr(functional, name))
    for space in (linalg, fft):
        names = [name for name in space.__all__ if not hasattr(tracejit, name)]
        yield from (_of_space(space, name) for name in names)
    for name in (*tracejit._PUBLISHED, *_QUESTIONS):
        target = getattr(tracejit, name)
        if name in _IN_PYTHON:
            yield Published(target, f"tracejit.functional.{name}", name, True)
        elif name not in APART:
            own = target.__name__  # that of the function another name is for, if there is one
            called = own if getattr(tracejit, own, None) is target else name
            yield Published(target, f"tracejit.{called}", called, False)
    for space in (linalg, fft, special):
        yield from (_of_space(space, name) for name in space.__all__)


_MORE: dict[int, Published] = {}


def publish_as(text: str, target: Callable[..., Any]) -> None:
    """Have a function called so in text.

    >>> publish_as("tracejit.docs.measure", measure := lambda x: x)
    >>> qualified_name(measure)
    'tracejit.docs.measure'
    """
    _MORE[id(target)] = Published(target, text, text.rpartition(".")[2], False)


@cache
def published() -> dict[int, Published]:
    """The functions that are recorded, by their identities.

    >>> import tracejit as tj
    >>> published()[id(tj.relu)].text
    'tracejit.relu'
    """
    found: dict[int, Published] = {}
    for one in _all():
        if isinstance(one.target, _CALLABLE):
            found.setdefault(id(one.target), one)
    return found


def _known(obj: Any) -> Published | None:
    if isinstance(obj, OPERATORS):
        space = obj._namespace if isinstance(obj, CustomOpDef) else "aten"
        return Published(obj, f"tracejit.ops.{space}.{obj.__name__}", obj.__name__, False)
    return published().get(id(obj)) or _MORE.get(id(obj))


def known(obj: Any) -> Published | None:
    """What graphs know of a function, or of an operator by PyTorch's name of it.

    >>> import tracejit as tj
    >>> known(tj.ops.aten.add.Tensor).text
    'tracejit.ops.aten.add.Tensor'
    """
    return _known(obj)


def base_name(target: Callable[..., Any]) -> str:
    """What nodes that call a function are named for.

    >>> import tracejit as tj
    >>> base_name(tj.linalg.inv)
    'linalg_inv'
    """
    found = _known(target)
    name: str = found.name if found else target.__name__
    return name


def _found_at(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)


def is_ours(obj: Any) -> bool:
    """Does text that imports the package reach an object by its name?

    >>> import tracejit as tj
    >>> is_ours(tj.relu), is_ours(tj.Tensor), is_ours(len)
    (True, True, False)
    """
    if _known(obj) is not None:
        return True
    module, name = getattr(obj, "__module__", None), getattr(obj, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return False
    return module.partition(".")[0] == "tracejit" and (
        _found_at(module, name) is obj or _found_at("tracejit", name) is obj
    )


def _lambda_name(func: Any) -> str:
    """What a function without a name was assigned to, by its source."""
    try:
        return inspect.getsource(func).split("=")[0].strip()
    except (OSError, TypeError) as error:
        raise RuntimeError("Unable to represent lambda") from error


def qualified_name(func: Callable[..., Any]) -> str:
    """The path by which text calls a function.

    >>> import tracejit as tj
    >>> qualified_name(tj.nn.functional.conv2d), qualified_name(tj.Tensor.add), qualified_name(len)
    ('tracejit.conv2d', 'tracejit.Tensor.add', 'len')
    """
    found = _known(func)
    if found is not None:
        return found.text
    name = func.__name__
    if getattr(builtins, name, None) is func:
        return name
    if getattr(Tensor, name, None) is func:
        return f"tracejit.Tensor.{name}"
    if name == "<lambda>":
        name = _lambda_name(func)
    if _found_at("tracejit", name) is func:
        return f"tracejit.{name}"
    module = func.__module__
    if module is None:
        raise RuntimeError(f"cannot find module for {func}")
    return f"{module}.{name}"


def type_text(kind: Any) -> str:
    """A type as text: classes with their modules, those of Python without.

    >>> import tracejit as tj
    >>> type_text(tj.Tensor), type_text(int), type_text(list[int])
    ('tracejit.Tensor', 'int', 'list[int]')
    """
    if isinstance(kind, type) and not hasattr(kind, "__origin__"):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        if _found_at("tracejit", kind.__name__) is kind:
            return f"tracejit.{kind.__name__}"
        return f"{kind.__module__}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    return kind.__name__ if isinstance(kind, FunctionType) else repr(kind)


def pretty_target(target: Any) -> str:
    """What a node calls, as text: also functions of Python with their modules.

    >>> import operator
    >>> pretty_target(operator.add), pretty_target(len), pretty_target("relu")
    ('operator.add', 'builtins.len', 'relu')
    """
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if (
        name is not None
        and module in ("builtins", "_operator")
        and not isinstance(target, ModuleType)
    ):
        return f"{module.removeprefix('_')}.{name}"
    return qualified_name(target)
