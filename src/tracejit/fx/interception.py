"""Public functions and methods of tensors that are given what stands for a value, and are recorded instead of run.

Ordinary calls know nothing of this: while proxies are about, and only then, the code of the functions is another one,
which looks for proxies among the arguments and calls the function's own code where there are none. The functions stay
the objects that they are, so it does not matter where a program keeps them. After the last proxy is gone, the first
call gives all of them their own code back: passes that make proxies one by one do not pay for each.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from threading import RLock
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from ..autograd.function import Function
from ..nn.module import Module
from ..ops.op import Op
from ..ops.tensors_only import StrictOp
from ..tensor import Tensor
from .spelling import OPERATORS, Published, known, published

__all__ = ["intercepting", "release", "settle", "take"]

#: Methods of tensors with two underscores that are recorded, besides operators.
_ITEMS = ("__getitem__", "__setitem__")

#: Operators that are methods of their own for PyTorch.
_BY_THEMSELVES = ("__floordiv__", "__ifloordiv__")


class Method(NamedTuple):
    """A method of tensors, by its name."""

    name: str


class Instead(NamedTuple):
    """What is called in the place of a function."""

    function: Callable[..., Any]


class _Swap(NamedTuple):
    """A function, its own code, and the code that looks for proxies first."""

    function: Any
    own: CodeType
    looking: CodeType


def _takers(args: Any) -> Iterator[Any]:
    """What takes functions over, among arguments and rows of them."""
    for x in args:
        if hasattr(type(x), "__torch_function__"):
            yield x
        elif isinstance(x, (tuple, list)):
            yield from _takers(x)
        elif type(x) is slice:
            yield from _takers((x.start, x.stop, x.step))


def _spelled(signature: inspect.Signature, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments as PyTorch's functions in Python hand them on: those with defaults by name, and all of these."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    first: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            first += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            first.append(value)
        else:
            named[name] = value
    return tuple(first), named


@cache
def _signatures() -> dict[int, inspect.Signature]:
    """Those of functions whose arguments are spelled out; asked for while all have their own code."""
    found = {}
    for one in published().values():
        if one.spelled:
            signature = inspect.signature(one.target)
            if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
                continue
            found[id(one.target)] = signature
    return found


def _call(key: Any, own: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives that is called while proxies are about."""
    takers = list(_takers((*args, *kwargs.values())))
    if not takers:
        if not _State.count:
            settle()
        return own(*args, **kwargs)
    if isinstance(key, Instead):
        return key.function(*args, **kwargs)
    if key is None:  # an op as an object: it is the first argument
        key = known(args[0])
        if key is None:
            return own(*args, **kwargs)
        args = args[1:]
    if isinstance(key, Published):
        signature = _signatures().get(id(key.target))
        if signature is not None:
            args, kwargs = _spelled(signature, args, kwargs)
        key = key.target
    types: tuple[Any, ...] = tuple(dict.fromkeys(map(type, takers)))
    found = types[0].__torch_function__(key, types, args, kwargs)
    return None if key == Method("__setitem__") else found


def _template(*args: Any, **kwargs: Any) -> Any:
    call: Any = "CALL"
    return call("KEY", "OWN", args, kwargs)


def _looking(function: FunctionType, key: Any) -> CodeType:
    """Code that has :func:`_call` answer for a function."""
    own = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    own.__kwdefaults__ = function.__kwdefaults__
    own.__dict__.update(vars(function))
    filled = {"CALL": _call, "KEY": key, "OWN": own}
    code = _template.__code__
    constants = tuple(filled.get(x, x) if isinstance(x, str) else x for x in code.co_consts)
    return code.replace(
        co_consts=constants, co_freevars=function.__code__.co_freevars, co_name=function.__name__
    )


def _methods() -> Iterator[tuple[FunctionType, Any]]:
    """Methods of tensors; operators go by the names of their functions."""
    seen: set[str] = set()
    for cls in Tensor.__mro__:
        for name, method in vars(cls).items():
            public = not name.startswith("_") or name in _ITEMS or name in _operators()
            if public and name not in seen and isinstance(method, FunctionType):
                seen.add(name)
                named = name in _operators() and name not in _BY_THEMSELVES
                yield method, Method(method.__name__ if named else name)


@cache
def _operators() -> frozenset[str]:
    """Operators whose right side may be a proxy."""
    names = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()  # noqa: SIM905
    others = "eq ne lt le gt ge".split()  # noqa: SIM905
    inplace = (f"__i{name}__" for name in names if name != "matmul")
    return frozenset((*(f"__{name}__" for name in (*names, *others)), *inplace))


def _plainly(call: Any, *args: Any, **kwargs: Any) -> Any:
    """A compiled function as it is written."""
    return call.function(*args, **kwargs)


def _forward(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function with a backward of its own computes: proxies have no gradients."""
    return cls._run(cls._node(), *cls._with_defaults(args, kwargs))


def _as_module(module: Any, *args: Any, **kwargs: Any) -> Any:
    """A compiled module like any other, to which tracers may listen."""
    return Module.__call__(module, *args, **kwargs)


def _compiled() -> tuple[_Swap, ...]:
    """Calls of compiled functions, where the compiler is loaded: a recording could do nothing with proxies."""
    if "tracejit.compiled_module" not in sys.modules:
        return ()
    return _compiled_swaps()


@cache
def _compiled_swaps() -> tuple[_Swap, ...]:
    jit, modules = (sys.modules[f"tracejit.{name}"] for name in ("jit", "compiled_module"))
    pairs = (
        (jit.CompiledFunction._call, _plainly),
        (modules.CompiledModule.__call__, _as_module),
    )
    return tuple(_Swap(f, f.__code__, _looking(f, Instead(other))) for f, other in pairs)


@cache
def _swaps() -> tuple[_Swap, ...]:
    """Every function that is recorded, once."""
    _signatures()
    found: dict[int, _Swap] = {}
    functions = [(x.target, x) for x in published().values() if type(x.target) is FunctionType]
    ops = [(cls.__call__, None) for cls in (Op, StrictOp, *OPERATORS)]
    applied: Any = Function.apply
    rules = [(applied.__func__, Instead(_forward))]
    for function, key in (*functions, *ops, *rules, *_methods()):
        if id(function) not in found:
            assert isinstance(function, FunctionType)
            own = function.__code__
            found[id(function)] = _Swap(function, own, _looking(function, key))
    return tuple(found.values())


_lock = RLock()


class _State:
    """How many are about for whom functions look, and whether they have the code that does."""

    count = 0
    looking = False


def take() -> None:
    """Have functions look for proxies, until as many times :func:`release` is called.

    >>> import tracejit as tj
    >>> take()
    >>> tj.relu(tj.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    >>> release()
    """
    with _lock:
        _State.count += 1
        if not _State.looking:
            _State.looking = True
            for swap in (*_swaps(), *_compiled()):
                if swap.function.__code__ is swap.own:
                    swap.function.__code__ = swap.looking


def release() -> None:
    """One less is about. Functions get their own code back when one of them is called next.

    >>> take()
    >>> release()
    """
    with _lock:
        _State.count -= 1


def settle() -> None:
    """Give every function its own code, if nobody is about any more.

    >>> settle()
    >>> intercepting()
    False
    """
    with _lock:
        if not _State.count and _State.looking:
            _State.looking = False
            for swap in (*_swaps(), *_compiled()):
                if swap.function.__code__ is swap.looking:
                    swap.function.__code__ = swap.own


def intercepting() -> bool:
    """Do functions look for proxies?

    >>> settle()
    >>> intercepting()
    False
    """
    return _State.looking
