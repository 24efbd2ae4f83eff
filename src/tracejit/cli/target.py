"""From what a user types to what can be called: ``module:function`` and ``"f32[32,8]"``."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click

_TENSOR = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<shape>[\d,\s]*)\]")
_DTYPES = {
    "bool": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}


class TargetError(Exception):
    """What the user named cannot be found or called; the message says why and what to type."""


def load(spec: str) -> tuple[ModuleType, str, Callable[..., Any]]:
    """The module, the name and the callable behind ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION``.

    Raises:
        TargetError: no such module, file or name; importing it failed; or it cannot be called.
    """
    place, separator, name = spec.rpartition(":")
    if not (place and separator and name):
        raise TargetError(
            f"{spec!r} does not name a function: write MODULE:FUNCTION or FILE.py:FUNCTION"
        )
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise TargetError(f"{place} has no {name!r}{_others(module)}")
        found = getattr(found, part)
    if isinstance(found, type):
        raise TargetError(f"{name} is a class: name a function, or an instance of it in {place}")
    if not callable(found):
        raise TargetError(f"{name} is of type {type(found).__name__} and cannot be called")
    return module, name, found


def _others(module: ModuleType) -> str:
    """The functions a module does have, for a message."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and not isinstance(value, type)
        and getattr(value, "__module__", None) == module.__name__
    ]
    return f"; it has {', '.join(sorted(own)[:12])}" if own else ""


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses and pickle look modules up by name
    sys.path.insert(0, str(path.parent.resolve()))
    _guarded(str(path), lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    module: ModuleType = _guarded(name, lambda: importlib.import_module(name))
    return module


def _guarded(place: str, action: Callable[[], Any]) -> Any:
    """Run the user's module; whatever it raises is the user's to read, in one line."""
    try:
        return action()
    except ModuleNotFoundError as error:
        raise TargetError(f"cannot import {place}: {error}") from error
    except Exception as error:
        raise TargetError(
            f"{place} failed while loading: {type(error).__name__}: {error}"
        ) from error
    except SystemExit as error:
        raise TargetError(f"{place} called sys.exit({error.code}) while loading") from error


def example_arguments(module: ModuleType, name: str) -> tuple[Any, ...] | None:
    """The arguments the module offers in ``example_inputs``, or None.

    ``example_inputs`` is a tuple or list of arguments, a dictionary of those by function name, or a function that
    returns one of these.
    """
    found = getattr(module, "example_inputs", None)
    if callable(found):
        found = _guarded("example_inputs()", found)
    if isinstance(found, Mapping):
        found = found.get(name)
    if found is None:
        return None
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def parse_arguments(specs: Sequence[str], grad: bool) -> tuple[Any, ...]:
    """Arguments from specifications; floating-point tensors require gradients when ``grad`` is set."""
    import numpy as np

    rng = np.random.default_rng(0)
    return tuple(_parse(spec.strip(), rng, grad) for spec in specs)


def _parse(spec: str, rng: Any, grad: bool) -> Any:
    """``f32[2,3]`` becomes a tensor of random values, anything else must be a Python literal."""
    match = _TENSOR.fullmatch(spec)
    if match is not None:
        return _tensor(spec, match["dtype"], match["shape"], rng, grad)
    try:
        return ast.literal_eval(spec)
    except (ValueError, SyntaxError):
        raise TargetError(
            f"cannot read the argument {spec!r}: write a tensor such as f32[32,8] or i64[] "
            f"(dtypes: {', '.join(_DTYPES)}) or a Python literal such as 3, 0.5, True, None"
        ) from None


def _tensor(spec: str, dtype: str, shape: str, rng: Any, grad: bool) -> Any:
    import tracejit as tj

    if dtype not in _DTYPES:
        raise TargetError(f"unknown dtype in {spec!r}: one of {', '.join(_DTYPES)}")
    sizes = [text.strip() for text in shape.split(",")] if shape.strip() else []
    if not all(sizes):
        raise TargetError(f"cannot read the shape of {spec!r}: write it like f32[32,8]")
    extents = tuple(map(int, sizes))
    if dtype == "bool":
        values = rng.random(extents) < 0.5
    elif dtype[0] in "ui":
        values = rng.integers(0, 2, extents)  # valid as an index or a class of almost anything
    else:
        values = rng.standard_normal(extents)
    result = tj.tensor(values, dtype=getattr(tj, _DTYPES[dtype]))
    return result.requires_grad_() if grad and result.is_floating_point() else result


def describe_call(name: str, function: Callable[..., Any]) -> str:
    """What to pass, in the words of the function's own signature."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    shown = " ".join(f'--args "f32[4,4]"  # {p.name}\n   ' for p in parameters).strip()
    return (
        f"{name} needs arguments. Give one --args for each parameter, for example\n"
        f"    {shown or '--args f32[4,4]'}\n"
        "or define example_inputs in its module: a tuple of arguments, a dictionary of those by function name, "
        "or a function that returns one."
    )


def callable_without_arguments(function: Callable[..., Any]) -> bool:
    """Does the function's signature allow a call without arguments?"""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def call_parameters(grad_help: str) -> list[click.Parameter]:
    """What a command that calls a function takes: ``TARGET``, ``--args`` and ``--grad``."""
    import click

    return [
        click.Argument(["spec"], metavar="TARGET"),
        click.Option(
            ["--args", "specs"],
            multiple=True,
            metavar="SPEC",
            help="One argument: a tensor like f32[32,8], or a Python literal.",
        ),
        click.Option(["--grad"], is_flag=True, help=grad_help),
    ]


def load_call(
    spec: str, specs: Sequence[str], grad: bool
) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """The name of a target, its function, and what to call it with: ``--args``, or the examples of its module.

    Raises:
        click.ClickException: the target cannot be loaded, or nothing says what to call it with.
    """
    import click

    try:
        module, name, function = load(spec)
        return name, function, _arguments_of(module, name, function, specs, grad)
    except TargetError as error:
        raise click.ClickException(str(error)) from error


def _arguments_of(
    module: ModuleType, name: str, function: Callable[..., Any], specs: Sequence[str], grad: bool
) -> tuple[Any, ...]:
    if specs:
        return parse_arguments(specs, grad)
    args = example_arguments(module, name)
    if args is not None:
        return args
    if callable_without_arguments(function):
        return ()
    raise TargetError(describe_call(name, function))
