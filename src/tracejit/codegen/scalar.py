"""Scalar expressions of the op table, printed in the kernel language with types spelled out.

The table writes ``maximum(x, 0)``; for float32 operands a kernel says ``maximum_f32(v3, float32(0))``. Half precision
computes in float32 and rounds after every op, as eager does. Bool arithmetic is logic.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import dtypes
from ..dtypes import DType
from ..errors import DtypeError
from ..extents import is_symbolic
from ..generated import parse
from ..ir.graph import Value
from ..ops.random import RandomSource
from ..ops.table import Elementwise, Reduction, operand_info
from ..passes.fusion.groups import is_random
from ..scalar_math import library as scalar_math

#: dtype -> (type name in the kernel language, cast spelling)
_COMPUTE = {
    "bool": ("b1", "bool_"),
    "f16": ("f32", "float32"),
    "bf16": ("f32", "float32"),
    "f32": ("f32", "float32"),
    "f64": ("f64", "float64"),
    "u8": ("u8", "uint8"),
    "i8": ("i8", "int8"),
    "i16": ("i16", "int16"),
    "i32": ("i32", "int32"),
    "i64": ("i64", "int64"),
}
_STORAGE = {"bool": "u8", "f16": "u16", "bf16": "u16"}


def _computed(dtype: DType) -> tuple[str, str]:
    if dtype.short not in _COMPUTE:
        raise DtypeError(f"kernels do not compute with {dtype.name}")
    return _COMPUTE[dtype.short]


def compute_type(dtype: DType) -> str:
    """The scalar type a value of ``dtype`` has inside a kernel."""
    return _computed(dtype)[0]


def compute_dtype(dtype: DType) -> DType:
    """The dtype of memory that holds a value of ``dtype`` as it is computed: half precision is not rounded."""
    return dtypes.float32 if dtype.is_half else dtype


def cast_name(dtype: DType) -> str:
    """How a cast to the compute type of ``dtype`` is spelled."""
    return _computed(dtype)[1]


def storage_type(dtype: DType) -> str:
    """The element type of memory holding ``dtype``."""
    return _STORAGE.get(dtype.short, dtype.short)


def load(text: str, dtype: DType) -> str:
    """Memory to compute type."""
    if dtype is dtypes.bool_:
        return f"({text} != uint8(0))"
    if dtype.short in ("f16", "bf16"):
        return f"f32_from_{dtype.short}({text})"
    return text


def store(text: str, dtype: DType) -> str:
    """Compute type to memory."""
    if dtype is dtypes.bool_:
        return f"uint8({text})"
    if dtype.short in ("f16", "bf16"):
        return f"{dtype.short}_from_f32({text})"
    return text


def rounded(text: str, dtype: DType) -> str:
    """A fresh result in the precision of ``dtype``."""
    return f"round_{dtype.short}({text})" if dtype.short in ("f16", "bf16") else text


def convert(text: str, source: DType, target: DType) -> str:
    """A value of ``source`` as ``target``, both in compute type."""
    if source is target:
        return text
    if target is dtypes.bool_:
        return f"({text} != {cast_name(source)}(0))"
    plain = text if compute_type(source) == compute_type(target) else f"{cast_name(target)}({text})"
    exact = source.short in ("f16", "bf16") and target.short in ("f32", "f64")
    exact = exact or source.short in ("bool", "i8", "u8")  # eight bits fit every significand
    return plain if exact else rounded(plain, target)


@dataclass(frozen=True)
class Argument:
    """A name of a scalar expression: its text, dtype, and the dtype the op computes in."""

    text: str
    dtype: DType
    compute: DType


@cache
def _parsed(expression: str) -> ast.expr:
    found: ast.expr = parse(expression, "eval").body
    return found


class Printer:
    """Prints one op's expression for given arguments."""

    def __init__(
        self,
        arguments: Mapping[str, Argument],
        compute: DType,
        attributes: Mapping[str, Any],
        cannot_fail: bool = False,
    ) -> None:
        self.arguments = arguments
        self.compute = compute
        self.attributes = attributes
        self.cannot_fail = cannot_fail

    def text(self, node: ast.expr) -> str:
        """The expression as kernel source."""
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise NotImplementedError(f"scalar expression: {ast.dump(node)}")
        return str(method(node))

    def _name(self, node: ast.Name) -> str:
        argument = self.arguments.get(node.id)
        if argument is None:
            raise NotImplementedError(f"{node.id} is not an operand")
        return convert(argument.text, argument.dtype, argument.compute)

    def _constant(self, node: ast.Constant) -> str:
        value = node.value
        assert isinstance(value, (bool, int, float))
        if self.compute.is_floating_point:
            value = float(value)
        return f"{cast_name(self.compute)}({value!r})"

    def _unaryop(self, node: ast.UnaryOp) -> str:
        operand = self.text(node.operand)
        if isinstance(node.op, ast.Invert):
            return f"(not {operand})" if self.compute is dtypes.bool_ else f"(~{operand})"
        return f"(-{operand})"

    def _binop(self, node: ast.BinOp) -> str:
        left, right = self.text(node.left), self.text(node.right)
        symbol = _SYMBOLS[type(node.op)]
        if self.compute is dtypes.bool_:
            symbol = {"+": "|", "*": "&"}.get(symbol, symbol)
        return f"({left} {symbol} {right})"

    def _compare(self, node: ast.Compare) -> str:
        left, right = self.text(node.left), self.text(node.comparators[0])
        symbol = _COMPARISONS[type(node.ops[0])]
        if self.compute is dtypes.bool_ and symbol not in ("==", "!="):
            left, right = f"uint8({left})", f"uint8({right})"
        return f"({left} {symbol} {right})"

    def _call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name == "convert":
            assert isinstance(node.args[0], ast.Name)
            assert isinstance(node.args[1], ast.Name)
            argument = self.arguments[node.args[0].id]
            return convert(argument.text, argument.dtype, self.attributes[node.args[1].id])
        arguments = ", ".join(self.text(a) for a in node.args)
        if name == "select":
            return f"select({arguments})"
        if self.compute is dtypes.bool_ and name in ("maximum", "minimum"):
            return f"({arguments.replace(',', ' |' if name == 'maximum' else ' &')})"
        if name in _MAY_FAIL and not (self.compute.is_floating_point or self.cannot_fail):
            raise NotImplementedError(f"{name} of integers can fail, so its eager body runs")
        if self.compute.is_floating_point:
            name = _FLOAT_NAMES.get(name, name)
        elif name in _WHOLE:
            return _WHOLE[name].format(arguments)
        typed = f"{name}_{compute_type(self.compute)}"
        if typed not in scalar_math.names():
            raise NotImplementedError(f"scalar_math has no {typed}")
        return f"{typed}({arguments})"


