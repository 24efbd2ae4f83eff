"""Every op a kernel can compute, printed for the device: simulator, PTX and the host's machine code agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import graph_tools as tools
import numpy as np
import pytest
import simulator
from ptx_text import assert_sound
from test_compiled_ops import INTEGERS, MAY_RAISE, _integer_case, reversed_strides

from compiled_tools import assert_close
from tracejit import dtypes
from tracejit.codegen.scalar import printable
from tracejit.ir.builder import Builder
from tracejit.ir.graph import Graph, Value
from tracejit.ops.elementwise import add
from tracejit.ops.table import Elementwise, Op, Reduction, all_ops
from tracejit.testing import samples
from tracejit.testing.samples import Case
from tracejit.types import TensorType

Array = Any
#: Sums and products in another order.
REORDERED = {"f64": 1e-13, "f32": 5e-6, "f16": 2e-3, "bf16": 1.6e-2}
KINDS = (Elementwise, Reduction)


def graph_of(cases: Sequence[Case], doubled: bool = False) -> tuple[Graph, list[Array]]:
    """One graph of several calls that kernels can compute, and its inputs.

    ``doubled``: a kernel adds what each of them returns to itself, which may then be a view, or a kernel of its own.
    """
    builder, arrays, outputs = Builder("samples"), [], []
    for case in cases:
        operands: list[Any] = []
        for x in case.operands:
            if isinstance(x, np.ndarray):
                kind = TensorType(x.shape, dtypes.from_numpy(x.dtype))
                operands.append(builder.input(f"x{len(arrays)}", kind))
                arrays.append(x)
            else:
                operands.append(x)
        defaults = {n: v for n, v in case.op.attributes.items() if v is not n}
        found = builder.emit(case.op, operands, {**defaults, **case.attributes})
        outputs.append(builder.emit(add, [found, found], {}) if doubled else found)
    found = builder.finish(outputs)
    wanted = [v for v in outputs if isinstance(v, Value) and printable(v)]
    return Graph("samples", found.inputs, found.body, tuple(wanted)), arrays


def is_printable(op: Op) -> bool:
    cases = list(samples.cases(op, dtypes.float32))
    return bool(cases) and bool(graph_of(cases[:1])[0].outputs)


OPS = [op for op in all_ops() if isinstance(op, KINDS) and is_printable(op)]
ELEMENTWISE = [op for op in OPS if isinstance(op, Elementwise)]


def runs_no_body(op: Op) -> bool:
    """Are kernels all there is: is the op one, is it in one, or where one reads?"""
    if op in OPS or op.dynamic:
        return False
    graph, arrays = graph_of(list(samples.cases(op, dtypes.float32))[:1], doubled=True)
    return bool(graph.outputs) and op not in tools.bodies_of(tools.prepare(graph, arrays))


#: Moves, sources, lookups, scatters, draws, running totals, convolutions, attention.
OTHERS = [op for op in all_ops() if runs_no_body(op)]


def reordered(op: Op) -> bool:
    if isinstance(op, Reduction):
        return op.combine in ("sum", "prod")
    return op.kind == "contraction"


def agree(
    cases: Sequence[Case],
    lay: Callable[[Array], Array] = np.copy,
    misaligned: bool = False,
    architectures: Sequence[str] = ("sm_90",),
    doubled: bool = False,
) -> int:
    """Run some calls of an op three ways; how many values were compared."""
    graph, arrays = graph_of(cases, doubled)
    exact = not any(reordered(case.op) for case in cases)
    prepared = tools.prepare(graph, [lay(x) for x in arrays])
    host = tools.Run(prepared).execute(tools.on_host)
    simulated = tools.Run(prepared, misaligned).execute(tools.device_way(tools.simulated()))
    for value, a, b in zip(graph.outputs, host, simulated, strict=True):
        assert value.op is not None
        tolerance = 0.0 if exact else REORDERED.get(value.spec.dtype.short, 0.0)
        assert_close(a, b, f"{value.op.name} {value.spec}", tolerance)
    for architecture in architectures:
        seen: list[Any] = []
        way = tools.device_way(tools.as_ptx(architecture), seen)
        found = tools.Run(prepared, misaligned).execute(way)
        for value, a, b in zip(graph.outputs, simulated, found, strict=True):
            assert same(a, b), f"{value.op} {value.spec}: {architecture} differs from the text"
        for launch in seen:
            assert_sound(tools.ptx_of(launch.source, launch.name, architecture), launch.source)
    return len(host)


def same(a: Array, b: Array) -> bool:
    """Equal bits; any nan equals any nan."""
    if a.dtype.kind not in "fV":
        return a.tobytes() == b.tobytes()
    wide = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(wide[0]) & np.isnan(wide[1])
    return bool((nan | (wide[0].view(np.int64) == wide[1].view(np.int64))).all())


@pytest.mark.sampled(192)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_float32(op: Op) -> None:
    assert agree(list(samples.cases(op, dtypes.float32)))


@pytest.mark.sampled(48)
@pytest.mark.parametrize("op", OTHERS, ids=lambda op: op.name)
def test_what_is_neither_elementwise_nor_a_reduction(op: Op) -> None:
    assert agree(list(samples.cases(op, dtypes.float32))[:2], doubled=True)


@pytest.mark.parametrize("kind", ["movement", "source", "randomsource"])
def test_no_op_of_these_kinds_runs_a_body(kind: str) -> None:
    assert {op for op in all_ops() if op.kind == kind} <= {*OTHERS, *OPS}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_misaligned_and_backward_operands(op: Op) -> None:
    cases = list(samples.cases(op, dtypes.float32))[:4]
    assert agree(cases, misaligned=True, architectures=())
    assert agree(cases, reversed_strides, architectures=())


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_other_floats(op: Op, dtype: Any) -> None:
    agree(list(samples.cases(op, dtype))[:2])


@pytest.mark.sampled(48)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_special_values(op: Elementwise) -> None:
    agree([samples.special(op, dtypes.float32), samples.special(op, dtypes.float64)])


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "op", [o for o in ELEMENTWISE if o.name not in MAY_RAISE], ids=lambda op: op.name
)
def test_integers(op: Elementwise) -> None:
    """Values at both ends of every integer dtype, where the op takes it."""
    agree([c for d in INTEGERS if (c := _integer_case(op, d)) is not None])


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("op", [o for o in OPS if isinstance(o, Reduction)], ids=lambda op: op.name)
def test_reductions_of_integers(op: Reduction) -> None:
    rng = np.random.default_rng(0)
    cases = []
    for dtype in INTEGERS:
        x = rng.integers(0, 2 if dtype is dtypes.bool_ else 90, (6, 40)).astype(dtype.np)
        cases += [
            Case(op, (x,), {"dims": dims, "keepdim": False}, f"{dtype}{dims}")
            for dims in ((1,), (0,), (0, 1))
        ]
    agree(cases)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "order", [simulator.backward, simulator.shuffled(1)], ids=["backward", "shuffled"]
)
@pytest.mark.parametrize("op", [o for o in OPS if isinstance(o, Reduction)], ids=lambda op: op.name)
def test_results_do_not_depend_on_the_order_of_warps(op: Reduction, order: simulator.Order) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 70)).astype(np.float32)
    cases = [
        Case(op, (x,), {"dims": dims, "keepdim": False}, str(dims))
        for dims in ((0,), (1,), (2,), (0, 2), (0, 1, 2))
    ]
    graph, arrays = graph_of(cases)
    prepared = tools.prepare(graph, arrays)
    first = tools.Run(prepared).execute(tools.device_way(tools.simulated()))
    second = tools.Run(prepared).execute(tools.device_way(tools.simulated(order)))
    assert all(same(a, b) for a, b in zip(first, second, strict=True))
