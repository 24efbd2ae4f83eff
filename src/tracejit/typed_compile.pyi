"""What is imported late, for type checkers: what ``tj.compile`` makes keeps the signature that it was written with."""

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from . import distributions as distributions
from . import library as library
from .jit import CompiledFunction as CompiledFunction
from .nn.module import Module
from .profiling import profile as profile

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R", covariant=True)
_Self = TypeVar("_Self")
_Module = TypeVar("_Module", bound=Module)

class Compiled(CompiledFunction, Generic[_P, _R]):
    """A compiled function with the parameters and the result of the function."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: Any = ...) -> Compiled[_P, _R]: ...
    @overload
    def __get__(
        self: Compiled[Concatenate[_Self, _Q], _R], instance: _Self, owner: Any = ...
    ) -> Compiled[_Q, _R]: ...

class _Decorator(Protocol):
    @overload
    def __call__(self, model: _Module, /) -> _Module: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, model: Callable[_P, _R], /) -> Compiled[_P, _R]: ...

@overload
def compile(
    model: None = ...,
    *,
    strict: bool = ...,
    verify: bool = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: Any = ...,
    disable: bool = ...,
    name: str | None = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
) -> _Decorator: ...
@overload
def compile(  # type: ignore[overload-overlap]
    model: _Module,
    *,
    strict: bool = ...,
    verify: bool = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: Any = ...,
    disable: bool = ...,
    name: str | None = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
) -> _Module: ...
@overload
def compile(
    model: Callable[_P, _R],
    *,
    strict: bool = ...,
    verify: bool = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: Any = ...,
    disable: bool = ...,
    name: str | None = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
) -> Compiled[_P, _R]: ...