#: Integer division by zero and negative integer powers are errors.
_MAY_FAIL = frozenset({"floor_divide", "remainder", "fmod", "pow"})

_FLOAT_NAMES = {"abs": "fabs"}
#: What these mean for integers and bools.
_WHOLE = {
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), "{}"),
    **dict.fromkeys(("isnan", "isinf"), "bool_(0)"),
    "isfinite": "bool_(1)",
}

_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


_templates: dict[Any, str | None] = {}


def _template(value: Value, dtypes_read: tuple[DType, ...], safe: bool = False) -> str | None:
    """``value``'s expression with ``{0}``, ``{1}``, ... for its operands, made once per kind; None when it has none."""
    op = value.op
    assert isinstance(op, Elementwise)
    infos = tuple([operand_info(x.spec if isinstance(x, Value) else x) for x in value.operands])
    safe = safe or _cannot_fail(value)
    key = (op, infos, dtypes_read, safe, *value.attributes.values(), dtypes.get_default_dtype())
    if key not in _templates:
        try:
            _templates[key] = _written(value, op, infos, dtypes_read, safe)
        except NotImplementedError:
            _templates[key] = None
    return _templates[key]


def _cannot_fail(value: Value) -> bool:
    """Is a whole number divided by a number other than zero, or raised to one that is not negative?"""
    if value.op is None or value.op.name not in _MAY_FAIL:
        return False
    number = value.operands[-1]
    if type(number) is not int and not is_symbolic(number):
        return False
    return bool(number >= 0 if value.op.name == "pow" else number != 0)


def _written(
    value: Value,
    op: Elementwise,
    infos: tuple[Any, ...],
    dtypes_read: tuple[DType, ...],
    cannot_fail: bool,
) -> str:
    assert op.scalar is not None
    compute, result = op.types(infos, value.attributes)
    arguments = {
        name: Argument(f"{{{i}}}", dtype, target)
        for i, (name, dtype, target) in enumerate(
            zip(op.operands, dtypes_read, compute, strict=True)
        )
    }
    printer = Printer(arguments, compute[-1], value.attributes, cannot_fail)
    text = printer.text(_parsed(op.scalar))
    if _is_plain(op.scalar) or op.scalar.startswith("convert("):
        return text
    return rounded(text, result)


