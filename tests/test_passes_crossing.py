"""What graphs with a backward pass in them compute again: the same numbers from less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.ir import parse, verify
from tracejit.passes import crossing as passes
from tracejit.runtime import program as programs
from tracejit.runtime.program import Program

F = tj.nn.functional


def network(layers: int, width: int, drop: float) -> Any:
    tj.manual_seed(layers)
    made: list[Any] = []
    for _ in range(layers):
        made += [tj.nn.Linear(width, width), tj.nn.GELU(), tj.nn.LayerNorm(width)]
    return tj.nn.Sequential(*made, tj.nn.Dropout(drop))


def gradients(model: Any, x: Any, compiled: bool) -> list[np.ndarray]:
    def step() -> Any:
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    run = tj.compile(step, strict=True) if compiled else step
    for _ in range(3):
        loss = run()
    return [np.array(loss), *(np.array(p.grad) for p in model.parameters())]


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 3), st.sampled_from([1, 5, 16]), st.sampled_from([1, 3, 32]))
def test_whole_steps_agree_with_eager_ones(layers: int, width: int, rows: int) -> None:
    x = tj.from_numpy(np.random.default_rng(rows).standard_normal((rows, width)).astype("f"))
    model = network(layers, width, 0.0)
    expected = gradients(model, x, compiled=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "LEAST_BYTES", 0)
        found = gradients(model, x, compiled=True)
    for have, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_whole_steps_need_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tj.from_numpy(np.random.default_rng(1).standard_normal((512, 64)).astype("f"))
    used: list[int] = []

    def watch(program: Program) -> None:
        used.append(int(program.bound([program.plan.arena_bytes])[0]))

    monkeypatch.setattr(programs, "watchers", [watch])
    sizes = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(passes, "LEAST_BYTES", least)
        used.clear()
        gradients(network(4, 64, 0.1), x, compiled=True)
        sizes.append(max(used))
    assert sizes[0] < 0.8 * sizes[1]


def test_where_most_memory_is_in_use() -> None:
    text = """graph f(x: f32[8, 8]) {
        %0: f32[8, 8] = exp(x)
        %1: f32[8, 8] = sin(%0)
        %2: f32[8, 8] = matmul(%1, %1)
        %3: f32[8, 8] = mul(%2, %1)
        %4: f32[8, 8] = mul(%3, %0)
        %5: f32[] = sum(%4, dims=(0, 1), keepdim=False)
        return %5
    }"""
    graph = verify(parse(text))
    place, most = passes._fullest(graph, list(graph.values))
    assert (place, most) == (3, 3 * 256)
