"""Single ops of eager code as programs: what compiled code makes of a graph with one statement.

Kernels are shared by all shapes, and programs are kept for those met last. An op that compiled code leaves to its body
is left to it here as well. Which calls are served depends on what was called before, not on a clock; where equal calls
are to have equal bits, only ops are whose kernels give NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import config, dtypes
from ...cuda.arrays import shaped
from ...determinism import are_deterministic_algorithms_enabled
from ...dtypes import DType
from ...ops.movement import permute
from ...ops.op import Op
from ...ops.programs import set_programs
from ...tensor import Tensor
from ...types import Shape, TensorType
from ..callbacks import KernelFailure

if TYPE_CHECKING:
    from ..program import Program

__all__ = ["run"]

#: Elements, or what takes as long, that NumPy works on before a kernel is compiled, which takes as long.
PATIENCE = 1 << 22
#: The same for arrays of the same shapes before a program for these is made, which takes a millisecond or two.
SHAPE_PATIENCE = 1 << 18
#: How many programs are kept, and of how many kinds of calls that are none yet the work is known.
MOST, _MOST_MET = 512, 4096
_met: dict[Any, int] = {}
_met_alike: dict[Any, int] = {}
_served: dict[Any, _Served] = {}
#: Of an array whose elements lie in no order of its dimensions, one after the other.
_SCATTERED = ()


def run(
    op: Op, arrays: Sequence[np.ndarray], attributes: Mapping[str, Any], same: bool, work: int
) -> np.ndarray | None:
    """The result of ``op``, which is ``work``; None where NumPy is to compute it.

    >>> from tracejit.ops.ordering import cumsum
    >>> run(cumsum, [np.ones(3)], {"dim": 0}, True, 3) is None
    True
    """
    if config.disabled or (not same and are_deterministic_algorithms_enabled()):
        return None
    key: list[Any] = [op]
    for x in arrays:
        key += (x.dtype, x.shape, x.strides)
    key += attributes.values()
    alike = tuple(key)
    served = _served.get(alike)
    if served is None:
        if not _is_met_often(alike, op, arrays, work):
            return None
        served = _Served.of(op, arrays, tuple(attributes.items()))
        if len(_served) >= MOST:
            _served.clear()
        _served[alike] = served
    return served.result(arrays)


class _Served(NamedTuple):
    """What computes an op of arrays that lie in these orders, None if there is no kernel of it; the result's type."""

    run: Callable[..., Any] | None
    orders: tuple[tuple[int, ...] | None, ...]
    type: TensorType | None

    @classmethod
    def of(
        cls, op: Op, arrays: Sequence[np.ndarray], attributes: tuple[tuple[str, Any], ...]
    ) -> _Served:
        """By a program of the op."""
        orders = tuple(map(_order, arrays))
        kinds = tuple([dtypes.from_numpy(x.dtype) for x in arrays])
        found = _program(op, kinds, tuple([x.shape for x in arrays]), orders, attributes)
        return cls(None, orders, None) if found is None else cls(found.run, orders, found.types[0])

    def result(self, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
        """The result for these arrays; None where NumPy is to compute it."""
        if self.run is None:
            return None
        lying = [
            Tensor._wrap(x if order is None else _in_order(x, order))
            for x, order in zip(arrays, self.orders, strict=True)
        ]
        try:
            (block,) = self.run(*lying)
        except KernelFailure:  # NumPy's way ends in the error that says what is wrong
            return None
        made: np.ndarray = shaped(block, self.type)
        return made


def _is_met_often(alike: Any, op: Op, arrays: Sequence[np.ndarray], work: int) -> bool:
    """Has there been so much work of this kind that kernels of it pay, and of arrays like these that a program does?"""
    kind = (op, *[x.dtype for x in arrays])
    met = _met[kind] = _met.get(kind, 0) + work
    if met < PATIENCE:
        return False
    if len(_met_alike) >= _MOST_MET:
        _met_alike.clear()
    met = _met_alike[alike] = _met_alike.get(alike, 0) + work
    return met >= SHAPE_PATIENCE


def _order(x: np.ndarray) -> tuple[int, ...] | None:
    """The dimensions of ``x`` in the order in which its elements lie; None where that is their own order.

    >>> _order(np.ones((2, 3))), _order(np.ones((2, 3, 4)).transpose(0, 2, 1)), _order(np.ones((2, 4))[:, ::2])
    (None, (0, 2, 1), ())
    """
    if x.flags.c_contiguous:
        return None
    order = tuple(sorted(range(x.ndim), key=lambda d: -x.strides[d]))
    return order if x.transpose(order).flags.c_contiguous else _SCATTERED


def _in_order(x: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """``x`` as its elements lie, or a copy."""
    return x.transpose(order) if order else np.ascontiguousarray(x)


def _program(
    op: Op,
    kinds: tuple[DType, ...],
    shapes: tuple[Shape, ...],
    orders: tuple[tuple[int, ...] | None, ...],
    attributes: tuple[Any, ...],
) -> Program | None:
    """A program that runs ``op`` on arrays that lie in these orders; None if there is no kernel of it."""
    from ...ir.builder import Builder
    from ...passes.pipeline import run_passes
    from ..plan.plan import make_plan
    from ..plan.records import HostCall
    from ..program import Program

    builder = Builder(op.name)
    types: list[TensorType] = []
    operands: list[Any] = []
    with builder.writing():
        for i, (shape, kind, order) in enumerate(zip(shapes, kinds, orders, strict=True)):
            turned = tuple([shape[d] for d in order]) if order else shape
            types.append(TensorType(turned, kind))
            value = builder.input(f"x{i}", types[-1])
            back = np.argsort(order).tolist() if order else None
            operands.append(permute(value, dims=tuple(back)) if back else value)
        graph = run_passes(builder.finish([op(*operands, **dict(attributes))]))
    plan = make_plan(graph, [type.contiguous_strides() for type in types])
    if any(isinstance(item, HostCall) for item in plan.items):
        return None
    return Program(plan)


set_programs(run)
