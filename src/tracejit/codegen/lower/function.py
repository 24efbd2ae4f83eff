"""Statements and whole functions of the kernel language to LLVM text.

A name assigned once (or any name of a straight-line function) is an SSA value. Names assigned several times live in
stack slots, which LLVM's SROA pass turns back into SSA. Loops are printed in the form the loop vectoriser expects: one
signed i64 counter, `nsw` increment, one latch. Only `name += value` (and `*=`) may be re-associated: that is the one
licence a reduction needs to become vector code.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from tracejit.codegen.lower.column_folds import fold_columns, folds_columns
from tracejit.codegen.lower.expr import ExpressionLowering
from tracejit.codegen.lower.names import (
    accumulates,
    has_control_flow,
    is_innermost,
    names_needing_slots,
    stays_as_it_is,
)
from tracejit.codegen.lower.primitives import REDUCTIONS, expect
from tracejit.codegen.lower.row_folds import fold_rows
from tracejit.codegen.lower.row_parts import row_parts
from tracejit.codegen.lower.types import (
    I64,
    LoweredFunction,
    Pointer,
    Scalar,
    Type,
    Value,
    constant,
    fail,
    literal_number,
    parse_type,
    scalar_type,
)
from tracejit.codegen.lower.widen import Loop, NotWidened, widened

if TYPE_CHECKING:
    from tracejit.codegen.lower.module import Library

#: The bits of a vector, and the instructions that the target lacks.
Widening = tuple[int, tuple[str, ...]]


# Instructions, those of called functions included.
_LONG_BODY = 200


class FunctionLowering(ExpressionLowering):
    """Lowers one function definition."""

    def __init__(
        self,
        node: ast.FunctionDef,
        library: Library,
        widening: Widening | None = None,
        apart: Container[ast.For] = (),
    ) -> None:
        super().__init__(library)
        self.node = node
        self.apart = apart  # loops over rows that are not to be folded together
        self.widening, self.scales = widening, False
        self.result = self._result_type()
        self.slot_lines: list[str] = []
        self.all_slots: dict[str, Value] = {}
        self.metadata: list[str] = []
        self.kinds: dict[str, str] = {}
        self.terminated = False
        self.depth = 0
        self.in_slots = names_needing_slots(node)
        self.straight_line = not has_control_flow(node)

    def lower(self, symbol: str, attributes: str, noalias: bool) -> LoweredFunction:
        """Lower the body; `symbol` is the LLVM name, `attributes` what follows the parameter list."""
        parameters = self._parameters()
        self.statements(self.node.body)
        if not self.terminated:
            fail(self.node, "every path must end in a return statement")
        spelled = ", ".join(
            f"{type_.llvm}{' noalias' if noalias and isinstance(type_, Pointer) else ''} %{name}"
            for name, type_ in parameters.items()
        )
        head = f"define internal {self.result.llvm} @{symbol}({spelled}) {attributes} {{"
        text = "\n".join([head, "entry:", *self.slot_lines, *self.lines, "}", *self.metadata, ""])
        return LoweredFunction(
            self.node.name,
            tuple(parameters.values()),
            self.result,
            text,
            tuple(self.declarations),
            tuple(self.calls),
            tuple(self.tables),
            self.weight,
        )

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Lower a block; what follows a `return` in it is unreachable and dropped."""
        for statement in body:
            if self.terminated:
                return
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Lower one statement."""
        match node:
            case ast.Assign():
                self._assign(node)
            case ast.AugAssign():
                self._accumulate(node)
            case ast.For():
                self._for(node)
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.Return():
                self._return(node)
            case ast.Pass():
                pass
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case _:
                fail(node, f"{type(node).__name__} is not part of the kernel language")

    def _result_type(self) -> Scalar:
        type_ = parse_type(self.node.returns, self.node)
        if isinstance(type_, Pointer):
            fail(self.node, "a function cannot return a pointer")
        return type_

    def _parameters(self) -> dict[str, Type]:
        args = self.node.args
        if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs or args.defaults:
            fail(self.node, "parameters are plain names without defaults")
        parameters = {arg.arg: parse_type(arg.annotation, self.node) for arg in args.args}
        pointers = [(name, t) for name, t in parameters.items() if isinstance(t, Pointer)]
        self.kinds = {f"%{name}": type_.kind for name, type_ in pointers}
        for name, type_ in parameters.items():
            if name in self.in_slots:
                if isinstance(type_, Pointer):
                    fail(self.node, f"pointer {name!r} is assigned to")
                self._store_name(name, Value(f"%{name}", type_), self.node)
            else:
                # numbers given to a function of numbers alone are data
                self.values[name] = Value(f"%{name}", type_, type_ is I64 and bool(pointers))
        return parameters

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            fail(node, "one assignment target at a time")
        target = node.targets[0]
        if isinstance(target, ast.Name):
            self._store_name(target.id, self._assigned_value(node, target.id), node)
        elif isinstance(target, ast.Subscript):
            value = self.expression(node.value)
            scalar_type(value, node)
            address, element = self.address(target)
            if value.type is not element:
                fail(node, f"a {value.type.name} is stored through {element.name}*; cast it")
            self.lines.append(f"  store {element.llvm} {value.ref}, ptr {address}")
        else:
            fail(node, "assignment to a name or to ptr[index] only")

    def _assigned_value(self, node: ast.Assign, name: str) -> Value:
        call = node.value
        match call:
            case ast.Call(func=ast.Name(id=function), args=[ast.Name(id=first), _]) if (
                function in REDUCTIONS and first == name and name in self.slots
            ):
                values = [self.expression(argument) for argument in call.args]
                return REDUCTIONS[function](self, values, call)
        return self.expression(call)

    def _store_name(self, name: str, value: Value, node: ast.AST) -> None:
        if name not in self.in_slots or self.straight_line:
            known = self.values.get(name)
            if known is not None and known.type is not value.type:
                fail(node, f"{name!r} is {known.type.name} and cannot become {value.type.name}")
            self.values[name] = value
            return
        scalar = scalar_type(value, node)
        slot = self.all_slots.get(name)
        if slot is None:
            slot = self.all_slots[name] = Value(f"%{name}.slot", scalar)
            self.slot_lines.append(f"  {slot.ref} = alloca {scalar.llvm}")
        elif slot.type is not scalar:
            fail(node, f"{name!r} is {slot.type.name} and cannot become {scalar.name}")
        self.slots[name] = slot
        self.lines.append(f"  store {scalar.llvm} {value.ref}, ptr {slot.ref}")

    def _accumulate(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            old = self.expression(node.target)
            address = None
        elif isinstance(node.target, ast.Subscript):
            address, element = self.address(node.target)
            old = Value(self.emit(f"load {element.llvm}, ptr {address}"), element)
        else:
            fail(node, "accumulation into a name or ptr[index] only")
        value = self.expression(node.value)
        new = self._accumulated(node, old, value, free=address is None)
        if isinstance(node.target, ast.Name):
            self._store_name(node.target.id, new, node)
        else:
            self.lines.append(f"  store {new.type.llvm} {new.ref}, ptr {address}")

    def _accumulated(self, node: ast.AugAssign, old: Value, value: Value, free: bool) -> Value:
        scalar = scalar_type(old, node)
        opcodes: dict[type[ast.operator], str] = {ast.Add: "fadd", ast.Mult: "fmul"}
        opcode = opcodes.get(type(node.op))
        if not (free and scalar.is_float and opcode):
            return self.binary(node.op, old, value, node)
        expect(node, "accumulation", [value], [scalar])
        return Value(self.emit(f"{opcode} reassoc {scalar.llvm} {old.ref}, {value.ref}"), scalar)

    def _return(self, node: ast.Return) -> None:
        if node.value is None:
            fail(node, "a return statement needs a value")
        number = literal_number(node.value)
        if isinstance(number, int) and self.result.is_int:
            value = constant(number, self.result, node)
        else:
            value = self.expression(node.value)
        expect(node, "return", [value], [self.result])
        # Other threads see streamed stores in no order but for a fence.
        if "streamed" in self.kinds.values():
            self.lines.append("  fence seq_cst")
        self.lines.append(f"  ret {self.result.llvm} {value.ref}")
        self.terminated = True

    def _block(self, label: str, body: Sequence[ast.stmt], then: str) -> dict[str, Value] | None:
        """Lower a nested block that continues at `then`.

        Returns the slots in scope at its end, or None when the end cannot be reached. Names the block assigned first
        go out of scope, because on another path they would be unset.
        """
        self.label(label)
        outer_values, outer_slots = dict(self.values), dict(self.slots)
        self.terminated = False
        self.statements(body)
        inner_slots = None if self.terminated else self.slots
        if inner_slots is not None:
            self.lines.append(f"  br label %{then}")
        self.terminated = False
        self.values, self.slots = outer_values, outer_slots
        return inner_slots

    def _if(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        then, other, done = self.fresh("then"), self.fresh("else"), self.fresh("endif")
        otherwise = other if node.orelse else done
        self.lines.append(f"  br i1 {condition.ref}, label %{then}, label %{otherwise}")
        ends = [self._block(then, node.body, done)]
        ends.append(self._block(other, node.orelse, done) if node.orelse else dict(self.slots))
        reached = [slots for slots in ends if slots is not None]
        self.terminated = not reached
        if reached:
            self.slots = {n: s for n, s in reached[0].items() if all(n in end for end in reached)}
            self.label(done)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            fail(node, "while/else is not part of the kernel language")
        if self.widening is not None and is_innermost(node):
            raise NotWidened("an innermost while loop")
        head, body, done = self.fresh("while"), self.fresh("do"), self.fresh("endwhile")
        self.lines.append(f"  br label %{head}")
        self.label(head)
        condition = self.condition(node.test)
        self.lines.append(f"  br i1 {condition.ref}, label %{body}, label %{done}")
        self._block(body, node.body, head)
        self.label(done)

    def _for(self, node: ast.For) -> None:
        if self.widening is not None and folds_columns(node):
            fold_columns(self, node, self.widening)
        elif self.widening is not None and node not in self.apart and (parts := row_parts(node)):
            fold_rows(self, node, parts, self.widening)
        else:
            self._loop(node)

    def _loop(self, node: ast.For) -> None:
        name, start, stop, step = self.range_of(node)
        head, body, latch, done = (self.fresh(stem) for stem in ("for", "body", "next", "endfor"))
        counter, following = f"%{self.fresh(name)}", f"%{self.fresh(name)}"
        before, so_far = self.block, (self.weight, self.polynomials)
        self.lines.append(f"  br label %{head}")
        self.label(head)
        phi_at = len(self.lines)
        compare = "sgt" if step.ref.startswith("-") else "slt"
        more = self.emit(f"icmp {compare} i64 {counter}, {stop.ref}")
        self.lines.append(f"  br i1 {more}, label %{body}, label %{done}")
        saved, had = self.values.get(name), frozenset(slot.ref for slot in self.slots.values())
        self._loop_body(name, Value(counter, I64, index=True), node, body, latch)
        if self.widening is not None and is_innermost(node) and not stays_as_it_is(node):
            if step.ref != "1":
                raise NotWidened("every so many elements")
            # Between the branch into the loop, two lines before the counter, and the one behind the body.
            rounds, together = self.lines[phi_at + 3 : -1], self.interleave(node, *so_far)
            slots = {slot.ref: slot.type.llvm for slot in self.all_slots.values()}
            del self.lines[phi_at - 2 :]
            ends = (start.ref, stop.ref)
            loop = Loop(counter, *ends, rounds, slots, had, together, inner=self.depth > 0)
            self.lines += widened(loop, self, self.library_text, *self.widening)
            self.block = self.lines[-1].removesuffix(":")
            if saved is not None:
                self.values[name] = saved
            return
        self.label(latch)
        self.lines.append(f"  {following} = add nsw i64 {counter}, {step.ref}")
        self.lines.append(f"  br label %{head}{self._loop_hints(node, start, stop, *so_far)}")
        phi = f"[ {start.ref}, %{before} ], [ {following}, %{latch} ]"
        self.lines.insert(phi_at, f"  {counter} = phi i64 {phi}")
        if saved is not None:
            self.values[name] = saved
        self.label(done)

    def _loop_hints(
        self, node: ast.For, start: Value, stop: Value, weight: int, polynomials: int
    ) -> str:
        # Measured: two interleaved vector iterations hide the latency of short bodies and are as fast as LLVM's own
        # choice or faster; long bodies gain nothing and take longer to compile, and so does unrolling remainders.
        # Polynomials are long chains of operations that wait for each other, longer than a processor looks ahead:
        # twice as many iterations take 5-35 % less time there, of long bodies too. Rows are folded in 10-30 % less.
        # Loops of constant length keep LLVM's choice, which is to unroll the short ones away. Loops inside of others
        # may be short, and what does not fill an iteration is done one by one: unless they carry something, they have
        # no latency to hide.
        constant_length = not start.ref.startswith("%") and not stop.ref.startswith("%")
        if constant_length or not is_innermost(node):
            return ""
        count = self.interleave(node, weight, polynomials)
        unrolled = self.note('!{!"llvm.loop.unroll.disable"}')
        together = self.note(f'!{{!"llvm.loop.interleave.count", i32 {count}}}')
        itself = f"!{len(self.metadata)}"
        return f", !llvm.loop {self.note(f'distinct !{{{itself}, {unrolled}, {together}}}')}"

    def is_padded(self, root: str) -> bool:
        """May a whole vector be read and written where the last elements of an array lie?"""
        return self.kinds.get(root) == "padded"

    def is_streamed(self, root: str) -> bool:
        """Is what is written to an array not to be read soon?"""
        return self.kinds.get(root) == "streamed"

    def note(self, metadata: str) -> str:
        """The name of a node of metadata."""
        self.metadata.append(f"!{len(self.metadata)} = {metadata}")
        return f"!{len(self.metadata) - 1}"

    def interleave(self, node: ast.For, weight: int, polynomials: int) -> int:
        """How many vectors of a loop go together, by what the function weighed before its body."""
        folds = accumulates(node)
        if self.depth > 0 and not folds:
            return 1
        chains = self.polynomials > polynomials or (self.depth > 0 and folds)
        return (2 if self.weight - weight <= _LONG_BODY else 1) * (2 if chains else 1)

    def library_text(self, name: str) -> str:
        """The text of a library function."""
        return self.library.function(name, self.node).text

    def _loop_body(self, name: str, counter: Value, node: ast.For, body: str, latch: str) -> None:
        outer = self.values
        self.depth += 1
        self.values = {**outer, name: counter} if name not in self.in_slots else dict(outer)
        if name in self.in_slots:
            self.label(body)
            self._store_name(name, counter, node)
            inner = self.fresh("body")
            self.lines.append(f"  br label %{inner}")
            body = inner
        self._block(body, node.body, latch)
        self.values = outer
        self.depth -= 1

    def range_of(self, node: ast.For) -> tuple[str, Value, Value, Value]:
        """The counter of a loop, and its start, stop and step."""
        call = node.iter
        if node.orelse or not isinstance(node.target, ast.Name):
            fail(node, "a loop is `for name in range(...)` without else")
        match call:
            case ast.Call(func=ast.Name(id="range"), args=[_] | [_, _] | [_, _, _] as ends):
                pass
            case ast.Call(func=ast.Name(id="together"), args=[_, _] as ends):
                pass
            case ast.Call(func=ast.Name(id="columns"), args=[_, _, ast.Constant(int())] as ends):
                ends = ends[:2]
            case _:
                fail(node, "a loop is `for name in range(...)`")
        values = [self.expression(argument) for argument in ends]
        expect(node, "range", values, [I64] * len(values))
        zero, one = Value("0", I64, index=True), Value("1", I64, index=True)
        start, stop, step = (zero, *values, one) if len(values) == 1 else [*values, one][:3]
        if step.ref == "0":
            fail(node, "the step of a range cannot be zero")
        return node.target.id, start, stop, step
