"""Classes of tensors that take functions over, or whose results are of the same class, as PyTorch's are.

While a tensor of such a class is about, functions look for it among their arguments (`tracejit.fx.interception`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ..answering import ANSWERS
from ..tensor import Tensor
from .stack import LISTENERS, door

__all__ = ["any_about", "as_class", "ask", "default", "takes", "watch"]


def takes(cls: Any) -> bool:
    """Does a class take functions over?

    >>> takes(Tensor), takes(int), takes(type("Mine", (Tensor,), {"__module__": "docs"}))
    (False, False, True)
    """
    found = _taking.get(cls)
    if found is None:
        found = _taking[cls] = _takes(cls)
    return found


#: What is known of classes.
_taking: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def _takes(cls: Any) -> bool:
    if cls is Tensor or not hasattr(cls, "__torch_function__"):
        return False
    own = next(
        vars(k)["__torch_function__"] for k in cls.__mro__ if "__torch_function__" in vars(k)
    )
    if getattr(own, "__func__", own) is disabled:
        return False
    return not (issubclass(cls, Tensor) and cls.__module__.partition(".")[0] == "tracejit")


def disabled(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """``func`` of the arguments: a class of tensors that takes no functions over has this for that.

    >>> disabled(max, (), (1, 2))
    2
    """
    before = LISTENERS.excluded
    if before and _of_pytorch(func):  # it ran already, and asks again
        name = getattr(func, "__name__", func)
        raise TypeError(
            f"PyTorch's {name}() was given a tensor of tracejit, which it cannot work on: give it "
            "torch.from_dlpack(x), or call the function of that name in tracejit"
        )
    LISTENERS.excluded = before + 1
    try:
        return func(*args, **(kwargs or {}))
    finally:
        LISTENERS.excluded = before


def _of_pytorch(func: Any) -> bool:
    origin = getattr(func, "__module__", None)
    if origin is None:  # a method of a built-in class
        origin = getattr(getattr(func, "__objclass__", None), "__module__", None)
    return isinstance(origin, str) and origin.partition(".")[0] == "torch"


def any_about() -> bool:
    """Is a tensor of such a class about?

    >>> any_about() in (True, False)
    True
    """
    return bool(_about)


#: Those that are about, by the references' identities: classes have their own ideas of what is equal.
_about: dict[int, weakref.ref[Any]] = {}


def watch(x: Any) -> Any:
    """Have functions look for tensors of classes that take them over, as long as ``x`` lives; it is returned.

    >>> watch(3)
    3
    """
    if not isinstance(x, Tensor) or not (takes(type(x)) or hasattr(type(x), "__torch_dispatch__")):
        return x
    interception = door()

    def gone(reference: Any) -> None:
        _about.pop(id(reference), None)
        interception.unlisten()

    reference = weakref.ref(x, gone)
    _about[id(reference)] = reference
    interception.listen()
    return x


def as_class(x: Tensor, cls: type, fresh: bool = False) -> Any:
    """The tensor as one of a class: another one of the same memory and history, or itself where it is ``fresh``.

    >>> import tracejit as tj
    >>> kind = type("Mine", (Tensor,), {"__module__": "docs"})
    >>> type(as_class(tj.ones(1), kind)).__name__
    'Mine'
    """
    made: Any = x
    if not fresh:
        made = x._alias()
        edge = x._edge()
        if edge is not None:
            made._continue_from(edge)
        if x._base is not None:
            made._shows(x, x._chain)
    made.__class__ = cls
    return watch(made)


def default(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a class does that says nothing: the function runs, and its results are of the class.

    >>> import tracejit as tj
    >>> default(Tensor, tj.neg, (), (tj.ones(1),))
    tensor([-1.])
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    found = disabled(func, types, args, kwargs)
    if cls is Tensor:
        return found
    from .wrappers import leaves

    return _converted(found, cls, {id(x) for x in leaves(args, kwargs or {})})


def _converted(found: Any, cls: type, given: set[int]) -> Any:
    if isinstance(found, Tensor):
        if isinstance(found, cls):
            return found
        return as_class(found, cls, fresh=id(found) not in given and type(found) is Tensor)
    if isinstance(found, (tuple, list)):
        parts = [_converted(x, cls, given) for x in found]
        make = getattr(type(found), "_make", type(found))
        return make(parts)
    return found


def ask(function: Any, takers: list[Any], args: Any, kwargs: Any) -> Any:
    """What the classes of arguments answer: subclasses before others, then in order; ``TypeError`` where none does.

    >>> class Loud:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__.upper()
    >>> ask(len, [Loud()], (Loud(),), {})
    'LEN'
    """
    kinds: list[type] = []
    for kind in dict.fromkeys(map(type, takers)):
        place = next((i for i, other in enumerate(kinds) if issubclass(kind, other)), len(kinds))
        kinds.insert(place, kind)
    types = tuple(kinds)
    for kind in kinds:
        found = kind.__torch_function__(function, types, args, kwargs)  # type: ignore[attr-defined]
        if found is not NotImplemented:
            return found
    name = getattr(function, "__name__", function)
    text = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented: {text}"
    )


def _made_of(*args: Any) -> Any:
    from .wrappers import made_of  # which programs seldom need

    return made_of(*args)


ANSWERS.watch, ANSWERS.as_class, ANSWERS.default = watch, as_class, default
ANSWERS.made_of = _made_of
