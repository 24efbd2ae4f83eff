"""Marks that code written for PyTorch's script compiler carries: they say nothing here and change nothing.

There is no second language to translate into, so every mark leaves what it marks as it is, and the questions whether
a script is being compiled are answered with no. :func:`tracejit.compile` is what makes programs faster.
"""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

T = TypeVar("T")

__all__ = [
    "Attribute",
    "Final",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


class TracerWarning(Warning):
    """Of a script compiler, which there is not: programs name it to have such warnings left out."""


class Error(RuntimeError):
    """What programs catch around scripted functions, of which there are none."""


def is_scripting() -> bool:
    """False: functions run as the Python they are.

    >>> is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """False: recording is an ordinary run, on real values.

    >>> is_tracing()
    False
    """
    return False


def script(obj: T, *_: Any, **__: Any) -> T:
    """``obj`` itself: functions, classes and modules need no translation.

    >>> script(len) is len
    True
    """
    return obj


def unchanged(function: Any = None, **_: Any) -> Any:
    """A decorator without effect, with and without parentheses: all marks on functions and classes are this one.

    >>> ignore(len) is export()(len) is len
    True
    """
    return function if callable(function) else lambda inner: inner


ignore = unused = export = interface = script_if_tracing = unchanged


def annotate(the_type: Any, the_value: T) -> T:
    """The value.

    >>> annotate(list, [1])
    [1]
    """
    return the_value


def script_method(function: T) -> T:
    """A mark (``script_method``) without effect: the method itself.

    >>> script_method(len) is len
    True
    """
    return function


def trace(func: T, example_inputs: Any = None, *_: Any, **__: Any) -> T:
    """``func`` itself, which needs no example of its inputs: branches stay branches.

    >>> trace(len, [1]) is len
    True
    """
    return func


def trace_module(mod: T, inputs: Any = None, *_: Any, **__: Any) -> T:
    """The module itself, as :func:`trace` has it.

    >>> trace_module(len, {"forward": [1]}) is len
    True
    """
    return mod


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raises ``NotImplementedError``: a program is not written to files, only the numbers of a model are.

    >>> save(None, "model.pt")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NotImplementedError: a model cannot be saved with its program
    """
    raise NotImplementedError(
        "a model cannot be saved with its program: write tracejit.save(model.state_dict(), f), and "
        "load_state_dict(tracejit.load(f)) into a model made by the same code"
    )


def load(f: Any, map_location: Any = None, _extra_files: Any = None, **_: Any) -> Any:
    """Raises ``NotImplementedError``: see :func:`save`.

    >>> load("model.pt")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NotImplementedError: files with programs in them cannot be loaded
    """
    raise NotImplementedError(
        "files with programs in them cannot be loaded: make the model by its code, and give its "
        "load_state_dict() what tracejit.load finds in a file of tracejit.save"
    )


def freeze(mod: T, *_: Any, **__: Any) -> T:
    """The module itself.

    >>> freeze(len) is len
    True
    """
    return mod


def optimize_for_inference(mod: T, *_: Any, **__: Any) -> T:
    """The module itself.

    >>> optimize_for_inference(len) is len
    True
    """
    return mod


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """What ``func`` returns: it runs at once.

    >>> wait(fork(len, [1, 2]))
    2
    """
    return func(*args, **kwargs)


def wait(future: T) -> T:
    """What :func:`fork` returned.

    >>> wait(3)
    3
    """
    return future


def is_of_type(obj: Any, target_type: Any) -> bool:
    """Is ``obj`` of a type, which may tell what containers hold? PyTorch calls this ``jit.isinstance``.

    ``target_type`` is a class, ``list[int]``, ``tuple[int, str]``, ``dict[str, Tensor]``, a union, an ``Optional``, or
    a tuple of these.

    >>> is_of_type([1, 2], list[int]), is_of_type([1, "2"], list[int]), is_of_type(None, int | None)
    (True, False, True)
    """
    if isinstance(target_type, tuple):
        return any(is_of_type(obj, one) for one in target_type)
    kind, parts = get_origin(target_type), get_args(target_type)
    if kind is Union or kind is UnionType:
        return any(is_of_type(obj, type(None) if one is None else one) for one in parts)
    if kind is None:
        return target_type is Any or isinstance(obj, target_type)
    if not isinstance(obj, kind):
        return False
    if kind is dict:
        return all(is_of_type(k, parts[0]) and is_of_type(v, parts[1]) for k, v in obj.items())
    if kind is tuple and parts[-1:] != (Ellipsis,):
        pairs = zip(obj, parts, strict=False)
        return len(obj) == len(parts) and all(is_of_type(one, part) for one, part in pairs)
    return all(is_of_type(one, parts[0]) for one in obj)


class Attribute(NamedTuple):
    """A value and its type, as scripted modules declare attributes."""

    value: Any
    type: Any
