"""Expressions of the kernel language to LLVM instructions, strictly typed.

`ExpressionLowering` turns one Python expression at a time into straight-line LLVM text in the current basic block.
Nothing here re-orders floating-point work: no instruction gets a fast-math flag.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracejit.codegen.lower.casts import convert, truncated
from tracejit.codegen.lower.primitives import PRIMITIVES, Primitive, expect
from tracejit.codegen.lower.types import (
    B1,
    CAST_NAMES,
    I64,
    Pointer,
    Scalar,
    Value,
    constant,
    fail,
    literal_number,
    scalar_type,
)

if TYPE_CHECKING:
    from tracejit.codegen.lower.module import Library

#: Instructions of a function worth calling a polynomial.
POLYNOMIAL = 15

_FLOAT_OPS: dict[type[ast.operator], str] = {
    ast.Add: "fadd",
    ast.Sub: "fsub",
    ast.Mult: "fmul",
    ast.Div: "fdiv",
}
_INT_OPS: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BIT_OPS: dict[type[ast.operator], str] = {
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_FLOAT_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "olt",
    ast.LtE: "ole",
    ast.Gt: "ogt",
    ast.GtE: "oge",
    ast.Eq: "oeq",
    ast.NotEq: "une",
}
_INT_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}


class ExpressionLowering:
    """Emits expressions into `lines`; names are looked up in `values` (SSA) and `slots` (stack slots)."""

    #: What a target may do in its own way: the names that are instructions, and float to integer.
    primitives: Mapping[str, Primitive] = PRIMITIVES
    truncate = staticmethod(truncated)

    def __init__(self, library: Library) -> None:
        self.library = library
        self.lines: list[str] = []
        self.values: dict[str, Value] = {}
        self.slots: dict[str, Value] = {}
        self.declarations: dict[str, None] = {}
        self.calls: dict[str, None] = {}
        self.tables: dict[str, None] = {}
        self.block = "entry"
        self.weight = 0
        self.polynomials = 0
        self._count = 0

    def fresh(self, stem: str = "t") -> str:
        """A new name, unique in the function."""
        self._count += 1
        return f"{stem}.{self._count}"

    def emit(self, instruction: str) -> str:
        """Append an instruction with a result and return the result's name."""
        self._count += 1
        self.weight += 1
        ref = f"%t.{self._count}"
        self.lines.append(f"  {ref} = {instruction}")
        return ref

    def declare(self, declaration: str) -> None:
        """Note an external declaration the module must carry."""
        self.declarations[declaration] = None

    def need_table(self, name: str) -> None:
        """Note a constant table the module must carry."""
        self.tables[name] = None

    def label(self, name: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{name}:")
        self.block = name

    def expression(self, node: ast.expr) -> Value:
        """Lower any expression."""
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Constant():
                return self._constant(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp():
                return self._bool_op(node)
            case ast.Subscript():
                address, element = self.address(node)
                return Value(self.emit(f"load {element.llvm}, ptr {address}"), element)
            case ast.Call():
                return self._call(node)
        fail(node, f"{type(node).__name__} is not part of the kernel language")

    def address(self, node: ast.Subscript) -> tuple[str, Scalar]:
        """The address and the element type of `ptr[index]`."""
        pointer = self.expression(node.value)
        if not isinstance(pointer.type, Pointer):
            fail(node, "only pointers can be indexed")
        index = self.expression(node.slice)
        if index.type is not I64:
            fail(node, f"an index must be i64, not {index.type.name}")
        element = pointer.type.element
        gep = f"getelementptr inbounds {element.llvm}, ptr {pointer.ref}, i64 {index.ref}"
        return self.emit(gep), element

    def condition(self, node: ast.expr) -> Value:
        """Lower an expression that must be b1."""
        value = self.expression(node)
        if value.type is not B1:
            fail(node, f"a condition must be b1, not {value.type.name}; compare explicitly")
        return value

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.values:
            return self.values[node.id]
        slot = self.slots.get(node.id)
        if slot is not None:
            return Value(self.emit(f"load {slot.type.llvm}, ptr {slot.ref}"), slot.type)
        if node.id in ("inf", "nan"):
            fail(node, f"write a typed literal, such as float32({node.id})")
        fail(node, f"{node.id!r} has no value here; assign it in an enclosing block first")

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bool):
            return constant(node.value, B1, node)
        if isinstance(node.value, int):
            value = constant(node.value, I64, node)
            return Value(value.ref, I64, index=True)
        if isinstance(node.value, float):
            fail(node, "a float literal needs a type, such as float32(0.5)")
        fail(node, f"literal {node.value!r} is not part of the kernel language")

    def _binary(self, node: ast.BinOp) -> Value:
        left = self.expression(node.left)
        return self.binary(node.op, left, self.expression(node.right), node)

    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        """`left op right` on two values of one type."""
        scalar = scalar_type(left, node)
        if scalar is not scalar_type(right, node):
            fail(
                node, f"operands of different types: {scalar.name} and {right.type.name}; cast one"
            )
        index = left.index and right.index
        opcode = self._opcode(type(op), scalar, index, node)
        ref = self.emit(f"{opcode} {scalar.llvm} {left.ref}, {right.ref}")
        return Value(ref, scalar, index)

    def _opcode(self, op: type[ast.operator], scalar: Scalar, index: bool, node: ast.AST) -> str:
        if scalar.is_float and op in _FLOAT_OPS:
            return _FLOAT_OPS[op]
        if (scalar.is_int or scalar is B1) and op in _BIT_OPS:
            return _BIT_OPS[op]
        if scalar.is_int:
            if op in _INT_OPS:
                return _INT_OPS[op] + (" nsw" if index else "")
            if op is ast.LShift:
                return "shl"
            if op is ast.RShift:
                return "ashr" if scalar.is_signed else "lshr"
            if op is ast.FloorDiv:
                return "sdiv" if scalar.is_signed else "udiv"
            if op is ast.Mod:
                return "srem" if scalar.is_signed else "urem"
        fail(node, f"operator {op.__name__} is not defined on {scalar.name}")

    def _unary(self, node: ast.UnaryOp) -> Value:
        number = literal_number(node)
        if isinstance(number, int) and not isinstance(number, bool):
            value = constant(number, I64, node)
            return Value(value.ref, I64, index=True)
        value = self.expression(node.operand)
        scalar = scalar_type(value, node)
        match node.op:
            case ast.USub() if scalar.is_float:
                return Value(self.emit(f"fneg {scalar.llvm} {value.ref}"), scalar)
            case ast.USub() if scalar.is_int:
                flags = " nsw" if value.index else ""
                ref = self.emit(f"sub{flags} {scalar.llvm} 0, {value.ref}")
                return Value(ref, scalar, value.index)
            case ast.Invert() if scalar.is_int:
                return Value(self.emit(f"xor {scalar.llvm} {value.ref}, -1"), scalar)
            case ast.Invert() | ast.Not() if scalar is B1:
                return Value(self.emit(f"xor i1 {value.ref}, true"), scalar)
        fail(node, f"operator {type(node.op).__name__} is not defined on {scalar.name}")

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) != 1:
            fail(node, "chained comparisons are not part of the kernel language")
        left, right = self.expression(node.left), self.expression(node.comparators[0])
        scalar, op = scalar_type(left, node), type(node.ops[0])
        if scalar is not scalar_type(right, node):
            fail(node, f"comparison of different types: {scalar.name} and {right.type.name}")
        if op not in _INT_COMPARE:
            fail(node, f"comparison {op.__name__} is not part of the kernel language")
        if scalar.is_float:
            return Value(
                self.emit(f"fcmp {_FLOAT_COMPARE[op]} {scalar.llvm} {left.ref}, {right.ref}"), B1
            )
        predicate = _INT_COMPARE[op]
        if op not in (ast.Eq, ast.NotEq):
            predicate = ("s" if scalar.is_signed else "u") + predicate
        return Value(self.emit(f"icmp {predicate} {scalar.llvm} {left.ref}, {right.ref}"), B1)

    def _bool_op(self, node: ast.BoolOp) -> Value:
        result = self.condition(node.values[0])
        for operand in node.values[1:]:
            result = self._short_circuit(isinstance(node.op, ast.And), result, operand)
        return result

    def _short_circuit(self, is_and: bool, left: Value, operand: ast.expr) -> Value:
        # The right side may load from an address that only the left side makes valid, so it gets its own block.
        start, more, done = self.block, self.fresh("more"), self.fresh("done")
        targets = f"label %{more}, label %{done}" if is_and else f"label %{done}, label %{more}"
        self.lines.append(f"  br i1 {left.ref}, {targets}")
        self.label(more)
        right = self.condition(operand)
        end = self.block
        self.lines.append(f"  br label %{done}")
        self.label(done)
        known = "false" if is_and else "true"
        return Value(self.emit(f"phi i1 [ {known}, %{start} ], [ {right.ref}, %{end} ]"), B1)

    def _call(self, node: ast.Call) -> Value:
        if not isinstance(node.func, ast.Name) or node.keywords:
            fail(node, "only calls of functions by bare name, without keywords, are possible")
        name = node.func.id
        if name in CAST_NAMES:
            return self._cast(node, CAST_NAMES[name])
        values = [self.expression(argument) for argument in node.args]
        if name in self.primitives:
            return self.primitives[name](self, values, node)
        callee = self.library.function(name, node)
        expect(node, name, values, callee.parameters)
        self.calls[name] = None
        self.weight += callee.weight
        self.polynomials += callee.weight >= POLYNOMIAL
        operands = ", ".join(f"{value.type.llvm} {value.ref}" for value in values)
        ref = self.emit(f"call {callee.result.llvm} @tj.{name}({operands})")
        return Value(ref, callee.result)

    def _cast(self, node: ast.Call, target: Scalar) -> Value:
        if len(node.args) != 1:
            fail(node, "a cast takes one value")
        number = literal_number(node.args[0])
        if number is not None:
            value = constant(number, target, node)
            return Value(value.ref, target, index=target is I64)
        value = self.expression(node.args[0])
        return convert(self.emit, value, scalar_type(value, node), target, self.truncate)
