"""Calls that vector code of the package's own computes: small matrices taken apart, and Fourier transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.graph import Value
from ...ops.table import Contraction
from ...passes.windows.strips import equal
from ..machine_code.vector_modules import VectorModule
from .factors import factors_module, is_factored, plan_factors
from .fourier import is_transformed, plan_transform, transform_modules

if TYPE_CHECKING:
    from .plan import Planner

__all__ = ["is_dense", "is_vector_call", "plan_vector_call", "vector_call_modules"]


def is_vector_call(value: Value) -> bool:
    """Is this one of them, on a host with vectors? What depends on sizes holds for those of present, and is decided.

    >>> from tracejit.ir import parse
    >>> is_vector_call(parse("graph f(x: f32[99, 99]) { %0: f32[99, 99] = inverse(x) return %0 }").outputs[0])
    False
    """
    return isinstance(value.op, Contraction) and (is_transformed(value) or is_factored(value))


def is_dense(x: Value, strides: Any) -> bool:
    """Can a kernel read an operand that lies like this?

    >>> from tracejit.dtypes import float32
    >>> from tracejit.types import TensorType
    >>> x = Value(TensorType((3, 3), float32))
    >>> is_dense(x, (3, 1)), is_dense(x, (1, 3))
    (True, False)
    """
    return equal(tuple(strides), x.spec.contiguous_strides())


def vector_call_modules(value: Value) -> list[VectorModule]:
    """The native code that computes one of them.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.products.vector_machine import vector_machine
    >>> graph = parse("graph f(x: f32[3, 3]) { %0: f32[3, 3] = inverse(x) return %0 }")
    >>> vector_machine() is None or [module.symbol for module in vector_call_modules(graph.outputs[0])]
    ['tracejit_checked_inv']
    """
    return transform_modules(value) if is_transformed(value) else [factors_module(value)]


def plan_vector_call(planner: Planner, value: Value) -> None:
    """The steps that compute one of them from operands that are dense.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.products.vector_machine import vector_machine
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: f32[3, 3]) { %0: f32[3, 3] = inverse(x) return %0 }")
    >>> vector_machine() is None or [step.name for step in make_plan(graph, [(3, 1)], may_refuse=True).items]
    ['inv']
    """
    plan = plan_transform if is_transformed(value) else plan_factors
    plan(planner, value)
