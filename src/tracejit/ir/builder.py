"""Building graphs: type inference and value numbering on every statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..extents import Extent
from ..modes import MODES
from ..ops.table import Op
from ..types import Scalar, TensorType
from .graph import Graph, Guard, Statement, Value


class Occurrences:
    """How often equal statements were written, in order: the last ones can be taken back."""

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        self._order: list[Any] = []

    def __len__(self) -> int:
        return len(self._order)

    def count(self, key: Any) -> int:
        """How many statements with this key there were before this one."""
        earlier = self._counts.get(key, 0)
        self._counts[key] = earlier + 1
        self._order.append(key)
        return earlier

    def take_back(self, length: int) -> None:
        """Forget all but the first ``length`` statements."""
        while len(self._order) > length:
            self._counts[self._order.pop()] -= 1


class Builder:
    """Collects statements; equal computations become one value.

    >>> from tracejit import float32
    >>> from tracejit.ops.elementwise import add
    >>> b = Builder("f")
    >>> x = b.input("x", TensorType((2,), float32))
    >>> with b.writing():
    ...     y = add(x, x)
    >>> print(b.finish([y]))
    graph f(x: f32[2]) {
        %0: f32[2] = add(x, x)
        return %0
    }
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.body: list[Statement] = []
        self.line: tuple[str, int] | None = None
        self.scope: Any = None  # of the sizes that the run being recorded told
        self._known: dict[Any, Value] = {}
        self._number_keys: dict[Value, list[Any]] = {}  # of statements that came again

    def input(self, name: str, type: TensorType) -> Value:
        """Add a graph input."""
        value = Value(type, name=name)
        self.inputs.append(value)
        return value

    def emit(
        self,
        op: Op,
        operands: Sequence[Value | Scalar],
        attributes: Mapping[str, Any],
        line: tuple[str, int] | None = None,
        *,
        occurrences: Occurrences | None = None,
        type: TensorType | None = None,
    ) -> Value:
        """The value of ``op`` on ``operands``, written down unless an equal one is already there.

        With ``occurrences``, equal statements stay apart and are counted there: gradients of equal computations are
        summed in the order of the eager tape, which matters to the last bit. ``type`` is the value's type where it is
        known.
        """
        if op.in_graphs is not None:
            return self._written(op.in_graphs, operands, attributes, line)
        numbers = _attributes_key(attributes) if attributes else ()
        parts: list[Any] = [op.name]
        for x in operands:  # a call for each would take longer than all the rest
            parts.append(x if x.__class__ is Value else attribute_key(x))  # noqa: PERF401
        key: Any = (*parts, *numbers)
        if occurrences is not None and (earlier := occurrences.count(key)):
            key = (*key, "occurrence", earlier)
        if self.scope is not None:
            type = self._inferred(op, operands, attributes)
            if _watched(type.shape):
                key = (*key, "shape", *attribute_key(type.shape))
        known = self._known.get(key)
        if known is not None:
            if self.scope is not None and type is not None:
                known.spec = type  # the same, in symbols of the present recording
            return known
        value = Value(
            type or self._inferred(op, operands, attributes),
            op,
            tuple(operands),
            dict(attributes),
            line=line or self.line,
        )
        if self.scope is None:
            value.attribute_key = numbers
        self._known[key] = value
        self.body.append(value)
        return value

    def _written(
        self,
        function: Callable[..., Any],
        operands: Sequence[Value | Scalar],
        attributes: Mapping[str, Any],
        line: tuple[str, int] | None,
    ) -> Value:
        """What a function of ops gives for operands."""
        before, self.line = self.line, line or self.line
        try:
            with self.writing():
                result: Value = function(*operands, **attributes)
        finally:
            self.line = before
        return result

    def _inferred(
        self, op: Op, operands: Sequence[Value | Scalar], attributes: Mapping[str, Any]
    ) -> TensorType:
        return op.infer([x.spec if isinstance(x, Value) else x for x in operands], attributes)

    def found(self, value: Value) -> Value:
        """``value``, of an op whose shape the run tells, or the known one that is equal."""
        assert value.op is not None
        key = _statement_key(value.op, value.operands, value.attributes)
        known = self._known.setdefault(key, value)
        if known is value:
            self.body.append(value)
        return known

    def guard(self, value: Value, expected: Scalar, line: tuple[str, int] | None = None) -> None:
        """Add a guard, once."""
        key = ("guard", value, _operand_key(expected))
        if key not in self._known:
            self._known[key] = value
            self.body.append(Guard(value, expected, line or self.line))

    def insert(self, value: Value) -> Value:
        """Write ``value`` itself down (its operands are here already), unless an equal one is there."""
        key = _value_key(value)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = value
            self.body.append(value)
        return known

    def again(
        self,
        value: Value,
        operands: Sequence[Value | Scalar],
        values: Sequence[Value],
        line: tuple[str, int] | None,
    ) -> Value:
        """``value`` on other operands of the same types and the same numbers, unless an equal one is there.

        ``values`` are those of the operands that are no numbers.
        """
        assert value.op is not None
        numbers = attribute_keys(value)
        if len(values) == len(operands):
            key: Any = (value.op.name, *values, *numbers)
        else:
            keys = self._number_keys.get(value)
            if keys is None:
                keys = [None if isinstance(x, Value) else attribute_key(x) for x in value.operands]
                self._number_keys[value] = keys
            told = [x if k is None else k for x, k in zip(operands, keys, strict=True)]
            key = (value.op.name, *told, *numbers)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = value.again(tuple(operands), tuple(values), line)
            self.body.append(known)
        return known

    def copy(self, value: Value, mapping: Mapping[Value, Value]) -> Value:
        """``value`` again, on the mapped operands, which must have the types of the original ones."""
        return self.insert(mapped(value, mapping))

    def adopt(self, graph: Graph) -> None:
        """Continue after ``graph``: its inputs and statements themselves, guards left out."""
        self.inputs.extend(graph.inputs)
        for value in graph.values:
            self.body.append(value)
            self._known.setdefault(_value_key(value), value)

    @contextmanager
    def writing(self) -> Iterator[Builder]:
        """While active, op calls on values (and sources) are written into this builder instead of run."""
        before, MODES.builder = MODES.builder, self
        try:
            yield self
        finally:
            MODES.builder = before

    def finish(self, outputs: Sequence[Value]) -> Graph:
        """The graph with these outputs."""
        return Graph(self.name, tuple(self.inputs), tuple(self.body), tuple(outputs))


