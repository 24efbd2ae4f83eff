"""How PyTorch's operators are spelled: their forms, what each takes, and which form a call is one of.

A line is ``name.form(parameters)``; a parameter is a name with a mark for its kind, and its default. Marks: ``:t`` a
tensor, ``:n`` a number, ``:l`` a row of integers, for which a single one may stand, ``:i`` an integer, ``:s`` a row
of tensors. Without a mark it may be anything.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ..dtypes import DType
from ..tensor import Tensor
from .spelled import ALONE, INPLACE, LINES, PAIRS

__all__ = ["Form", "Parameter", "forms_of"]

#: Other names under which programs give operands and options.
_ALSO = {
    "self": ("input", "x"),
    "dim": ("axis", "dims"),
    "keepdim": ("keepdims",),
    "other": ("x2", "tensor2"),
    "mat2": ("other",),
    "size": ("shape",),
    "tensors": ("input",),
}
_NUMBERS = (int, float, complex, bool)


class Parameter(NamedTuple):
    """A parameter of a form."""

    name: str
    kind: str
    default: Any
    required: bool
    named: bool


@dataclass(frozen=True, eq=False)
class Form:
    """One form of an operator."""

    name: str
    form: str
    parameters: tuple[Parameter, ...]

    def bound(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Arguments as listeners are given them, defaults at the end left off; None where it is not this form.

        >>> import tracejit as tj
        >>> form = forms_of("sum")[1]
        >>> form.bound((3, 1), {}), form.bound((tj.ones(2), 0), {"keepdim": False})[0][1]
        (None, [0])
        """
        rest = dict(kwargs)
        values: list[Any] = []
        places = [p for p in self.parameters if not p.named]
        given = _gathered(places, args)
        if given is None:
            return None
        for number, p in enumerate(places):
            found = given[number] if number < len(given) else _taken(p, rest)
            found = _converted(p, found)
            if found is _NONE:
                return None
            values.append(found)
        named = {}
        for p in self.parameters:
            if p.named:
                found = _converted(p, _taken(p, rest))
                if found is _NONE:
                    return None
                if not _same(found, p.default):
                    named[p.name] = found
        if rest:
            return None
        while values and not places[len(values) - 1].required:
            if not _same(values[-1], places[len(values) - 1].default):
                break
            values.pop()
        return tuple(values), named

    def known(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """All arguments by their names, with the defaults.

        >>> forms_of("softplus")[0].known((1.0,), {})
        {'self': 1.0, 'beta': 1, 'threshold': 20}
        """
        found = {p.name: p.default for p in self.parameters}
        places = [p.name for p in self.parameters if not p.named]
        found.update(zip(places, args, strict=False))
        found.update(kwargs)
        return found


_NONE: Any = object()


def _gathered(places: list[Parameter], args: Any) -> tuple[Any, ...] | None:
    """Arguments by position, where integers at the end stand for a row of them; None where they are too many."""
    if len(args) <= len(places):
        last = len(args) - 1
        row = bool(args) and type(args[last]) is int and places[last].kind == "l"
        return (*args[:last], [args[last]]) if row else tuple(args)
    rows = [i for i, p in enumerate(places) if p.kind == "l"]
    if not rows or not all(isinstance(x, int) for x in args[rows[0] :]):
        return None
    return (*args[: rows[0]], list(args[rows[0] :]))


def _taken(p: Parameter, rest: dict[str, Any]) -> Any:
    """The argument of that name, or its default."""
    for name in (p.name, *_ALSO.get(p.name, ())):
        if name in rest:
            return rest.pop(name)
    return _NONE if p.required else p.default


def _same(found: Any, default: Any) -> bool:
    if type(found) is not type(default):  # 1.0 is not what 1 is
        return False
    return not isinstance(found, (Tensor, DType)) and bool(found == default)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def _is_row(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and all(
        isinstance(y, int) or hasattr(y, "__index__") for y in x
    )


_FITS: dict[str, Callable[[Any], bool]] = {
    "": lambda x: True,
    "t": _is_tensor,
    "n": lambda x: isinstance(x, _NUMBERS) or (not _is_tensor(x) and hasattr(x, "__float__")),
    "l": _is_row,
    "i": lambda x: isinstance(x, int) or (not _is_tensor(x) and hasattr(x, "__index__")),
    "s": lambda x: isinstance(x, (list, tuple)) and all(map(_is_tensor, x)),
}


def _converted(p: Parameter, found: Any) -> Any:
    """What listeners get of an argument; `_NONE` where it does not fit."""
    if found is _NONE or (found is None and not p.required and p.default is None):
        return found
    if p.kind == "l" and isinstance(found, int) and not isinstance(found, bool):
        found = [found]
    if not _FITS[p.kind](found):
        return _NONE
    return list(found) if p.kind in ("l", "s") else found


def _parameters(text: str) -> Iterator[Parameter]:
    named = False
    for part in filter(None, map(str.strip, text.split(";"))):
        if part == "*":
            named = True
            continue
        spelled, equals, default = part.partition("=")
        name, _, kind = spelled.partition(":")
        yield Parameter(
            name, kind, ast.literal_eval(default) if equals else None, not equals, named
        )


def _lines() -> Iterator[str]:
    yield from LINES.split("\n")
    for name in ALONE.split():
        yield f"{name}.default(self:t)"
    for name in PAIRS.split():
        yield f"{name}.default(self:t; other:t)"


@cache
def _all() -> dict[str, tuple[Form, ...]]:
    found: dict[str, list[Form]] = {}
    for line in filter(None, map(str.strip, _lines())):
        head, _, rest = line.partition("(")
        name, _, form = head.partition(".")
        parameters = tuple(_parameters(rest.removesuffix(")")))
        found.setdefault(name, []).append(Form(name, form or "default", parameters))
    for name in (*INPLACE.split(), *ALONE.split(), *PAIRS.split()):
        if name in found and f"{name}_" not in found:
            own = [f for f in found[name] if f.parameters[0].kind != "n"]
            found[f"{name}_"] = [Form(f"{name}_", f.form, f.parameters) for f in own]
    return {name: tuple(forms) for name, forms in found.items()}


def forms_of(name: str) -> tuple[Form, ...]:
    """The forms of an operator; none where it is not among those that are spelled.

    >>> [form.form for form in forms_of("pow")]
    ['Tensor_Scalar', 'Tensor_Tensor', 'Scalar']
    """
    return _all().get(name, ())
