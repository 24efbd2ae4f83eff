"""The pipeline: order, times, dumps; what it does to whole programs; how long it takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import assert_same_bits, random_graph
from tracejit import config
from tracejit.ir import Builder, parse, run, verify
from tracejit.ir.graph import Value
from tracejit.ops.table import lookup
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.gradient.partition import partition
from tracejit.passes.pipeline import PASSES, run_passes
from tracejit.types import TensorType

GRAPH = parse("""graph f(x: f32[4, 3]) {
    %0: f32[4, 3] = clone(x)
    %1: f32[4, 3] = mul(%0, 1)
    %2: f32[3] = full(shape=(3,), value=2.0, dtype=f32)
    %3: f32[4, 3] = mul(%1, %2)
    %4: f32[4, 3] = mul(x, 2.0)
    %5: f32[4, 3] = add(%3, %4)
    %6: f32[4, 3] = exp(%0)
    return %5
}""")


def test_everything_together():
    expected = parse("""graph f(x: f32[4, 3]) {
        %0: f32[4, 3] = mul(x, 2.0)
        %1: f32[4, 3] = add(%0, %0)
        return %1
    }""")
    assert run_passes(GRAPH, check=verify) == expected


def test_marks_stay_until_after_differentiation():
    graph = parse(
        "graph f(x: f32[2]) { %0: f32[2] = detach_copy(x) %1: f32[2] = mul(x, %0) return %1 }"
    )
    before = run_passes(graph, final=False)
    assert differentiate(before, [True]).graph.body[-1].op is lookup("mul")  # type: ignore[union-attr]
    assert len(before.body) == 2
    assert len(run_passes(graph).body) == 1


def test_times_add_up():
    seconds: dict[str, float] = {}
    run_passes(GRAPH, timings=seconds)
    first = dict(seconds)
    run_passes(GRAPH, timings=seconds)
    assert list(seconds) == [p.name for p in PASSES if not p.device]
    assert all(seconds[name] > first[name] > 0 for name in seconds)


def test_names_are_unique():
    assert len({p.name for p in PASSES}) == len(PASSES)


def test_stages_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "dump_directory", str(tmp_path / "dump"))
    run_passes(GRAPH)
    run_passes(GRAPH)
    first, second = sorted((tmp_path / "dump").iterdir())
    assert (first.name, second.name) == ("f", "f_1")
    names = [p.name for p in sorted(first.iterdir())]
    steps = [p.name for p in PASSES if not p.device]
    assert names == ["00_input.txt", *(f"{i + 1:02d}_{name}.txt" for i, name in enumerate(steps))]
    assert parse((first / names[0]).read_text()) == GRAPH
    assert parse((first / names[-1]).read_text()) == run_passes(GRAPH)


def _is_added_in_another_order(value: Value) -> bool:
    """Convolutions become sums of products, sums of complex numbers those of their parts."""
    name = "" if value.op is None else value.op.name
    return name.startswith("convolution") or (name == "sum" and value.spec.dtype.is_complex)


@given(st.integers(0, 10**6))
def test_random_graphs_keep_every_bit(seed: int):
    graph, arrays = random_graph(seed, size=20)
    after = run_passes(graph, check=verify)
    assume(not any(_is_added_in_another_order(v) for v in graph.values))
    for found, expected in zip(run(after, arrays), run(graph, arrays), strict=True):
        assert_same_bits(found, expected)


@given(st.integers(0, 10**6))
def test_runs_settle(seed: int):
    """A second run may find a little more or reorder the copies made for outputs; a third changes nothing."""
    graph, _ = random_graph(seed, size=12)
    once = run_passes(graph)
    twice = run_passes(once)
    assert len(twice.body) <= len(once.body)
    assert run_passes(twice) == twice


def test_time_is_linear_in_the_graph():
    """A graph four times as long may take nine times as long (noise included), not sixteen times."""

    def seconds(count: int) -> float:
        b = Builder("chain")
        x = b.input("x", TensorType((8,), tj.float32))
        y = x
        for i in range(count // 2):
            y = b.emit(lookup("add"), (b.emit(lookup("sin"), (y,), {}), float(i)), {})
        graph = b.finish([y])
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            gradient = differentiate(graph, [True])
            partition(run_passes(graph), gradient)
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(3200) < 9 * seconds(800)
