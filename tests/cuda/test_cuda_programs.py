"""Whole programs, forward and backward, by their device kernels: simulator, PTX and the host agree."""

from __future__ import annotations

from typing import Any

import cuda_programs as programs
import graph_tools as tools
import numpy as np
import pytest
import simulator
from ptx_text import assert_sound
from test_cuda_ops import same

from tracejit.codegen.cuda import combine as cuda_combine
from tracejit.codegen.cuda import cuda
from tracejit.ir.graph import Graph

Array = Any
#: Sums in another order, relative to the size of a result as a whole: differences in a gradient cancel.
CLOSE = {"f64": 1e-13, "f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}
GRAPHS = [
    (name, number) for name, p in programs.PROGRAMS.items() for number in range(1 + p.backward)
]


def closeness(graph: Graph) -> float:
    """Of the coarsest type that a graph computes in, where the last bit of a finer one decides a rounding."""
    return max(CLOSE.get(v.spec.dtype.short, 0.0) for v in (*graph.inputs, *graph.values))


def compare(host: list[Array], device: list[Array], graph: Graph) -> None:
    for value, a, b in zip(graph.outputs, host, device, strict=True):
        if a.dtype.kind in "biu":
            assert a.tolist() == b.tolist()
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        assert (np.isnan(a) == np.isnan(b)).all()
        numbers = a[np.isfinite(a)]
        size = float(np.sqrt(np.mean(numbers**2))) if numbers.size else 0.0
        with np.errstate(invalid="ignore"):
            gap = np.where(a == b, 0.0, np.abs(a - b))
        limit = closeness(graph) * (np.abs(a) + size)
        assert (np.isnan(a) | (gap <= limit)).all(), (str(value), np.nanmax(gap), size)


def check(graph: Graph, misaligned: bool) -> None:
    prepared = tools.prepare(graph, programs.inputs_of(graph))
    host = tools.Run(prepared).execute(tools.on_host)
    simulated = tools.Run(prepared, misaligned).execute(tools.device_way(tools.simulated()))
    compare(host, simulated, graph)
    seen: list[Any] = []
    way = tools.device_way(tools.as_ptx("sm_90"), seen)
    compiled = tools.Run(prepared, misaligned).execute(way)
    assert all(same(a, b) for a, b in zip(simulated, compiled, strict=True))
    assert seen
    for launch in seen:
        assert_sound(tools.ptx_of(launch.source, launch.name, "sm_90"), launch.source)


@pytest.mark.sampled(64)
@pytest.mark.parametrize(("name", "number"), GRAPHS)
def test_programs(name: str, number: int) -> None:
    check(programs.graphs(name)[number], misaligned=False)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), GRAPHS)
def test_programs_on_misaligned_memory(name: str, number: int) -> None:
    """Other launches, the same bits: which launch is taken is nobody's business."""
    graph = programs.graphs(name)[number]
    prepared = tools.prepare(graph, programs.inputs_of(graph))
    found = [
        tools.Run(prepared, off).execute(tools.device_way(tools.simulated()))
        for off in (False, True)
    ]
    assert all(same(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", programs.OPTIMIZERS)
@pytest.mark.parametrize("misaligned", [False, True], ids=["aligned", "misaligned"])
def test_optimizer_updates(name: str, misaligned: bool) -> None:
    check(programs.update_graph(name), misaligned)


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    "order", [simulator.backward, simulator.shuffled(7)], ids=["backward", "shuffled"]
)
@pytest.mark.parametrize(
    "name", ["softmax_long", "layer_norm_long", "cross_entropy_smoothed", "batch_norm", "columns"]
)
def test_results_do_not_depend_on_the_order_of_warps(name: str, order: simulator.Order) -> None:
    for graph in programs.graphs(name):
        prepared = tools.prepare(graph, programs.inputs_of(graph))
        first = tools.Run(prepared).execute(tools.device_way(tools.simulated()))
        second = tools.Run(prepared).execute(tools.device_way(tools.simulated(order)))
        assert all(same(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    "name",
    ["softmax_long", "cross_entropy", "gelu_mlp", "batch_norm", "statistics", "columns", "strided"],
)
def test_few_blocks_and_wide_indices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that walk on past the first block, and indices that need 64 bits."""
    monkeypatch.setattr(cuda, "MOST_BLOCKS", 1)
    for narrow, blocks in ((1 << 31, 1), (1, 1), (1 << 31, 2)):
        monkeypatch.setattr(cuda, "NARROW", narrow)
        monkeypatch.setattr(cuda_combine, "PARTIAL_BLOCKS", blocks)
        monkeypatch.setattr(cuda_combine, "ALONE", 4 if blocks == 1 else 0)
        for graph in programs.graphs(name):
            check(graph, misaligned=False)


def test_picks_outside_the_row_are_reported() -> None:
    graph = programs.graphs("cross_entropy")[0]
    arrays = programs.inputs_of(graph)
    prepared = tools.prepare(graph, arrays)
    good = tools.Run(prepared)
    good.execute(tools.device_way(tools.simulated()))
    assert good.status.array.tolist() == [0]
    labels = next(a for a in arrays if a.dtype == np.int64)
    for wrong in (10, -1):
        labels[3] = wrong
        runs = [tools.Run(tools.prepare(graph, arrays)) for _ in range(3)]
        ways = (
            tools.on_host,
            tools.device_way(tools.simulated()),
            tools.device_way(tools.as_ptx("sm_90")),
        )
        for run, way in zip(runs, ways, strict=True):
            run.execute(way)
            assert run.status.array.tolist() == [1]


DRAWS = [(s, d) for s in ("random_uniform", "random_normal") for d in ("f16", "bf16", "f32", "f64")]


@pytest.mark.parametrize(("sampler", "kind"), [*DRAWS, ("random_bits", "i64")])
def test_random_numbers_are_the_bits_of_eager_code(sampler: str, kind: str) -> None:
    from tracejit.ir import parse

    attributes = f", dtype={kind}" if kind != "i64" else ""
    graph = parse(
        f"graph f(key0: i64[2]) {{ %0: {kind}[7, 5] = {sampler}(key0, index=3, shape=(7, 5){attributes})"
        f" %1: {kind}[5, 7] = permute(%0, dims=(1, 0)) %2: {kind}[5, 7] = clone(%1) return %0, %2 }}"
    )
    key = np.array([123456789, 2**40 + 7])
    prepared = tools.prepare(graph, [key])
    value = next(iter(prepared.graph.values))
    assert value.op is not None
    eager = value.op.evaluate((key,), value.attributes)
    for way in (tools.simulated(), tools.as_ptx("sm_75")):
        drawn, permuted = tools.Run(prepared).execute(tools.device_way(way))
        assert drawn.tobytes() == eager.tobytes()
        assert permuted.tobytes() == np.ascontiguousarray(eager.T).tobytes()
