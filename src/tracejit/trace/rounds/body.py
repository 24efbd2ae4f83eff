"""The body of an open loop, as a graph, from the ops of one recorded round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...dtypes import int64
from ...ir.builder import Builder, Occurrences
from ...ir.graph import Graph, Value
from ...ops import elementwise
from ...ops.inverse import write
from ...ops.selection import Selected
from ...ops.table import Movement, Op, Source
from ...tensor import Tensor
from ...types import TensorType
from ..rolling.tree import is_native
from .relations import Relation
from .rounds import Ran, Rounds, Wrote

if TYPE_CHECKING:
    from ..recording.recorder import Recorder

#: The type of the number of rounds, where it is carried.
COUNT = TensorType((1,), int64)


class KeptError(Exception):
    """The rounds stay as they were recorded."""


class Body:
    """Writes the body of the loop that begins with visit ``first``.

    ``check`` looks at tensors from outside of it. With ``counted`` the rounds are counted, in the last carried value
    but one.
    """

    def __init__(
        self,
        recorder: Recorder,
        rounds: Rounds,
        first: int,
        relation: Relation,
        check: Callable[[Tensor], None],
    ) -> None:
        self.recorder = recorder
        self.check = check
        self.first, self.second = rounds.visits[first], rounds.visits[first + 1]
        self.events = rounds.events[self.first.at + 1 : self.second.at]
        self.relation = relation
        self.builder = Builder("rounds")
        self.inside: dict[int, Value] = {}
        self.fixed: dict[Value, Value] = {}
        self.holders: dict[
            Value, Tensor
        ] = {}  # what holds a fixed value, unless an op without operands makes it
        self.occurrences = Occurrences()
        self.same = {id(x) for x in relation.fixed}
        self.outside = {id(x) for x, _ in islice(recorder.external.values(), self.first.external)}

        #: The tensors that a round writes to: what they, and views of them, hold hangs on when it is read.
        self.changing = {id(e.origin) for e in self.events if isinstance(e, Wrote)}
        for number, (x, _) in enumerate(relation.pairs):
            self.inside[id(x)] = self.builder.input(f"carried{number}", x.spec)

    def open(self, before: Value, counted: bool) -> Graph:
        """The graph with a condition, at first ``before``, carried last; raises :class:`KeptError`."""
        number = self.builder.input("number", COUNT) if counted else None
        self.builder.input("before", before.spec)
        outputs = self.written()
        if number is not None:
            outputs.append(self.builder.emit(elementwise.add, (number, 1), {}))
        return self.builder.finish([*outputs, self.condition(before)])

    def closed(self) -> Graph:
        """The graph of what is carried on alone; raises :class:`KeptError`."""
        return self.builder.finish(self.written())

    def written(self) -> list[Value]:
        """What is carried on, after all ops are written down."""
        for event in self.events:
            if isinstance(event, Wrote):
                self.write(event)
            else:
                assert isinstance(event, Ran)
                self.inside[id(event.out)] = self.op(event)
        return [self.operand(x) for _, x in self.relation.pairs]

    def write(self, event: Wrote) -> None:
        """One write: from here on another value stands for the tensor."""
        base, new = self.operand(event.origin), self.operand(event.new)
        before = len(self.builder.body)
        with self.builder.writing():
            after = written_through(base, event.steps, new)
        made = self.builder.body[before:]
        if after.spec != base.spec or not all(isinstance(v, Value) and is_native(v) for v in made):
            raise KeptError
        self.inside[id(event.origin)] = after

    def op(self, event: Ran) -> Value:
        """One op; as on the tape, equal computations stay apart."""
        if isinstance(event.op, Source) and not event.operands:
            return self.given(self.recorder.emit(event.op, (), event.attributes))
        operands = [self.operand(x) if isinstance(x, Tensor) else x for x in event.operands]
        tracked = event.out._requires_grad and not isinstance(event.op, Movement)
        occurrences = self.occurrences if tracked else None
        value = self.native(event.op, operands, event, occurrences)
        if event.cut_off and not event.shown:
            value = self.native(elementwise.detach_copy, (value,), event)
        if value.spec != event.out.spec:
            raise KeptError
        return value

    def native(
        self, op: Op, operands: Sequence[Any], event: Ran, occurrences: Occurrences | None = None
    ) -> Value:
        """A statement that native loops can hold."""
        attributes = event.attributes if op is event.op else {}
        value = self.builder.emit(op, operands, attributes, event.line, occurrences=occurrences)
        if not is_native(value):
            raise KeptError
        return value

    def condition(self, before: Value) -> Value:
        """The truth that is read at the end of the round."""
        value = self.inside.get(id(self.second.tensor))
        if value is None:
            raise KeptError
        if value.spec.dtype.category != "bool":
            value = self.builder.emit(elementwise.ne, (value, 0), {})
        if value.spec != before.spec:
            raise KeptError
        return value

    def operand(self, x: Tensor) -> Value:
        """What stands for a tensor in the body."""
        if self.changing:
            origin, steps = self.recorder.origin(x)
            if origin is not x and id(origin) in self.changing:
                return self.seen(self.operand(origin), steps)
        known = self.inside.get(id(x))
        if known is not None:
            return known
        if id(x) not in self.same and id(x) not in self.outside:
            raise KeptError  # it was made before, and nothing shows that it is the same in every round
        if id(x) in self.changing:
            raise KeptError  # it is written to, and not handed on
        self.check(x)
        value = self.recorder.value_of(x)
        self.holders[value] = x
        return self.given(value)

    def given(self, value: Value) -> Value:
        """What stands for a value from outside, which is the same in every round."""
        if value not in self.fixed:
            self.fixed[value] = self.builder.input(f"fixed{len(self.fixed)}", value.spec)
        return self.fixed[value]

    def seen(self, value: Value, steps: Sequence[Any]) -> Value:
        """A view of what changes, as it is now."""
        for op, attributes in steps:
            if isinstance(op, Selected):
                raise KeptError
            value = self.builder.emit(op, (value,), attributes)
            if not is_native(value):
                raise KeptError
        return value


def written_through(base: Value, steps: Sequence[Any], new: Value) -> Value:
    """``base`` after what is seen of it through ``steps`` was overwritten."""
    if not steps:
        return new
    (op, attributes), rest = steps[0], steps[1:]
    if isinstance(op, Selected):
        raise KeptError
    inner = written_through(op(base, **attributes), rest, new) if rest else new
    result: Value = write(op, attributes, base, inner)
    return result
