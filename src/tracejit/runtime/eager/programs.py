"""Single ops of eager code as programs: what compiled code makes of a graph with one statement.

Kernels are shared by all shapes, and programs are kept for those met last. An op that compiled code leaves to its body
is left to it here as well. Which calls are served depends on what was called before, not on a clock; where equal calls
are to have equal bits, only ops are whose kernels give NumPy's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ... import config, dtypes
from ...cuda.arrays import shaped
from ...determinism import are_deterministic_algorithms_enabled
from ...dtypes import DType
from ...ops.op import Op
from ...ops.programs import set_programs
from ...tensor import Tensor
from ...types import Shape, TensorType
from ..callbacks import KernelFailure

__all__ = ["run"]

#: Elements that NumPy works on before a kernel is compiled, which takes as long.
PATIENCE = 1 << 22
#: How many programs are kept.
_MOST = 256
_met: dict[Any, int] = {}


def run(
    op: Op, arrays: Sequence[np.ndarray], attributes: Mapping[str, Any], same: bool
) -> np.ndarray | None:
    """The result of ``op``; None where NumPy is to compute it.

    >>> from tracejit.ops.ordering import cumsum
    >>> run(cumsum, [np.ones(3)], {"dim": 0}, True) is None
    True
    """
    if config.disabled:
        return None
    kinds = tuple([dtypes.from_numpy(x.dtype) for x in arrays])
    key = (op, kinds)
    met = _met[key] = _met.get(key, 0) + max([x.size for x in arrays])
    if met < PATIENCE or (not same and are_deterministic_algorithms_enabled()):
        return None
    shapes = tuple([x.shape for x in arrays])
    found = _program(op, kinds, shapes, tuple(attributes.items()))
    if found is None:
        return None
    program, result = found
    lying = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in arrays]
    try:
        (block,) = program.run(*map(Tensor._wrap, lying))
    except KernelFailure:  # NumPy's way ends in the error that says what is wrong
        return None
    made: np.ndarray = shaped(block, result)
    return made


@lru_cache(maxsize=_MOST)
def _program(
    op: Op, kinds: tuple[DType, ...], shapes: tuple[Shape, ...], attributes: tuple[Any, ...]
) -> tuple[Any, TensorType] | None:
    """A program that runs ``op`` on contiguous arrays, and the type of its result; None if there is no kernel of it."""
    from ...ir.builder import Builder
    from ...passes.pipeline import run_passes
    from ..plan.plan import make_plan
    from ..plan.records import HostCall
    from ..program import Program

    builder = Builder(op.name)
    types = [TensorType(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
    inputs = [builder.input(f"x{i}", type) for i, type in enumerate(types)]
    with builder.writing():
        graph = run_passes(builder.finish([op(*inputs, **dict(attributes))]))
    plan = make_plan(graph, [type.contiguous_strides() for type in types])
    if any(isinstance(item, HostCall) for item in plan.items):
        return None
    program = Program(plan)
    return program, program.types[0]


set_programs(run)
