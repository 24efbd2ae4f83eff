"""Schemas of custom operators: read from annotations, and taken apart again to bind arguments."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import dtypes
from .device import device
from .dtypes import DType
from .tensor import Tensor

__all__ = ["Schema", "infer_schema"]

_PLAIN = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "complex",
    DType: "ScalarType",
    device: "Device",
    int | float | bool: "Scalar",
}
_LISTS = (list, Sequence, tuple)
_PARAMETER = re.compile(
    r"(?P<kind>\S+(?:\([^)]*\))?\S*)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?"
)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Collection[str] = (),
    op_name: str | None = None,
) -> str:
    """The schema of a function, from its annotations.

    ``mutates_args`` are the names of the tensors that it writes to. Raises ``ValueError`` for parameters without
    annotations, and for types that operators do not take.

    >>> import tracejit as tj
    >>> def scaled(x: tj.Tensor, by: float = 2.0) -> tj.Tensor: ...
    >>> infer_schema(scaled, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    hints = typing.get_type_hints(prototype_function)
    parameters = inspect.signature(prototype_function).parameters
    found: list[str] = []
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"infer_schema(func): {name} is variadic, which operators do not take")
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation.")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in found:
            found.append("*")
        found.append(_parameter(parameter, hints[name], _mutated(name, mutates_args, parameters)))
    wanted = {mutates_args} if isinstance(mutates_args, str) else {*mutates_args}
    unknown = wanted - {*parameters} - {"unknown"}
    if unknown:
        raise ValueError(f"infer_schema(func): mutates_args={sorted(unknown)} are no parameters")
    result = _result(hints.get("return", type(None)))
    return f"{op_name or ''}({', '.join(found)}) -> {result}"


def _mutated(name: str, mutates: str | Collection[str], parameters: Any) -> str:
    """The letter of a tensor that is written to, or nothing."""
    if mutates != "unknown" and name not in (
        mutates if not isinstance(mutates, str) else (mutates,)
    ):
        return ""
    return f"(a{list(parameters).index(name)}!)"


def _parameter(parameter: inspect.Parameter, hint: Any, mutated: str) -> str:
    kind = _kind(hint, parameter.name)
    if mutated and kind.startswith("Tensor"):
        kind = kind.replace("Tensor", f"Tensor{mutated}", 1)
    if parameter.default is parameter.empty:
        return f"{kind} {parameter.name}"
    value = parameter.default
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = value.name if isinstance(value, DType) else text
    return f"{kind} {parameter.name}={text}"


def _kind(hint: Any, name: str) -> str:
    """How schemas spell a type."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [x for x in parts if x is not type(None)]
        if len(rest) == 1 and len(parts) == 2:
            return f"{_kind(rest[0], name)}?"
    if origin in (list, typing.get_origin(typing.Sequence[int])) and len(parts) == 1:
        return f"{_kind(parts[0], name)}[]"
    raise ValueError(
        f"infer_schema(func): Parameter {name} has unsupported type {hint}. The valid types are tensors, numbers, "
        "strings, dtypes, devices, sequences of them, and these or None."
    )


def _result(hint: Any) -> str:
    if hint is type(None):
        return "()"
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return f"({', '.join(_kind(part, 'return') for part in parts)})"
    return _kind(hint, "return")


@dataclass(frozen=True)
class Schema:
    """A schema taken apart: its name, and the signature that its arguments are bound to.

    >>> Schema.of("f(Tensor x, *, float by=2.0) -> Tensor").signature
    <Signature (x, *, by=2.0)>
    """

    text: str
    name: str
    signature: inspect.Signature
    mutated: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Schema:
        """The schema that ``text`` is; ``ValueError`` where it is none."""
        found = re.fullmatch(r"\s*([\w.:]*)\s*\((.*)\)\s*->\s*(.+?)\s*", text, re.DOTALL)
        if found is None:
            raise ValueError(f"{text!r} is no schema: write name(Tensor x, float y=1.0) -> Tensor")
        parameters: list[inspect.Parameter] = []
        mutated: list[str] = []
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for part in _parts(found[2]):
            if part == "*":
                kind = inspect.Parameter.KEYWORD_ONLY
                continue
            one = _PARAMETER.fullmatch(part)
            if one is None:
                raise ValueError(f"{text!r} is no schema: {part!r} is no parameter")
            default = inspect.Parameter.empty if one["default"] is None else _value(one["default"])
            parameters.append(inspect.Parameter(one["name"], kind, default=default))
            if "!" in one["kind"]:
                mutated.append(one["name"])
        return cls(text, found[1], inspect.Signature(parameters), tuple(mutated))

    def __str__(self) -> str:
        return self.text

    def bind(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in order, and those that are given by name alone, defaults filled in."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs


def _parts(text: str) -> Iterator[str]:
    """What commas divide, outside of brackets."""
    depth, part, quote = 0, "", ""
    for letter in text:
        if letter in "\"'" and quote in ("", letter):
            quote = "" if quote else letter
        depth += 0 if quote else (letter in "([") - (letter in ")]")
        if letter == "," and not depth and not quote:
            yield part.strip()
            part = ""
        else:
            part += letter
    if part.strip():
        yield part.strip()


def _value(text: str) -> Any:
    """A default as schemas spell it."""
    known = {"None": None, "True": True, "False": False, "true": True, "false": False}
    text = text.strip()
    if text in known:
        return known[text]
    if text[:1] in "\"'":
        return text[1:-1]
    if text[:1] == "[":
        return [_value(x) for x in _parts(text[1:-1])]
    if isinstance(getattr(dtypes, text, None), DType):
        return getattr(dtypes, text)
    try:
        return int(text)
    except ValueError:
        return float(text)
