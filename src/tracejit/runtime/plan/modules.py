"""Which vector code of the package's own a schedule needs, so that it is compiled while its steps are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...passes.fusion.groups import Call
from ..blas import gemm_modules
from ..machine_code.vector_modules import VectorModule, missing
from .taps import is_taps, modules_of
from .vector_calls import is_vector_call, vector_call_modules

if TYPE_CHECKING:
    from ...passes.fusion.groups import Schedule

__all__ = ["missing_modules"]


def missing_modules(schedule: Schedule) -> dict[str, VectorModule]:
    """Modules that have to go through LLVM, by key.

    >>> from tracejit.ir import parse
    >>> from tracejit.passes.fusion.fusion import fuse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }")
    >>> missing_modules(fuse(graph, lambda value: True))
    {}
    """
    calls = [step.value for step in schedule.steps if isinstance(step, Call)]
    found = [module for v in calls if is_taps(v) for module in modules_of(v)]
    found += [module for v in calls if is_vector_call(v) for module in vector_call_modules(v)]
    products = [v.value_operands[0].spec.dtype for v in calls if v.op and v.op.name == "matmul"]
    for dtype in dict.fromkeys(products):
        found += gemm_modules(dtype.short)
    return missing(found)
