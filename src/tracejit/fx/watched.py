"""What those are told of who listen to functions: by which name, with which arguments, and which calls are none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import FunctionType
from typing import Any, NamedTuple

from ..listening.classes import any_about, ask
from ..listening.modes import tell
from ..listening.quiet import quietly
from ..listening.stack import LISTENERS
from ..listening.wrappers import answers, leaves
from ..ops.functions.native_forms import NATIVE_FORMS
from ..ops.op import Op
from ..tensor import Tensor
from .spelling import OPERATORS, Published, known, published

__all__ = [
    "Attribute",
    "Hushed",
    "Instead",
    "Method",
    "answering",
    "asked",
    "heard",
    "more",
    "signatures",
]


class Method(NamedTuple):
    """A method of tensors, by its name."""

    name: str


class Attribute(NamedTuple):
    """An attribute of tensors that is computed, by its name."""

    name: str
    found: property


class Instead(NamedTuple):
    """What is called in the place of a function."""

    function: Callable[..., Any]


class Hushed:
    """Marks functions whose inside is nobody's business."""


#: Methods with two underscores that are listened to, and those whose inside is nobody's business.
_TOLD = ("__bool__", "__float__", "__int__", "__index__")
_HUSHED = (
    "__repr__",
    "__str__",
    "__format__",
    "tolist",
    "numpy",
    "__array__",
    "__deepcopy__",
    "__reduce_ex__",
)


#: Operators with two underscores that others do not listen to, and what they are for PyTorch.
_ANSWERED = {
    **{f"__r{name}__": name for name in ("add", "mul")},
    **{name: name for name in ("__rsub__", "__rpow__", "__invert__")},
    "__rtruediv__": "__rdiv__",
    "__neg__": "neg",
    "__abs__": "abs",
}


def more() -> Iterator[tuple[FunctionType, Any]]:
    """What only listeners want to know of: truth and numbers of tensors; and what they are not to be told of.

    >>> len(list(more())) > 10
    True
    """
    for name in (*_TOLD, *_HUSHED):
        for cls in Tensor.__mro__:
            method = vars(cls).get(name)
            if isinstance(method, FunctionType):
                yield method, Hushed if name in _HUSHED else Method(name)
                break
    for name, shown in _ANSWERED.items():
        method = next(vars(cls)[name] for cls in Tensor.__mro__ if name in vars(cls))
        yield method, Method(shown)
    for name in ("T", "mT", "H", "mH", "real", "imag"):
        found = next(vars(cls)[name] for cls in Tensor.__mro__ if name in vars(cls))
        yield found.fget, Attribute(name, found)


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
def signatures() -> dict[int, inspect.Signature]:
    """Those of functions whose arguments are spelled out; asked for while all have their own code.

    >>> len(signatures()) > 10
    True
    """
    found = {}
    for one in published().values():
        if one.spelled:
            signature = inspect.signature(one.target)
            if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
                continue
            found[id(one.target)] = signature
    return found


def answering(args: Any, kwargs: Any) -> bool:
    """Is there a tensor whose class answers for operators?

    >>> answering((1, 2), {})
    False
    """
    return any_about() and any(
        type(x) is not Tensor and answers(type(x)) for x in leaves(args, kwargs)
    )


def _public(known_as: Any, target: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """What listeners to functions are shown: a function of the package or of tensors, and its arguments."""
    if isinstance(known_as, Attribute):
        return known_as.found.__get__, args, kwargs
    if isinstance(known_as, Method):
        return getattr(Tensor, known_as.name), args, kwargs
    if target is not None:
        args = args[1:]
    if isinstance(known_as, Published):
        signature = signatures().get(id(known_as.target))
        if signature is not None:
            args, kwargs = _spelled(signature, args, kwargs)
        return known_as.target, args, kwargs
    return None, args, kwargs


def _told(function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What a listener to functions answers."""
    found = tell(function, types, args, kwargs)
    if found is NotImplemented and not types:
        name = getattr(function, "__name__", function)
        raise TypeError(f"no implementation found for '{name}': the mode returned NotImplemented")
    return found


def heard(key: Any, own: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives while somebody listens: the door to :mod:`tracejit.listening`.

    >>> heard(Hushed, max, (1, 2), {})
    2
    """
    from ..listening import calls

    if isinstance(key, Instead):
        return own(*args, **kwargs)
    if key is Hushed:
        return quietly(own, *args, **kwargs)
    target = args[0] if key is None else None
    known_as = known(target) if key is None else key
    if LISTENERS.functions:
        function, given, named = _public(known_as, target, args, kwargs)
        if function is not None:
            return _told(function, (), given, named)
    told = LISTENERS.dispatch or isinstance(target, OPERATORS)
    if not told and not answering(args, kwargs):
        return own(*args, **kwargs)
    if isinstance(target, OPERATORS):
        return calls.called(target, own, args[1:], kwargs)
    if isinstance(target, Op) or (key is None and known_as is None):
        return calls.called(target, own, args[1:], kwargs)
    if isinstance(known_as, Published):
        layers = known_as.text.startswith("tracejit.nn.functional.")
        layers = layers or known_as.name not in NATIVE_FORMS
        space = "F." if layers else ""
        if key is None:  # an op that refuses numbers
            return calls.perform(known_as.name, space, partial(own, target), args[1:], kwargs)
        return calls.perform(known_as.name, space, own, args, kwargs)
    return calls.perform(key.name, "Tensor.", own, args, kwargs)


def asked(key: Any, takers: list[Any], args: Any, kwargs: Any) -> Any:
    """What a function gives that is given what takes functions over.

    >>> class Loud:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__.upper()
    >>> asked(len, [Loud()], (Loud(),), {})
    'LEN'
    """
    if isinstance(key, Published):
        signature = signatures().get(id(key.target))
        if signature is not None:
            args, kwargs = _spelled(signature, args, kwargs)
        key = key.target
    if isinstance(key, Attribute):
        key = key.found.__get__
    sets = isinstance(key, Method) and key.name == "__setitem__"
    if isinstance(key, Method) and not getattr(type(takers[0]), "_takes_methods", False):
        key = getattr(Tensor, key.name)
    types = tuple(dict.fromkeys(map(type, takers)))
    found = _told(key, types, args, kwargs) if LISTENERS.functions else NotImplemented
    if found is NotImplemented:
        found = ask(key, takers, args, kwargs)
    return None if sets else found
