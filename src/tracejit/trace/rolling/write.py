"""Writing the rolled list: loops in the place of their rounds, stacks for what they take and give."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder, mapped
from ...ir.graph import Graph, Value
from ...ir.loops import loop_value, part_value
from ...ops import movement
from ...passes.loops.stacks import zeros
from ...types import TensorType
from .demand import Demand, Pieces, single, target_of
from .loop import Fixed, Inside, Item, Loop, Read
from .stacks import Gathered, SliceStack, Stack, ViewStack
from .views import Step, apply_steps, cut, joined, step


class Writer:
    """From the beginning to the end: the new statements."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.record = demand.record
        self.statements: list[Value] = []
        self.mapping: dict[Value, Value] = {}
        self.parts: dict[tuple[Loop, str, int], Value] = {}
        self.stacks: dict[Stack, Value] = {}
        self.loops = 0

    def run(self, order: Sequence[Value | Loop]) -> None:
        """Write everything down."""
        for item in order:
            if isinstance(item, Loop):
                self.loop(item)
            elif item in self.demand.live:
                self.statement(item)

    def add(self, value: Value) -> Value:
        """Write one statement."""
        self.statements.append(value)
        return value

    def views(self, value: Value, steps: Sequence[Step], line: tuple[str, int] | None) -> Value:
        """Write a chain of views."""
        made = apply_steps(value, steps, line)
        self.statements += made
        return made[-1] if made else value

    def statement(self, value: Value) -> None:
        """Write a statement outside loops."""
        pieces = self.demand.joins.get(value)
        new = self.remade(value) if pieces is None else self.join(value, pieces)
        if new is not value:
            self.mapping[value] = new

    def remade(self, value: Value) -> Value:
        """A statement on the new operands."""
        operands = {x: self.get(x) for x in value.value_operands}
        return self.add(mapped(value, operands))

    def get(self, value: Value) -> Value:
        """What stands for a recorded value now."""
        known = self.mapping.get(value)
        if known is not None:
            return known
        place = self.record.place(value)
        if place is None:
            if value in self.record.constants:
                self.mapping[value] = self.add(value)
            return value
        self.mapping[value] = new = self.taken(value, *place)
        return new

    def taken(self, value: Value, loop: Loop, position: int, number: int) -> Value:
        """The value of one round of a loop."""
        how = single(loop, position, number)
        if how == "again":
            return self.remade(value)
        if how == "held" and position in loop.collected:
            how = "collected"
        if how != "collected":
            return self.parts[loop, how, position]
        stack = self.parts[loop, how, position]
        steps = cut(stack.spec.shape, 0, number, 1)
        return self.views(stack, (*steps, step(movement.squeeze, dims=(0,))), value.line)

    # --- stacks --------------------------------------------------------------------------------------------------

    def stack(self, stack: Stack) -> Value:
        """The tensor of all items."""
        known = self.stacks.get(stack)
        if known is None:
            known = self.stacks[stack] = self.made(stack)
        return known

    def made(self, stack: Stack) -> Value:
        """Write the statements of a stack."""
        if isinstance(stack, ViewStack):
            return self.views(self.stack(stack.inner), stack.steps, stack.item.line)
        if isinstance(stack, Gathered):
            widened = (step(movement.unsqueeze, dims=(0,)),)
            return self.cat(
                [self.views(self.get(v), widened, v.line) for v in stack.values], 0, None
            )
        if isinstance(stack, SliceStack):
            base = self.get(stack.base)
            found = [self.views(base, chain, stack.line) for chain in stack.chains]
            return self.cat(found, stack.dim + 1, stack.line)
        part = self.parts[stack.loop, "collected", stack.position]
        steps = cut(part.spec.shape, 0, stack.first, stack.count, stack.step)
        return self.views(part, steps, part.line)

    def join(self, value: Value, pieces: Pieces) -> Value:
        """``cat`` of stacks and single values."""
        dim: int = value.attributes["dim"]
        found: list[Value] = []
        for piece in pieces:
            if isinstance(piece, Value):
                found.append(self.get(piece))
            else:
                stack = self.stack(piece)
                found.append(self.views(stack, joined(stack.spec, dim), value.line))
        return self.cat(found, dim, value.line)

    def cat(self, values: list[Value], dim: int, line: tuple[str, int] | None) -> Value:
        """Tensors one after the other."""
        if len(values) == 1:
            return values[0]
        attributes = {"dim": dim}
        kind = movement.cat.infer([v.spec for v in values], attributes)
        return self.add(Value(kind, movement.cat, tuple(values), attributes, line=line))

    # --- loops ---------------------------------------------------------------------------------------------------

    def loop(self, loop: Loop) -> None:
        """The statement of a loop and those of its parts."""
        if not (loop.collected or loop.last or loop.held):
            return
        self.loops += 1
        first = [self.get(c.first[0]) for c in loop.chains]
        first += [self.nothing(loop.template(position)) for position in loop.to_hold]
        fixed = [self.get(v) for v in loop.fixed]
        stacks = [self.stack(s) for s in loop.stacks]
        graph = body(loop, stacks)
        line = loop.template(min(loop.needed)).line
        value = self.add(loop_value(first, fixed, stacks, graph, loop.rounds, line))
        chains = list(loop.chains)
        for position in loop.last:
            chain = loop.carried_from(position)
            assert chain is not None
            self.parts[loop, "last", position] = self.add(part_value(value, chains.index(chain)))
        for number, position in enumerate(loop.to_hold, len(chains)):
            self.parts[loop, "held", position] = self.add(part_value(value, number))
        for number, position in enumerate(loop.collected, len(first)):
            self.parts[loop, "collected", position] = self.add(part_value(value, number))
        for position in loop.filled:
            self.fill(loop, position)

    def nothing(self, like: Value) -> Value:
        """What stands for a value that is held before the first round has one."""
        builder = Builder("nothing")
        zeros(builder, like.spec)
        self.statements += [v for v in builder.body if isinstance(v, Value)]
        return self.statements[-1]

    def fill(self, loop: Loop, position: int) -> None:
        """The tensor that the rounds filled."""
        reads, template = loop.reads[position], loop.template(position)
        assert reads is not None
        source = reads[1]
        assert isinstance(source, Inside)
        place = loop.scatters[position]
        written = self.parts[loop, "collected", source.position]
        written = self.views(written, place.views, template.line)
        target = self.get(target_of(loop, position))
        attributes = {"starts": place.starts, "counts": place.counts, "steps": place.steps}
        self.parts[loop, "filled", position] = self.add(
            Value(template.spec, template.op, (target, written), attributes, line=template.line)
        )