def mapped(value: Value, mapping: Mapping[Value, Value]) -> Value:
    """``value`` on the mapped operands; values are immutable, so it is the same one where nothing changes."""
    for x in value.value_operands:
        if mapping[x] is not x:
            break
    else:
        return value
    operands = tuple([mapping[x] if isinstance(x, Value) else x for x in value.operands])
    new = Value(value.spec, value.op, operands, value.attributes, line=value.line)
    new.attribute_key = value.attribute_key
    return new


def _value_key(value: Value) -> Any:
    """What makes two statements the same one."""
    assert value.op is not None
    numbers = attribute_keys(value)
    if len(value.value_operands) == len(value.operands):
        return (value.op.name, *value.operands, *numbers)
    return (value.op.name, *map(_operand_key, value.operands), *numbers)


def attribute_keys(value: Value) -> tuple[Any, ...]:
    """The attributes of a statement as something that can be compared."""
    numbers = value.attribute_key
    if numbers is None:
        numbers = value.attribute_key = _attributes_key(value.attributes)
    return numbers


def _statement_key(
    op: Op, operands: Sequence[Value | Scalar], attributes: Mapping[str, Any]
) -> Any:
    return (op.name, *map(_operand_key, operands), *_attributes_key(attributes))


def _attributes_key(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    if not attributes:
        return ()
    if len(attributes) < 2:
        return tuple([(name, attribute_key(x)) for name, x in attributes.items()])
    return tuple([(name, attribute_key(attributes[name])) for name in sorted(attributes)])


def _operand_key(operand: Any) -> Any:
    """Value identity; numbers by type and bits, so that 1, 1.0, True and -0.0 stay apart and NaN equals NaN."""
    return operand if isinstance(operand, Value) else attribute_key(operand)


_INTEGERS = frozenset({int})


def attribute_key(value: Any) -> Any:
    """A number, or a tuple of them, by type and bits.

    >>> attribute_key(1) == attribute_key(1.0), attribute_key(0.0) == attribute_key(-0.0)
    (False, False)
    """
    if type(value) is float:
        return ("float", value.hex())
    if isinstance(value, tuple):
        kinds = tuple(map(type, value))
        if _INTEGERS.issuperset(kinds):
            return value, kinds
        if float in kinds or tuple in kinds or (Extent in kinds and _watched(value)):
            return tuple(map(attribute_key, value))
        return value, kinds
    if isinstance(value, float):
        return ("float", value.hex())
    if type(value) is Extent and value.scope.watched:
        return ("extent", value.terms)
    return (type(value).__name__, value)


def _watched(values: tuple[Any, ...]) -> bool:
    """Are there sizes among these that must not be compared unseen?"""
    return any(type(x) is Extent and x.scope.watched for x in values)
