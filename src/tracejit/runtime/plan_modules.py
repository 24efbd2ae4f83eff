"""Which vector code of the package's own a schedule needs, so that it is compiled while its steps are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..passes.groups import Call
from .blas import find_blas, gemm_module
from .plan_taps import is_taps
from .products import product_module
from .taps import tap_module
from .vector_modules import VectorModule, missing

if TYPE_CHECKING:
    from ..passes.groups import Schedule

__all__ = ["missing_modules"]


def missing_modules(schedule: Schedule) -> dict[str, VectorModule]:
    """Modules that have to go through LLVM, by key.

    >>> from tracejit.ir import parse
    >>> from tracejit.passes.fusion import fuse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }")
    >>> missing_modules(fuse(graph, lambda value: True))
    {}
    """
    calls = [step.value for step in schedule.steps if isinstance(step, Call)]
    found = [tap_module(v.op.name, v.spec.dtype.short) for v in calls if v.op and is_taps(v)]
    products = [v.spec.dtype.short for v in calls if v.op is not None and v.op.name == "matmul"]
    blas = find_blas() if products else None
    for dtype in dict.fromkeys(products):
        if blas is not None and dtype in blas.gemm:
            found.append(gemm_module(dtype))
            own = product_module(dtype) if blas.vectors_only else None
            found += [own] if own is not None else []
    return missing(found)