def body(loop: Loop, stacks: Sequence[Value]) -> Graph:
    """The body of a loop as a graph."""
    carried = {c: Value(c.first[0].spec, name=f"carried{i}") for i, c in enumerate(loop.chains)}
    same = {v: Value(v.spec, name=f"fixed{i}") for i, v in enumerate(loop.fixed)}
    items = {
        s: Value(TensorType(new.spec.shape[1:], new.spec.dtype), name=f"item{i}")
        for i, (s, new) in enumerate(zip(loop.stacks, stacks, strict=True))
    }
    held = {p: Value(loop.template(p).spec, name=f"held{i}") for i, p in enumerate(loop.to_hold)}
    known: dict[int, Value] = {}

    def operand(read: Read) -> Value:
        if isinstance(read, Inside):
            return known[read.position]
        if isinstance(read, Fixed):
            return same[read.value]
        return items[read.stack] if isinstance(read, Item) else carried[read]

    made: list[Value] = []
    for position in sorted(loop.needed):
        if position in loop.items:
            known[position] = items[loop.items[position]]
            continue
        template, reads = loop.template(position), iter(loop.reads[position] or ())
        operands = tuple(
            [operand(next(reads)) if isinstance(x, Value) else x for x in template.operands]
        )
        new = Value(template.spec, template.op, operands, template.attributes, line=template.line)
        known[position] = new
        made.append(new)
    after = [known[c.position] if c.shorter is None else carried[c.shorter] for c in carried]
    after += [known[p] for p in (*held, *loop.collected)]
    inputs = (*carried.values(), *held.values(), *same.values(), *items.values())
    return Graph("rounds", inputs, tuple(made), tuple(after))
