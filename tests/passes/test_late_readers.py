"""What later kernels compute again from memory: where it saves memory traffic, with the same bits."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from ir_graphs import assert_same_bits
from tracejit import config, nn
from tracejit.codegen.identity import features
from tracejit.ir import parse
from tracejit.nn import functional as F
from tracejit.ops.table import Elementwise, Reduction
from tracejit.passes.fusion import late_readers
from tracejit.passes.fusion.fusion import fuse
from tracejit.passes.fusion.late_readers import compute_late, traffic


@pytest.fixture(autouse=True)
def _large_values_are_not_that_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_readers, "LARGE", 1 << 15)


def schedule_of(graph: Any, order: Any = None) -> Any:
    return fuse(graph, lambda v: isinstance(v.op, (Elementwise, Reduction)), order or {}, True)


def normed(ends: str, returned: str = "%8", shape: str = "f32[64, 8, 1024]") -> Any:
    """Rows that are centred and scaled, and what is made of them in other kernels."""
    rows = shape.rsplit(",", 1)[0] + ", 1]"
    columns = "f32[1, 8, 1]"
    return parse(f"""graph f(x: {shape}, g: {shape}) {{
        %0: {rows} = sum(x, dims=(2,), keepdim=True)
        %1: {shape} = sub(x, %0)
        %2: {shape} = square(%1)
        %3: {rows} = sum(%2, dims=(2,), keepdim=True)
        %4: {shape} = {ends}
        %5: {rows} = cumsum(%3, dim=0)
        %6: {shape} = mul(g, %5)
        %7: {shape} = mul(%6, %4)
        %8: {columns} = sum(%7, dims=(0, 2), keepdim=True)
        return {returned}
    }}""")


def test_what_is_quickly_made_of_memory_is_not_stored() -> None:
    graph = normed("mul(%1, %3)")
    schedule = schedule_of(graph)
    found = compute_late(graph, schedule, {})
    assert found is not None
    late, order = found
    again = schedule_of(late, order)
    large = [v for outputs in again.outputs.values() for v in outputs if v.spec.numel > 1 << 15]
    assert large == []
    assert [v.op.name for v in late.values].count("sub") == 2
    assert len(again.groups) == len(schedule.groups)
    assert traffic(schedule) - traffic(again) > 0.99 * 64 * 8 * 1024 * 4


STORED = {
    "returned": (normed("mul(%1, %3)", "%4, %8"), "mul"),
    "elementary": (normed("exp(%1)"), "exp"),
    "of two large values": (
        parse("""graph f(x: f32[64, 8, 1024], y: f32[64, 8, 1024], g: f32[64, 8, 1024]) {
            %0: f32[64, 8, 1024] = mul(x, y)
            %1: f32[64, 8, 1] = sum(%0, dims=(2,), keepdim=True)
            %2: f32[64, 8, 1] = cumsum(%1, dim=0)
            %3: f32[64, 8, 1024] = mul(g, %2)
            %4: f32[64, 8, 1024] = mul(%3, %0)
            %5: f32[1, 8, 1] = sum(%4, dims=(0, 2), keepdim=True)
            return %5
        }"""),
        "mul",
    ),
    "small": (normed("mul(%1, %3)", "%8", "f32[4, 8, 64]"), "mul"),
    "of fewer bytes": (
        parse("""graph f(x: f32[64, 8, 1024], g: f32[64, 8, 1024]) {
            %0: f32[64, 8, 1] = sum(x, dims=(2,), keepdim=True)
            %1: bool[64, 8, 1024] = gt(x, %0)
            %2: f32[64, 8, 1024] = where(%1, x, 0.0)
            %3: f32[64, 8, 1] = sum(%2, dims=(2,), keepdim=True)
            %4: f32[64, 8, 1] = cumsum(%3, dim=0)
            %5: f32[64, 8, 1024] = mul(g, %4)
            %6: f32[64, 8, 1024] = where(%1, %5, 0.0)
            %7: f32[1, 8, 1] = sum(%6, dims=(0, 2), keepdim=True)
            return %7
        }"""),
        "gt",
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_other_values_are_stored(name: str) -> None:
    graph, op = STORED[name]
    schedule = schedule_of(graph)
    stored = [v.op.name for outputs in schedule.outputs.values() for v in outputs]
    assert op in stored
    found = compute_late(graph, schedule, {})
    values = (graph if found is None else found[0]).values
    assert [v.op.name for v in values].count(op) == [v.op.name for v in graph.values].count(op)


def test_a_library_call_has_what_it_reads_stored() -> None:
    graph = parse("""graph f(x: f32[256, 1024], w: f32[1024, 64], g: f32[256, 1024]) {
        %0: f32[256, 1] = sum(x, dims=(1,), keepdim=True)
        %1: f32[256, 1024] = sub(x, %0)
        %2: f32[256, 64] = matmul(%1, w)
        %3: f32[256, 1024] = mul(%1, g)
        %4: f32[1024] = sum(%3, dims=(0,), keepdim=False)
        return %2, %4
    }""")
    assert compute_late(graph, schedule_of(graph), {}) is None


def group_norm(x: Any, w: Any, b: Any) -> Any:
    return F.silu(F.group_norm(x, 4, w, b)).square().mean()


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    return F.relu(F.batch_norm(x, None, None, w, b, training=True)).square().mean()


def instance_norm(x: Any, w: Any, b: Any) -> Any:
    return F.leaky_relu(F.instance_norm(x, weight=w, bias=b)).square().mean()


def two_norms(x: Any, w: Any, b: Any) -> Any:
    y = F.group_norm(x, 2, w, b)
    return (F.group_norm(x + y, 4, w, b) * y).tanh().sum()


def spread(x: Any, w: Any, b: Any) -> Any:
    y = (x - x.mean((2, 3), keepdim=True)) * w[:, None, None]
    # Without masks for bytes, sums beside those that a gradient of extremes needs are LLVM's, in an order of its own.
    top = (y if "avx512bw" in features() else y.detach()).amax((0, 2, 3))
    return (y * y).sum() + (y.mean(0) * b[:, None, None]).sum() + top.sum()


PROGRAMS = (group_norm, batch_norm, instance_norm, two_norms, spread)


def steps(function: Any, updates: bool) -> list[np.ndarray]:
    """Losses, gradients and what is left of the arguments of some whole steps."""
    rng = np.random.default_rng(5)
    x = nn.Parameter(tj.from_numpy(rng.standard_normal((4, 8, 33, 40)).astype(np.float32)))
    w = nn.Parameter(tj.from_numpy(rng.standard_normal(8).astype(np.float32)))
    b = nn.Parameter(tj.zeros(8))

    def step() -> Any:
        loss = function(x, w, b)
        loss.backward()
        if updates:
            with tj.no_grad():
                for p in (x, w, b):
                    p -= 0.1 * p.grad
        return loss

    compiled, found = tj.compile(step), []
    for _ in range(3):
        x.grad = w.grad = b.grad = None
        found += [compiled().detach().numpy().copy()]
        found += [y.numpy().copy() for p in (x, w, b) for y in (p.grad, p.detach())]
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_steps_have_the_same_bits(
    function: Any, updates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = importlib.import_module("tracejit.runtime.plan.plan")
    monkeypatch.setattr(config, "keeps_plans", False)
    counts: list[bool] = []
    search = plan.compute_late

    def noted(*given: Any) -> Any:
        found = search(*given)
        counts.append(found is not None)
        return found

    monkeypatch.setattr(plan, "compute_late", noted)
    found = steps(function, updates)
    assert any(counts) is (function in (group_norm, two_norms, spread))
    monkeypatch.setattr(plan, "compute_late", lambda *given: None)
    for a, b in zip(found, steps(function, updates), strict=True):
        assert_same_bits(a, b)
