"""Marks and questions around compilation under PyTorch's names: recording is an ordinary run, they change nothing."""

from __future__ import annotations

from functools import partial, wraps
from importlib import import_module
from typing import Any

from . import config
from .scripting import unchanged

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "lookup_backend",
    "nested_compile_region",
    "register_backend",
    "reset",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
]


def is_compiling() -> bool:
    """False: functions run as the Python they are, while they are recorded too.

    >>> is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """False: there is no such compiler.

    >>> is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """False: nothing is exported.

    >>> is_exporting()
    False
    """
    return False


def disable(fn: Any = None, recursive: bool = True, **_: Any) -> Any:
    """The function itself: what it does in compiled code is what it does anywhere.

    >>> disable(len) is disable()(len) is len
    True
    """
    return unchanged(fn)


def allow_in_graph(fn: Any) -> Any:
    """The function itself: every function may be called in compiled code.

    >>> allow_in_graph(len) is len
    True
    """
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: what it returns is looked at whenever it is recorded.

    >>> assume_constant_result(len) is len
    True
    """
    return fn


def reset() -> None:
    """Accepted and without effect: programs belong to the functions that were compiled, and go with them.

    >>> reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Accepted and without effect: results of compiled calls are tensors of their own.

    >>> cudagraph_mark_step_begin()
    """


def compile(*args: Any, **kwargs: Any) -> Any:
    """:func:`tracejit.compile` by its older name.

    >>> import tracejit as tj
    >>> compile(tj.sin)(tj.zeros(1))
    tensor([0.])
    """
    return import_module("tracejit").compile(*args, **kwargs)


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that ``backend`` may be given: this package's compiler and those that were registered.

    >>> "inductor" in list_backends()
    True
    """
    return sorted(_backends)


def get_default_backend() -> Any:
    """What :func:`set_default_backend` was given last.

    >>> get_default_backend()
    'inductor'
    """
    return _chosen[0]


def set_default_backend(backend: Any) -> None:
    """Kept and given back; code is made by this package whatever it is. None is the first one again.

    >>> set_default_backend("eager")
    >>> get_default_backend()
    'eager'
    >>> set_default_backend(None)
    """
    _chosen[0] = "inductor" if backend is None else backend


#: The backends by name.
_backends: dict[str, Any] = {"inductor": compile}
_chosen: list[Any] = ["inductor"]


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Keep a backend's name for :func:`list_backends`; it is never called. Returns ``compiler_fn``.

    >>> def plain(graph, inputs):
    ...     return graph
    >>> register_backend(plain) is plain, lookup_backend("plain") is plain
    (True, True)
    """
    if compiler_fn is None:
        return partial(register_backend, name=name, tags=tags)
    _backends[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def lookup_backend(compiler_fn: Any) -> Any:
    """The backend of a name, or the function itself. Raises ``RuntimeError`` where there is none.

    >>> lookup_backend(len) is len
    True
    """
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in _backends:
        raise RuntimeError(f"Invalid backend: {compiler_fn!r}. There are {list_backends()}.")
    return _backends[compiler_fn]


def nested_compile_region(fn: Any = None, **_: Any) -> Any:
    """The function itself: rounds and layers that repeat are found when a function is compiled.

    >>> nested_compile_region(len) is nested_compile_region()(len) is len
    True
    """
    return unchanged(fn)


def substitute_in_graph(original_fn: Any, **_: Any) -> Any:
    """The function that it decorates itself: ``original_fn`` is recorded as it runs.

    >>> substitute_in_graph(len)(max) is max
    True
    """
    return unchanged


class set_stance:  # noqa: N801  (PyTorch's spelling)
    """Say how compiled functions run: from now on, inside of a ``with`` block, or of the function that it decorates.

    With "force_eager" they run as they are written. The others ask for what is done anyway: "default",
    "eager_then_compile" and "aot_eager_then_compile", "eager_on_recompile", "fail_on_recompile". Raises
    ``RuntimeError`` for another one.

    >>> with set_stance("force_eager"):
    ...     config.disabled
    True
    """

    def __init__(self, stance: str = "default", **_: Any) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self.before, self.wanted = config.disabled, stance == "force_eager"
        config.disabled = self.wanted

    def __enter__(self) -> None:
        config.disabled = self.wanted

    def __exit__(self, *_: object) -> None:
        config.disabled = self.before

    def __call__(self, function: Any) -> Any:
        """Decorate a function; nothing is said outside of it."""
        config.disabled = self.before

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.before = config.disabled
            with self:
                return function(*args, **kwargs)

        return call


_STANCES = (
    *("default", "force_eager", "eager_then_compile", "aot_eager_then_compile"),
    *("eager_on_recompile", "fail_on_recompile"),
)
