"""PyTorch's compiler by the names programs use to tune it: settings are kept and change nothing.

``optimize`` compiles as :func:`tracejit.compile` does; marks leave what they mark as it is.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .compiled_module import CompiledModule as OptimizedModule
from .compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    lookup_backend,
    register_backend,
    reset,
    set_stance,
    substitute_in_graph,
)
from .cuda import is_available
from .jit import compile
from .made_modules import make_module

__all__ = [
    "OptimizedModule",
    "Settings",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "register_backend",
    "reset",
    "set_stance",
    "substitute_in_graph",
]


class Settings:
    """Attributes that can be set and read back.

    >>> chosen = Settings(depth=1)
    >>> with chosen.patch(depth=2):
    ...     print(chosen.depth)
    2
    >>> chosen.depth
    1
    """

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    @contextlib.contextmanager
    def patch(self, changes: Any = None, value: Any = None, **more: Any) -> Iterator[None]:
        """Other values for a while: a name and its value, a dict, or keyword arguments.

        >>> with config.patch("suppress_errors", True):
        ...     print(config.suppress_errors)
        True
        """
        named = {changes: value} if isinstance(changes, str) else dict(changes or {})
        before = dict(vars(self))
        vars(self).update(named, **more)
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)


config = Settings(
    accumulated_cache_size_limit=256,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    cache_size_limit=8,
    capture_dynamic_output_shape_ops=True,
    capture_scalar_outputs=True,
    dynamic_shapes=True,
    guard_nn_modules=True,
    optimize_ddp=False,
    recompile_limit=8,
    suppress_errors=False,
    verbose=False,
)
sys.modules[f"{__name__}.config"] = config  # type: ignore[assignment]


def optimize(backend: Any = None, *, nopython: bool = False, **_: Any) -> Callable[[Any], Any]:
    """A decorator: :func:`tracejit.compile`, strict with ``nopython``.

    >>> import tracejit as tj
    >>> optimize("inductor")(lambda x: x + 1)(tj.zeros(1))
    tensor([1.])
    """
    return lambda model: compile(model, strict=nopython)


def is_compile_supported(device_type: str) -> bool:
    """Is there a compiler for devices of this type?

    >>> is_compile_supported("cpu"), is_compile_supported("mps")
    (True, False)
    """
    return device_type == "cpu" or (device_type == "cuda" and is_available())


make_module("_dynamo.utils", is_compile_supported=is_compile_supported)
#: Inside it, tensors that stand for many may be indices: they always may.
make_module(
    "_dynamo._trace_wrapped_higher_order_op", TransformGetItemToIndex=contextlib.nullcontext
)


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that calls ``f`` compiled and says what was recorded of it, as ``compile(f).explain()`` does.

    >>> import tracejit as tj
    >>> found = explain(lambda x: x + 1)(tj.ones(3))
    >>> found.graph_count, found.graph_break_count
    (1, 0)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        compiled = compile(f)
        compiled(*args, **kwargs)
        return compiled.explain()

    return call(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else call


def graph_break(msg: str = "") -> None:
    """Accepted and without effect: recording goes on.

    >>> graph_break()
    """


def disallow_in_graph(fn: Any) -> Any:
    """The function itself: compiled code may call every function.

    >>> disallow_in_graph(len) is len
    True
    """
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """The function itself.

    >>> forbid_in_graph(len) is len
    True
    """
    return fn


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Accepted and without effect: no size is compiled in.

    >>> mark_dynamic(None, 0)
    """


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Accepted and without effect.

    >>> maybe_mark_dynamic(None, 0)
    """


def mark_static(t: Any, index: Any = None) -> None:
    """Accepted and without effect.

    >>> mark_static(None)
    """


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Accepted and without effect.

    >>> mark_static_address(None)
    """
