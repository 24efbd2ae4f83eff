"""What code that is only read says of its lines: where in the program they come from, and the types of their values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..dtypes import DType
from ..tensor import Tensor

if TYPE_CHECKING:
    from .node import Node

__all__ = ["Comments", "dtype_abbreviation", "parse_stack_trace"]

_FRAME = re.compile(r"^File \"(.+)\", line (\d+), in (.+)$")
_SHORT = {"bfloat16": "bf16", "bool": "b8"}
_LETTERS = {"float": "f", "complex": "c", "uint": "u", "int": "i"}


def dtype_abbreviation(dtype: DType) -> str:
    """A dtype in as few letters as can be.

    >>> import tracejit as tj
    >>> dtype_abbreviation(tj.float32), dtype_abbreviation(tj.int64), dtype_abbreviation(tj.bool)
    ('f32', 'i64', 'b8')
    """
    name = str(dtype).rpartition(".")[2]
    if name in _SHORT:
        return _SHORT[name]
    letters = name.rstrip("0123456789")
    return f"{_LETTERS.get(letters, letters)}{name[len(letters) :]}"


def parse_stack_trace(text: str) -> tuple[str, str, str, str] | None:
    """File, line, function and code of the innermost frame in a trace.

    >>> parse_stack_trace('File "a.py", line 3, in forward' + chr(10) + '    return x')
    ('a.py', '3', 'forward', 'return x')
    """
    lines = text.strip().split("\n")
    for place in range(len(lines) - 2, -1, -1):
        found = _FRAME.match(lines[place].strip())
        if found:
            return found[1], found[2], found[3], lines[place + 1].strip()
    return None


def _row(extents: Any) -> str:
    return f"[{', '.join(map(str, extents))}]"


class Comments:
    """The comments of one function.

    >>> Comments(False, False).strides
    False
    """

    def __init__(self, strides: bool, devices: bool) -> None:
        self.strides, self.devices = strides, devices
        self._before: str | None = None

    def before(self, node: Node) -> list[str]:
        """The line before a node's, unless it is the one before."""
        if node.op in ("placeholder", "output"):
            return []
        text = "No stacktrace found for following nodes"
        found = parse_stack_trace(node.stack_trace) if node.stack_trace else None
        if found is not None:
            text = f"File: {found[0]}:{found[1]} in {found[2]}, code: {found[3]}"
        line = f"\n# {text}\n"
        if line == self._before:
            return []
        self._before = line
        return [line]

    def type_of(self, node: Node) -> str | None:
        """The type of a node's value, as an annotation, where it is known."""
        meta = node.meta
        value: Any = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
        if isinstance(value, Tensor):
            strides = _row(value.stride()) if self.strides else ""
            place = str(value.device) if self.devices else ""
            text = f"{dtype_abbreviation(value.dtype)}{_row(value.shape)}{strides}{place}"
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            text = f"{dtype_abbreviation(value.dtype)}{_row(value.shape)}"
        else:
            return None
        return f': "{text}"'
