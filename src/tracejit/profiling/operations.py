"""How many operations on floats a value takes: of elementary functions those of the polynomials they are computed by.

Counted are additions, multiplications, divisions, comparisons, roots and the like, two for a fused multiplication and
addition, as in rates of matrix products. What only moves or reinterprets bits is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ..codegen.lower.function import FunctionLowering
from ..codegen.lower.lower import kernel_definition
from ..codegen.lower.module import LIBRARY
from ..codegen.lower.types import SCALARS, LoweringError
from ..codegen.scalar import elementwise_expression, printable
from ..ir.graph import Value
from ..ops.kinds import Elementwise, Reduction

__all__ = ["float_operations", "operations_of"]

_RESULT = re.compile(r"^\s+%\S+ = (?:tail )?(\w+)(.*)", re.MULTILINE)
_CALLED = re.compile(r"@([\w.]+)\(")
_COUNTED = {"fadd": 1, "fsub": 1, "fmul": 1, "fdiv": 1, "frem": 1, "fcmp": 1}
#: Operations of LLVM that are none of an arithmetic unit.
_FREE = {"llvm.fabs", "llvm.copysign", "llvm.ldexp"}


def operations_of(value: Value) -> Any:
    """Operations that a value takes: those of each result, or one for each element that is reduced.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[8]) { %0: f32[8] = add(x, x) %1: f32[8] = exp(%0) return %1 }")
    >>> added, exponential = graph.values
    >>> operations_of(added), 100 < operations_of(exponential) < 300
    (8, True)
    """
    if isinstance(value.op, Elementwise):
        return value.spec.numel * _each(value)
    if isinstance(value.op, Reduction):
        return value.value_operands[0].spec.numel
    return 0


def float_operations(functions: Iterable[str]) -> int:
    """Operations of one element of functions of ``scalar_math``, each as often as it is named.

    >>> float_operations(["exp_f32"]) < float_operations(["exp_f32", "log_f32"])
    True
    """
    return sum(count * _of_function(name) for name, count in Counter(functions).items())


def _each(value: Value) -> int:
    """Operations of one result; one for what is computed by other means than a kernel's text."""
    texts = []
    for i, x in enumerate(value.operands):
        dtype = x.spec.dtype if isinstance(x, Value) else value.spec.dtype
        texts.append((f"x{i}", dtype))
    kinds = (*(dtype.short for _, dtype in texts), value.spec.dtype.short)
    if not set(kinds) <= SCALARS.keys() or not printable(value, safe=True):
        return 1
    return max(1, _of_expression(elementwise_expression(value, texts, safe=True), kinds))


@lru_cache(maxsize=4096)
def _of_expression(expression: str, kinds: tuple[str, ...]) -> int:
    *given, result = kinds
    parameters = ", ".join(f'x{i}: "{kind}"' for i, kind in enumerate(given))
    source = f'def value({parameters}) -> "{result}":\n    return {expression}\n'
    try:
        lowered = FunctionLowering(kernel_definition(source, "value"), LIBRARY)
        return _counted(lowered.lower("value", "", noalias=False).text)
    except LoweringError:
        return 1


@lru_cache(maxsize=4096)
def _of_function(name: str) -> int:
    return _counted(LIBRARY.function(name, kernel_definition(f"def {name}(): pass", name)).text)


def _counted(text: str) -> int:
    """Operations of LLVM text, of what it calls too."""
    total = 0
    for instruction, rest in _RESULT.findall(text):
        called = _CALLED.search(rest) if instruction == "call" else None
        if called is None:
            total += _COUNTED.get(instruction, 0)
        elif called[1].startswith("tj."):
            total += _of_function(called[1][3:])
        elif called[1].startswith("llvm."):
            name = called[1].rsplit(".", 1)[0]
            total += 0 if name in _FREE else 2 if name == "llvm.fma" else 1
    return total
