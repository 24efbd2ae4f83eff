"""Public functions and methods of tensors that somebody is told of: what stands for a value, a class, or a mode.

Ordinary calls know nothing of this: while such are about, and only then, the code of the functions is another one,
which looks for them among the arguments and calls the function's own code where there are none. The functions stay
the objects that they are, so it does not matter where a program keeps them. After the last proxy is gone, the first
call gives all of them their own code back: passes that make proxies one by one do not pay for each.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from functools import cache
from threading import RLock
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from ..autograd.function import Function
from ..listening.classes import takes
from ..listening.quiet import quietly
from ..listening.stack import LISTENERS
from ..modes import MODES
from ..nn.module import Module
from ..ops.op import Op
from ..ops.tensors_only import StrictOp
from ..tensor import Tensor
from .spelling import APART, OPERATORS, known, published
from .watched import Hushed, Instead, Method, answering, asked, heard, more, signatures

__all__ = ["APART", "intercepting", "listen", "published", "release", "settle", "take", "unlisten"]

#: Methods of tensors with two underscores that are recorded, besides operators.
_ITEMS = ("__getitem__", "__setitem__")

#: Operators that are methods of their own for PyTorch.
_BY_THEMSELVES = ("__floordiv__", "__ifloordiv__")


class _Swap(NamedTuple):
    """A function, its own code, and the code that looks for proxies first."""

    function: Any
    own: CodeType
    looking: CodeType


def _takers(args: Any) -> Iterator[Any]:
    """What takes functions over, among arguments and rows of them."""
    for x in args:
        if takes(type(x)):
            if not (LISTENERS.excluded and isinstance(x, Tensor)):
                yield x
        elif isinstance(x, (tuple, list)):
            yield from _takers(x)
        elif type(x) is slice:
            yield from _takers((x.start, x.stop, x.step))


def _call(key: Any, own: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives that is called while proxies or listeners are about."""
    if LISTENERS.quiet or MODES.builder is not None:
        return own(*args, **kwargs)
    takers = list(_takers((*args, *kwargs.values())))
    if not takers:
        if LISTENERS.dispatch or LISTENERS.functions or LISTENERS.below or answering(args, kwargs):
            return heard(key, own, args, kwargs)
        if not _State.count:
            settle()
        return own(*args, **kwargs)
    if isinstance(key, Instead):
        return key.function(*args, **kwargs)
    if key is Hushed:
        return quietly(own, *args, **kwargs)
    if key is None:  # an op as an object: it is the first argument
        key = known(args[0])
        if key is None:
            return own(*args, **kwargs)
        args = args[1:]
    return asked(key, takers, args, kwargs)


@cache
def _template(variables: int) -> CodeType:
    """Code that calls what its constants name, with as many variables of functions around it."""
    # Frames find such variables by the instruction that copies them: code without it must have none.
    names = [f"v{i}" for i in range(variables)]
    text = (
        f"def around({', '.join(names)}):\n"
        "    def looking(*args, **kwargs):\n"
        '        call = "CALL"\n'
        '        return call("KEY", "OWN", args, kwargs)\n'
        f"        {'; '.join(names) or 'pass'}\n"
    )
    code = compile(text, __file__, "exec")
    while not code.co_flags & inspect.CO_VARKEYWORDS:
        code = next(x for x in code.co_consts if isinstance(x, CodeType))
    return code


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
    code = _template(len(function.__code__.co_freevars))
    constants = tuple(filled.get(x, x) if isinstance(x, str) else x for x in code.co_consts)
    return code.replace(
        co_consts=constants, co_freevars=function.__code__.co_freevars, co_name=function.__name__
    )


@cache
def _more_swaps() -> tuple[_Swap, ...]:
    return tuple(_Swap(f, f.__code__, _looking(f, key)) for f, key in more())


def _methods() -> Iterator[tuple[FunctionType, Any]]:
    """Methods of tensors; operators go by the names of their functions."""
    seen: set[str] = set()
    for cls in Tensor.__mro__:
        for name, method in vars(cls).items():
            public = not name.startswith("_") or name in _ITEMS or name in _operators()
            if name == "as_subclass":  # what nobody is asked about
                continue
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
    return cls._run(cls._node(), *cls._with_defaults(args, kwargs), grad=False)


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
    signatures()
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
    listeners = 0
    looking = False
    listening = False


def listen() -> None:
    """Have functions look for listeners, until as many times :func:`unlisten` is called.

    >>> listen()
    >>> unlisten()
    """
    with _lock:
        take()
        _State.listeners += 1
        if not _State.listening:
            _State.listening = True
            for swap in _more_swaps():
                swap.function.__code__ = swap.looking


def unlisten() -> None:
    """One listener is gone.

    >>> listen()
    >>> unlisten()
    """
    with _lock:
        _State.listeners -= 1
        if not _State.listeners:
            _State.listening = False
            for swap in _more_swaps():
                swap.function.__code__ = swap.own
        release()
        settle()


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