def elementwise_expression(
    value: Value, texts: Sequence[tuple[str, DType]], safe: bool = False
) -> str:
    """``value``'s expression over operand texts of the given dtypes, in the dtype of the result.

    With ``safe``, it is known that no element is refused.
    """
    template = _template(value, tuple([dtype for _, dtype in texts]), safe)
    assert template is not None, f"{value} has no scalar expression"
    if _is_below_maximum(value):
        template = template.replace("exp_f", "exp_bounded_f")
    return template.format(*[text for text, _ in texts])


def _is_below_maximum(value: Value) -> bool:
    """Is it the exponential of a number less the largest of some, of which it is one? None of those is above zero."""
    if value.op is None or value.op.name != "exp":
        return False
    difference = value.operands[0]
    if not isinstance(difference, Value) or difference.op is None or difference.op.name != "sub":
        return False
    number, most = difference.operands
    if not isinstance(most, Value) or most.op is None or most.op.name != "amax":
        return False
    beside = bool(most.attributes["keepdim"]) or most.spec.ndim == 0  # else it is another row's
    return beside and most.operands[0] is number


def _is_plain(scalar: str) -> bool:
    """Selections and copies of rounded values need no rounding."""
    return scalar.isidentifier() or scalar.startswith(
        ("select(", "maximum(", "minimum(", "clamp(", "-x")
    )


def is_expensive(value: Value) -> bool:
    """True when recomputing the value costs more than reading it back."""
    return isinstance(value.op, Elementwise) and bool(
        set(_called(value.op.scalar or ""))
        - {"select", "convert", "maximum", "minimum", "clamp", "abs", "isnan", "sign"}
    )


@cache
def _called(expression: str) -> tuple[str, ...]:
    tree = parse(expression, "eval")
    return tuple(
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    )


def printable(value: Value, safe: bool = False) -> bool:
    """Can a kernel compute this value? Perhaps only where it is ``safe`` that no element is refused."""
    op = value.op
    if has_complex(value):
        return False
    if isinstance(op, Reduction):
        return op.combine is not None and bool(value.attributes["dims"]) and _reduces(value)
    if is_random(value):
        return isinstance(op, RandomSource) and value.spec.dtype.short in op.scalars
    if not isinstance(op, Elementwise) or op.scalar is None:
        return False
    read = tuple([operand_info(x.spec if isinstance(x, Value) else x)[0] for x in value.operands])
    return _template(value, read, safe) is not None


def has_complex(value: Value) -> bool:
    """Are there complex numbers in or out, which kernels do not know?"""
    return value.spec.dtype.is_complex or any(x.spec.dtype.is_complex for x in value.value_operands)


def _reduces(value: Value) -> bool:
    return value.value_operands[0].spec.ndim > 0


@dataclass(frozen=True)
class Combine:
    """How a reduction accumulates: in which dtype, from what, and by which expression."""

    dtype: DType
    identity: str
    update: str  # over {acc} and {x}
    merge: str  # over {acc} and {x}, both accumulators


def combine_of(value: Value) -> Combine:
    """The accumulation of a reduction value."""
    assert isinstance(value.op, Reduction)
    assert value.op.combine is not None
    source = value.value_operands[0].spec.dtype
    kind = value.op.combine
    if kind in ("any", "all"):
        symbol = "|" if kind == "any" else "&"
        step = f"{{acc}} = {{acc}} {symbol} {{x}}"
        return Combine(dtypes.bool_, "bool_(0)" if kind == "any" else "bool_(1)", step, step)
    accumulate = compute_dtype(value.spec.dtype)
    cast = cast_name(accumulate)
    if kind == "sum":
        return Combine(accumulate, f"{cast}(0)", "{acc} += {x}", "{acc} += {x}")
    if kind == "prod":
        return Combine(accumulate, f"{cast}(1)", "{acc} *= {x}", "{acc} *= {x}")
    name = "maximum" if kind == "max" else "minimum"
    if source is dtypes.bool_:
        symbol = "|" if kind == "max" else "&"
        step = f"{{acc}} = {{acc}} {symbol} {{x}}"
        return Combine(dtypes.bool_, "bool_(0)" if kind == "max" else "bool_(1)", step, step)
    step = f"{{acc}} = {name}_{compute_type(accumulate)}({{acc}}, {{x}})"
    return Combine(accumulate, worst(accumulate, kind), step, step)


def worst(dtype: DType, kind: str) -> str:
    """What no element is behind when the largest ("max") or the smallest is looked for."""
    cast = cast_name(dtype)
    if dtype.is_floating_point:
        return f"{cast}(-inf)" if kind == "max" else f"{cast}(inf)"
    bits = dtype.itemsize * 8
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
    )
    return f"{cast}({low if kind == 'max' else high})"
