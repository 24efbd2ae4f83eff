"""The program as data: values, guards and graphs.

A graph is a straight line of statements over named inputs. Every statement makes one value by one op of the table, or
guards the truth of a value. Values are immutable and compared by identity; passes build new graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..ops import OperatorMixin
from ..ops.table import Op
from ..types import Scalar, TensorType

Operand = "Value | Scalar"


class Value(OperatorMixin):
    """The result of one statement, or a graph input (then ``op`` is None).

    ``name`` is set for inputs only; results are numbered when the graph is printed. ``line`` is the user's
    ``(file, line)``.
    """

    __slots__ = (
        "attribute_key",
        "attributes",
        "like",
        "line",
        "name",
        "op",
        "operands",
        "spec",
        "value_operands",
    )

    def __init__(
        self,
        type: TensorType,
        op: Op | None = None,
        operands: tuple[Value | Scalar, ...] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        line: tuple[str, int] | None = None,
    ) -> None:
        self.spec = type
        self.op = op
        self.operands = operands
        self.attributes = attributes or {}
        self.name = name
        self.line = line
        for x in operands:
            if x.__class__ is not Value:
                operands = tuple([x for x in operands if isinstance(x, Value)])
                break
        #: The operands that are values (not Python numbers).
        self.value_operands: tuple[Value, ...] = operands  # type: ignore[assignment]
        self.attribute_key: tuple[Any, ...] | None = None  # made when value numbering first asks
        self.like: Value | None = None  # the first of those that are the same but for operands

    def again(
        self,
        operands: tuple[Value | Scalar, ...],
        value_operands: tuple[Value, ...],
        line: tuple[str, int] | None,
    ) -> Value:
        """The same statement on other operands of the same types, ``value_operands`` those of them that are values."""
        new = Value.__new__(Value)
        new.spec, new.op, new.attributes, new.name = self.spec, self.op, self.attributes, ""
        new.operands, new.value_operands, new.line = operands, value_operands, line
        new.attribute_key = self.attribute_key
        new.like = None
        if line == self.line:
            new.like = self if self.like is None else self.like
        return new

    def __bool__(self) -> bool:
        raise TypeError(
            "an IR value has no truth: branch on tensors while recording, not inside a rule or a pass"
        )

    def __repr__(self) -> str:
        return f"<{self.name or (self.op.name if self.op else 'value')}: {self.spec}>"


@dataclass(frozen=True, eq=False)
class Guard:
    """``guard value is expected``: the recorded run is valid only while this holds; what else ``refuses`` its call."""

    value: Value
    expected: Scalar
    line: tuple[str, int] | None = None
    refuses: bool = False


Statement = Value | Guard


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Inputs, statements in order of execution, outputs."""

    name: str
    inputs: tuple[Value, ...]
    body: tuple[Statement, ...]
    outputs: tuple[Value, ...]
    _text: str | None = field(default=None, repr=False)

    @property
    def values(self) -> Iterator[Value]:
        """The values made by the body."""
        return iter(self._values)

    @cached_property
    def _values(self) -> tuple[Value, ...]:
        return tuple([s for s in self.body if isinstance(s, Value)])

    @property
    def guards(self) -> Iterator[Guard]:
        """The guards of the body."""
        return (s for s in self.body if isinstance(s, Guard))

    def read(self) -> set[Value]:
        """The values that some statement reads, or that are returned."""
        return {x for v in self.values for x in v.value_operands}.union(self.outputs)

    def users(self) -> dict[Value, list[Value]]:
        """The values computed from each value."""
        found: dict[Value, list[Value]] = {}
        for value in self.values:
            for operand in value.value_operands:
                found.setdefault(operand, []).append(value)
        return found

    def __str__(self) -> str:
        from .text import print_graph

        return print_graph(self)

    __repr__ = __str__

    @property
    def text(self) -> str:
        """The graph as text without the user's lines: what equality compares."""
        if self._text is None:
            from .text import print_graph

            object.__setattr__(self, "_text", print_graph(self, lines=False))
        return self._text  # type: ignore[return-value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)
