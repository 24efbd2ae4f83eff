"""Pieces of generated code: operators, paths of attributes, values and types as text."""

from __future__ import annotations

import enum
import types
import typing
from typing import Any

from ..device import device
from ..tensor import Tensor
from .namespace import Namespace
from .node import Node
from .spelling import is_ours, qualified_name, type_text

__all__ = ["INPLACE", "OPERATORS", "REFLECTABLE", "Globals", "format_target", "representation"]

#: Operators that what stands on the right may answer, too, by the names of their functions.
REFLECTABLE = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
#: All operators that give something.
OPERATORS = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **REFLECTABLE,
}
#: Those that change their first operand.
INPLACE = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}

#: Spellings of ``typing`` for classes of Python.
_OLD_SPELLINGS = {list: "List", dict: "Dict", set: "Set", frozenset: "FrozenSet", tuple: "Tuple"}


class Globals:
    """The names that generated code finds in its module.

    >>> names = Globals(Namespace())
    >>> names.add("operator.abs", abs), names.found
    ('operator_abs', {'operator_abs': <built-in function abs>})
    """

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.found: dict[str, Any] = {}

    def add(self, hint: str, obj: Any) -> str:
        """The name of an object that is not of the graph; what belongs to the package has its path."""
        if is_ours(obj) and obj is not device:
            return qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        self.found.setdefault(name, obj)
        return name

    def type_text(self, kind: Any) -> str:
        """A type, in names that are known then."""
        if kind == ():
            return "()"
        text = type_text(kind)
        if isinstance(kind, types.UnionType) and "|" in text:
            return "|".join(self.type_text(part) for part in typing.get_args(kind))
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add(text, kind)
        if type(kind).__module__ == "typing":
            old = _OLD_SPELLINGS.get(origin)
            origin = origin if old is None else getattr(typing, old)
        name = self.add(type_text(origin), origin)
        parts = typing.get_args(kind)
        return f"{name}[{','.join(map(self.type_text, parts))}]" if parts else name


def format_target(base: str, target: str) -> str:
    """What ``target``, a path of attributes, is in ``base``.

    >>> format_target("self", "layers.0.weight")
    'getattr(self.layers, "0").weight'
    """
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def representation(arg: Any, names: Globals) -> str:
    """A value as code.

    >>> representation([1, (slice(None, 2),)], Globals(Namespace()))
    '[1, (slice(None, 2, None),)]'
    """
    if isinstance(arg, Node):
        return repr(arg)
    if isinstance(arg, tuple) and hasattr(arg, "_fields"):
        return f"{names.add(qualified_name(type(arg)), type(arg))}{tuple(arg)!r}"
    if isinstance(arg, enum.Enum):
        return f"{names.add(type(arg).__name__, type(arg))}.{arg.name}"
    if isinstance(arg, Tensor):
        return f"tracejit.Tensor(size={list(arg.shape)}, dtype={str(arg.dtype).split('.')[-1]})"
    if isinstance(arg, (tuple, list)):
        items = ", ".join(representation(x, names) for x in arg)
        if isinstance(arg, list):
            return f"[{items}]"
        return f"({items},)" if len(arg) == 1 else f"({items})"
    if isinstance(arg, slice):
        parts = (representation(x, names) for x in (arg.start, arg.stop, arg.step))
        return f"slice({', '.join(parts)})"
    return repr(arg)
