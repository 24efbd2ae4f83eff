"""What graphs with a backward pass in them compute again: the same numbers from less memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.ir import parse, verify
from tracejit.passes.gradient import crossing as passes
from tracejit.passes.gradient.partition import Partition
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
@given(
    st.integers(1, 3),
    st.sampled_from([1, 5, 16]),
    st.sampled_from([1, 3, 32]),
    st.sampled_from([0, 1 << 60]),
)
def test_whole_steps_agree_with_eager_ones(layers: int, width: int, rows: int, large: int) -> None:
    x = tj.from_numpy(np.random.default_rng(rows).standard_normal((rows, width)).astype("f"))
    model = network(layers, width, 0.0)
    expected = gradients(model, x, compiled=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "LEAST_BYTES", 0)
        patch.setattr(sys.modules[Partition.__module__], "LARGE", large)
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


class Block(tj.nn.Module):
    """A layer of a decoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = tj.nn.LayerNorm(width), tj.nn.LayerNorm(width)
        self.query_key_value, self.out = tj.nn.Linear(width, 3 * width), tj.nn.Linear(width, width)
        self.up, self.down = tj.nn.Linear(width, 4 * width), tj.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        count, length, width = x.shape
        split = self.query_key_value(self.before(x)).view(count, length, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(count, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


def test_layers_of_a_decoder_keep_what_their_products_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two norms, query, key and value, attention's result, two sums, and twice four in between: 16. The scores are 8.
    assert units_per_layer(monkeypatch) < 17


def test_large_results_of_elementwise_ops_are_not_kept_beside_their_operands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[Partition.__module__], "LARGE", 0)
    # Query, key and value, attention's result, two sums, and four in between: 10.
    assert units_per_layer(monkeypatch) < 11


def units_per_layer(monkeypatch: pytest.MonkeyPatch) -> float:
    """How much more a whole step holds at a time for every further layer, in tensors between layers."""
    count, length, width, heads = 4, 128, 64, 4
    x = tj.from_numpy(np.random.default_rng(1).standard_normal((count, length, width)).astype("f"))
    used: list[int] = []

    def watch(program: Program) -> None:
        used.append(int(program.bound([program.plan.arena_bytes])[0]))

    monkeypatch.setattr(programs, "watchers", [watch])
    monkeypatch.setattr(passes, "LEAST_BYTES", 0)
    most = []
    for layers in (2, 6):
        tj.manual_seed(0)
        used.clear()
        model = tj.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        gradients(model, x, compiled=True)
        most.append(max(used))
    unit = 4 * count * length * width
    return (most[1] - most[0]) / 4 / unit


def test_necks_are_calls_that_all_later_calls_wait_for() -> None:
    text = """graph f(x: f32[8, 8], w: f32[8, 8]) {
        %0: f32[8, 8] = matmul(x, w)
        %1: f32[8, 8] = exp(%0)
        %2: f32[8, 8] = matmul(%1, w)
        %3: f32[8, 8] = matmul(%1, %2)
        %4: f32[8, 8] = matmul(%2, w)
        return %3, %4
    }"""
    assert passes._necks(list(verify(parse(text)).values)) == [1, 3, 5]


def test_factors_of_gradients_are_not_computed_ahead() -> None:
    text = """graph f(x: f32[8, 8], w: f32[8, 8]) {
        %0: f32[8, 8] = matmul(x, w)
        %1: f32[8, 8] = tanh(%0)
        %2: f32[8, 8] = matmul(%1, w)
        %3: f32[8, 8] = mul(%1, %1)
        %4: f32[8, 8] = matmul(%2, w)
        %5: f32[8, 8] = mul(%4, %3)
        return %5
    }"""
    graph = verify(parse(text))
    values = list(graph.values)
    point = passes._Point(graph, values, 3)
    assert [number for number, value in enumerate(values) if value in point.early()] == [3]


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
