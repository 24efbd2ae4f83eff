"""A loop while it is written: operands and the inputs of its body side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.graph import Graph, Value
from ...ir.loops import body_of, loop_value
from ...types import TensorType

Line = tuple[str, int] | None


class Draft:
    """The inputs of a body, by kind, each with its operand outside.

    >>> from tracejit import float32
    >>> h, xs = (Value(TensorType(shape, float32), name=n) for n, shape in (("h", (2,)), ("xs", (5, 2))))
    >>> draft = Draft("round", 5)
    >>> before, x = draft.carry("h", h), draft.item("x", xs)
    >>> draft.finish([], [before, x]).spec
    LoopType(shape=(), dtype=tracejit.int64, parts=(TensorType(shape=(2,), ...), TensorType(shape=(5, 2), ...)))
    """

    def __init__(self, name: str, count: int, line: Line = None, until: bool | None = None) -> None:
        self.name = name
        self.count = count
        self.line = line
        self.until = until
        self.starts: dict[Value, Value] = {}
        self.fixed: dict[Value, Value] = {}
        self.stacks: dict[Value, Value] = {}
        self.taken: set[str] = set()  # names that new inputs may not have

    @classmethod
    def of(cls, loop: Value) -> Draft:
        """The inputs and operands of a loop."""
        until = loop.attributes.get("until")
        draft = cls(body_of(loop).name, loop.attributes["count"], loop.line, until)
        last = len(loop.value_operands) - loop.attributes["items"]
        pairs = zip(body_of(loop).inputs, loop.value_operands, strict=True)
        for position, (inside, operand) in enumerate(pairs):
            if position < loop.attributes["carried"]:
                draft.starts[inside] = operand
            else:
                (draft.fixed if position < last else draft.stacks)[inside] = operand
        return draft

    @property
    def inputs(self) -> list[Value]:
        """The inputs of the body, in order."""
        return [*self.starts, *self.fixed, *self.stacks]

    def carry(self, name: str, start: Value) -> Value:
        """A new carried value."""
        return self._add(self.starts, name, start, start.spec)

    def fix(self, name: str, operand: Value) -> Value:
        """A new value that is the same in every round."""
        return self._add(self.fixed, name, operand, operand.spec)

    def item(self, name: str, stack: Value) -> Value:
        """A new item."""
        kind = TensorType(stack.spec.shape[1:], stack.spec.dtype)
        return self._add(self.stacks, name, stack, kind)

    def _add(self, group: dict[Value, Value], name: str, operand: Value, kind: TensorType) -> Value:
        taken = {v.name for v in self.inputs}
        while name in taken or name in self.taken:
            name += "_"
        inside = Value(kind, name=name)
        group[inside] = operand
        return inside

    def finish(self, statements: Iterable[Value], outputs: Sequence[Value]) -> Value:
        """The loop; ``outputs`` are the carried values, then what is collected."""
        body = Graph(self.name, tuple(self.inputs), tuple(statements), tuple(outputs))
        starts, fixed, stacks = ([*x.values()] for x in (self.starts, self.fixed, self.stacks))
        return loop_value(starts, fixed, stacks, body, self.count, self.line, self.until)
