"""Printing one function as a CPU kernel of its own, for eager code that applies it to a large array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...dtypes import DType
from ...ir.graph import Value
from ...ops.op import Op
from ...types import TensorType
from .. import scalar
from ..kernel import Function, Number, Text

__all__ = [
    *("COMBINED", "write_combination", "write_elementwise", "write_function", "write_row_product")
]

_GRAIN = 1 << 12
#: How an element and a new one are combined, by NumPy's name.
COMBINED = {
    "add": "{} + {}",
    "multiply": "{} * {}",
    "maximum": "maximum_@({}, {})",
    "minimum": "minimum_@({}, {})",
}


def write_function(name: str, dtype: DType) -> Function:
    """``out[i] = name(x[i])`` over contiguous arrays of ``dtype``, float32 or float64; the extent is their length.

    >>> from tracejit.dtypes import float32
    >>> write_function("erf", float32).source.count("out[i] = erf_f32(x[i])")
    1
    """
    text = Text()
    kind = scalar.storage_type(dtype)
    for number, parameter in enumerate(("x", "out")):
        text.parameter(parameter, f"{kind}*", Number(number))
    text.add(1, "for i in range(lo, hi):")
    text.add(2, f"out[i] = {name}_{kind}(x[i])")
    kernel = f"k_{name}_{kind}_all"
    source = text.source(kernel, f"{name} of every element")
    return Function(kernel, source, tuple(text.parameters.values()), 0, _GRAIN)


def write_elementwise(
    op: Op,
    kinds: Sequence[DType],
    single: Sequence[bool],
    attributes: Mapping[str, Any],
    dtype: DType,
) -> Function | None:
    """``out[i] = op(x0[i], x1[i], ...)``, where ``single`` operands have one element; None if it has no expression.

    Whole numbers are not divided by zero: who calls it has looked.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.ops.limits import clamp_max
    >>> found = write_elementwise(clamp_max, [float32, float32], [False, True], {}, float32)
    >>> print("\\n".join(found.source.splitlines()[-4:-1]))
        v1 = x1[0]
        for i in range(lo, hi):
            out[i] = minimum_f32(x0[i], v1)
    """
    text, texts, operands = Text(), [], []
    for number, (kind, one) in enumerate(zip(kinds, single, strict=True)):
        text.parameter(f"x{number}", f"{scalar.storage_type(kind)}*", Number(number))
        found = scalar.load(f"x{number}[{0 if one else 'i'}]", kind)
        if one:
            text.add(1, f"v{number} = {found}")
        texts.append((f"v{number}" if one else found, kind))
        operands.append(Value(TensorType(() if one else (2,), kind), None, (), {}))
    value = Value(TensorType((2,), dtype), op, tuple(operands), attributes)
    if not scalar.printable(value, safe=True):
        return None
    text.parameter("out", f"{scalar.storage_type(dtype)}*", Number(len(kinds)))
    text.add(1, "for i in range(lo, hi):")
    found = scalar.elementwise_expression(value, texts, safe=True)
    text.add(2, f"out[i] = {scalar.store(found, dtype)}")
    kernel = "_".join(["k", op.name, *[kind.short for kind in kinds], "all"])
    source = text.source(kernel, f"{op.name} of every element")
    return Function(kernel, source, tuple(text.parameters.values()), 0, _GRAIN)


def write_row_product(dtype: DType) -> Function:
    """``out[row]`` is the product of the ``n`` elements of a row; the extent is the number of rows.

    >>> from tracejit.dtypes import float32
    >>> write_row_product(float32).source.count("found *= x[row * n + i]")
    1
    """
    text = Text()
    kind = scalar.storage_type(dtype)
    for number, parameter in enumerate(("x", "out")):
        text.parameter(parameter, f"{kind}*", Number(number))
    text.parameter("n", "i64", Number(2))
    text.add(1, "for row in range(lo, hi):")
    text.add(2, f"found = {scalar.cast_name(dtype)}(1)")
    text.add(2, "for i in range(n):")
    text.add(3, "found *= x[row * n + i]")
    text.add(2, "out[row] = found")
    kernel = f"k_product_{kind}_rows"
    source = text.source(kernel, "the product of every row")
    return Function(kernel, source, tuple(text.parameters.values()), 0, _GRAIN)


def write_combination(name: str, dtype: DType, single: bool) -> Function:
    """``out[a, index[p], b]`` combined with ``new[a, p, b]``; the extent is that of ``a`` times the parts of ``b``.

    Positions of ``single`` elements are ``index[a, p, b]``. What comes to one place is combined by one thread, in the
    order of the positions.

    >>> from tracejit.dtypes import float32
    >>> write_combination("add", float32, False).source.count("out[at + b] = out[at + b] + new[first + b]")
    1
    """
    text, kind = Text(), scalar.storage_type(dtype)
    for number, (parameter, of) in enumerate((("out", kind), ("index", "i64"), ("new", kind))):
        text.parameter(parameter, f"{of}*", Number(number))
    for number, parameter in enumerate(("n", "size", "width", "parts", "each"), 3):
        text.parameter(parameter, "i64", Number(number))
    text.add(1, "for task in range(lo, hi):")
    text.add(2, "a = task // parts")
    text.add(2, "low = (task - a * parts) * each")
    text.add(2, "high = minimum_i64(low + each, width)")
    text.add(2, "for p in range(n):")
    text.add(3, "first = (a * n + p) * width")
    place = "at + b"
    if not single:
        text.add(3, "at = (a * size + index[p]) * width")
    text.add(3, "for b in range(low, high):")
    if single:
        text.add(4, "at = (a * size + index[first + b]) * width + b")
        place = "at"
    element = COMBINED[name].replace("@", kind).format(f"out[{place}]", "new[first + b]")
    text.add(4, f"out[{place}] = {element}")
    kernel = f"k_{name}_{kind}_{'elements' if single else 'rows'}"
    source = text.source(kernel, f"{name} at positions")
    return Function(kernel, source, tuple(text.parameters.values()), 0, 1)
