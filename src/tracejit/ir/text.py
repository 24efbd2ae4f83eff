"""Graphs as text: one line per statement, the user's file and line at the end.

::

    graph mlp(x: f32[32, 8], w1: f32[8, 16]) {
        %0: f32[32, 16] = matmul(x, w1)   # mlp.py:5
        %1: f32[] = sum(x, dims=(0, 1), keepdim=False)   # mlp.py:6
        ...
        return %0
    }

Inputs keep their names (quoted when they are no plain names), results are numbered in order. Numbers are written so
that they read back with the same type and bits: ``1``, ``1.0``, ``-0.0``, ``True``, ``inf``, ``nan``. The body of a
loop stands below its statement, as a graph of its own. :func:`tracejit.ir.parser.parse` reads the text back.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..dtypes import DType
from .graph import Graph, Guard, Statement, Value
from .loops import Body, body_of, is_loop

#: Words that mean something else where an operand may stand.
RESERVED = frozenset({"True", "False", "None", "inf", "nan", "graph", "guard", "is", "return"})

_PLAIN = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


def print_graph(graph: Graph, lines: bool = True) -> str:
    """``graph`` as text; ``lines=False`` leaves the user's lines out.

    >>> from tracejit import float32
    >>> from tracejit.ir import Builder
    >>> from tracejit.ops.elementwise import mul
    >>> from tracejit.types import TensorType
    >>> b = Builder("f")
    >>> x = b.input("x", TensorType((2,), float32))
    >>> print(print_graph(b.finish([b.emit(mul, (x, 2.0), {}, ("model.py", 3))])))
    graph f(x: f32[2]) {
        %0: f32[2] = mul(x, 2.0)   # model.py:3
        return %0
    }
    """
    names = value_names(graph)
    inputs = ", ".join(f"{names[v]}: {v.spec}" for v in graph.inputs)
    body = [_statement(s, names) for s in graph.body]
    if lines:
        body = _with_lines(body, graph.body)
    body = [x for t, s in zip(body, graph.body, strict=True) for x in (t, *_block(s, lines))]
    outputs = ", ".join(_name(v, names) for v in graph.outputs)
    last = f"    return {outputs}".rstrip()
    return "\n".join([f"graph {quoted(graph.name)}({inputs}) {{", *body, last, "}"])


def _block(statement: Statement, lines: bool) -> list[str]:
    """The body of a loop, indented below its statement."""
    if isinstance(statement, Guard) or not is_loop(statement):
        return []
    text = print_graph(body_of(statement), lines)
    return [f"        {line}" for line in text.split("\n")]


def value_names(graph: Graph) -> dict[Value, str]:
    """The name each value of ``graph`` is printed with."""
    names = {v: quoted(v.name) for v in graph.inputs}
    for number, value in enumerate(graph.values):
        names.setdefault(value, f"%{number}")
    return names


def quoted(name: str) -> str:
    """``name``, in quotes unless it is a plain (dotted) name."""
    plain = _PLAIN.fullmatch(name) and name.split(".")[0] not in RESERVED
    return name if plain else repr(name)


def literal(value: Any) -> str:
    """A number, dtype, string, None or tuple of those as the text spells it."""
    if isinstance(value, DType):
        return value.short
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def call(value: Value, names: dict[Value, str]) -> str:
    """The right-hand side of a statement: ``sum(x, dims=(0,), keepdim=False)``; without the body of a loop."""
    assert value.op is not None
    parts = [_name(x, names) if isinstance(x, Value) else literal(x) for x in value.operands]
    parts += [f"{key}={literal(value.attributes[key])}" for key in _attribute_order(value)]
    return f"{value.op.name}({', '.join(parts)})"


def _attribute_order(value: Value) -> Iterable[str]:
    """As declared, then (for the verifier to report) those the op does not know."""
    assert value.op is not None
    declared = value.op.attributes
    unknown = sorted(set(value.attributes) - set(declared))
    shown = {key for key, x in value.attributes.items() if not isinstance(x, Body)}
    return [*(key for key in declared if key in shown), *unknown]


def _name(value: Value, names: dict[Value, str]) -> str:
    return names.get(value, "%undefined")


def _statement(statement: Statement, names: dict[Value, str]) -> str:
    if isinstance(statement, Guard):
        return f"    guard {_name(statement.value, names)} is {literal(statement.expected)}"
    if statement.op is None:
        return f"    {_name(statement, names)}: {statement.spec} = %undefined"
    return f"    {names[statement]}: {statement.spec} = {call(statement, names)}"


def _with_lines(texts: list[str], body: tuple[Statement, ...]) -> list[str]:
    """The user's lines as comments in one column; very long statements do not push the column out."""
    known = [t for t, s in zip(texts, body, strict=True) if s.line is not None]
    width = max((len(t) for t in known if len(t) <= 100), default=0)
    return [
        t if s.line is None else f"{t:<{width}}   # {_where(s)}"
        for t, s in zip(texts, body, strict=True)
    ]


def _where(statement: Statement) -> str:
    """``mlp.py:6``, and for a guard the source of the line."""
    assert statement.line is not None
    filename, number = statement.line
    place = f"{Path(filename).name}:{number}"
    if not isinstance(statement, Guard):
        return place
    source = linecache.getline(filename, number).strip()
    return f"{place}  {source}".rstrip()
