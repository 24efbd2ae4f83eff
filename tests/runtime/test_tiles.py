"""Steps that go through a batch of matrices together: against NumPy, eager execution, and the same steps apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.ir import parse, run, verify
from tracejit.ops.functions.attention import BLOCK
from tracejit.passes.gradient.growth import outgrows
from tracejit.passes.gradient.recompute import recompute
from tracejit.runtime import threads
from tracejit.runtime.blas import find_blas
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.plan.plan import Plan, make_plan
from tracejit.runtime.program import Program
from tracejit.runtime.tiled.tiles import TileStep

pytestmark = pytest.mark.skipif(find_blas() is None, reason="no BLAS in this Python")


@pytest.fixture(params=[1, 2, 3])
def thread_count(request: pytest.FixtureRequest) -> Iterator[int]:
    before = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield request.param
    threads.set_num_threads(before)


def attention_text(heads: tuple[int, ...], rows: int, columns: int, inner: int, out: int) -> str:
    """Softmax attention as a graph."""

    def kind(*shape: int) -> str:
        return f"f32[{', '.join(map(str, (*heads, *shape)))}]"

    last = len(heads) + 1
    swapped = ", ".join(map(str, (*range(len(heads)), last, last - 1)))
    scores, row = kind(rows, columns), kind(rows, 1)
    return f"""graph attention(q: {kind(rows, inner)}, k: {kind(columns, inner)}, v: {kind(columns, out)}) {{
        %0: {kind(inner, columns)} = permute(k, dims=({swapped}))
        %1: {scores} = matmul(q, %0)
        %2: {scores} = mul(%1, 0.5)
        %3: {row} = amax(%2, dims=({last},), keepdim=True)
        %4: {scores} = sub(%2, %3)
        %5: {scores} = exp(%4)
        %6: {row} = sum(%5, dims=({last},), keepdim=True)
        %7: {scores} = div(%5, %6)
        %8: {kind(rows, out)} = matmul(%7, v)
        return %8
    }}"""


def plan_of(text: str) -> Plan:
    graph = verify(parse(text))
    return make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])


def tiles_of(plan: Plan) -> list[TileStep]:
    return [item for item in plan.items if isinstance(item, TileStep)]


def results(plan: Plan, arrays: list[np.ndarray]) -> list[np.ndarray]:
    blocks = Program(plan).run(*[tj.from_numpy(a) for a in arrays])
    return [
        np.ndarray(kind.shape, kind.dtype.np, block.array).copy()
        for kind, block in zip(plan.output_types, blocks, strict=True)
    ]


SHAPES = [
    ((3,), 5, 7, 2, 3),
    ((2, 3), 16, 16, 8, 8),
    ((2, 2, 2), 33, 65, 4, 5),
    ((7, 5), 1, 4, 3, 2),
    ((4,), 130, 257, 16, 24),
    ((2, 2), 64, 64, 32, 32),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_is_one_step(shape: Any, thread_count: int, rng: np.random.Generator) -> None:
    plan = plan_of(attention_text(*shape))
    (step,) = tiles_of(plan)
    assert len(plan.items) == 1
    assert len(step.parts) == 3
    arrays = [rng.standard_normal(v.spec.shape).astype("f") for v in plan.graph.inputs]
    (found,) = results(plan, arrays)
    (expected,) = run(parse(attention_text(*shape)), arrays)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_results_do_not_depend_on_the_number_of_threads(rng: np.random.Generator) -> None:
    text = attention_text((3, 5), 33, 47, 8, 16)
    arrays = [rng.standard_normal(v.spec.shape).astype("f") for v in parse(text).inputs]
    before = threads.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3, 5):
            threads.set_num_threads(count)
            found.append(results(plan_of(text), arrays)[0])
    finally:
        threads.set_num_threads(before)
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_special_values_stay_in_their_matrices(rng: np.random.Generator) -> None:
    text = attention_text((4,), 6, 9, 4, 3)
    q, k, v = (rng.standard_normal(x.spec.shape).astype("f") for x in parse(text).inputs)
    q[1, 2, 0], k[2, 0, 0], v[3, 1, 1] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        (expected,) = run(parse(text), [q, k, v])
        (found,) = results(plan_of(text), [q, k, v])
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(np.isinf(found), np.isinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=2e-5, atol=2e-6)


def test_memory_does_not_grow_with_the_number_of_matrices() -> None:
    few, many = (plan_of(attention_text((n,), 64, 64, 8, 8)).arena_bytes for n in (8, 800))
    assert 0 < many <= few


def test_what_crosses_units_is_no_part_of_a_run() -> None:
    text = """graph f(x: f32[4, 6, 3], y: f32[4, 3, 6]) {
        %0: f32[4, 6, 6] = matmul(x, y)
        %1: f32[6, 4, 6] = permute(%0, dims=(1, 0, 2))
        %2: f32[6, 4, 6] = exp(%1)
        %3: f32[6, 6, 4] = permute(%2, dims=(0, 2, 1))
        %4: f32[6, 6, 6] = matmul(%3, %2)
        return %4
    }"""
    plan = plan_of(text)
    assert not any(len(step.parts) > 1 and "exp" in str(step) for step in tiles_of(plan))
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(v.spec.shape).astype("f") for v in plan.graph.inputs]
    np.testing.assert_allclose(
        results(plan, arrays)[0], run(parse(text), arrays)[0], rtol=1e-4, atol=1e-4
    )


def test_a_sum_over_units_stays_outside() -> None:
    text = """graph f(x: f32[4, 6, 3], y: f32[4, 3, 6], z: f32[4, 6, 2]) {
        %0: f32[4, 6, 6] = matmul(x, y)
        %1: f32[6, 6] = sum(%0, dims=(0,), keepdim=False)
        %2: f32[4, 6, 6] = mul(%0, %1)
        %3: f32[4, 6, 2] = matmul(%2, z)
        return %3
    }"""
    plan = plan_of(text)
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(v.spec.shape).astype("f") for v in plan.graph.inputs]
    np.testing.assert_allclose(
        results(plan, arrays)[0], run(parse(text), arrays)[0], rtol=1e-4, atol=1e-4
    )


# --- programs ----------------------------------------------------------------------------------------------------


def heads_of(x: Any, batch: int, length: int, heads: int) -> Any:
    return x.view(batch, length, heads, -1).transpose(1, 2)


def by_hand(x: Any, w: Any, heads: int, causal: bool) -> Any:
    """Self-attention written with operators."""
    batch, length, width = x.shape
    q, k, v = (heads_of(p, batch, length, heads) for p in (x @ w).chunk(3, -1))
    scores = q @ k.transpose(-2, -1) / (width // heads) ** 0.5
    if causal:
        allowed = tj.ones(length, length).tril() > 0
        scores = scores.masked_fill(~allowed, float("-inf"))
    out = scores.softmax(-1) @ v
    return out.transpose(1, 2).reshape(batch, length, width)


def by_function(x: Any, w: Any, heads: int, causal: bool) -> Any:
    batch, length, width = x.shape
    q, k, v = (heads_of(p, batch, length, heads) for p in (x @ w).chunk(3, -1))
    out = tj.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return out.transpose(1, 2).reshape(batch, length, width)


def gradients(function: Any, x: Any, w: Any, *rest: Any) -> list[np.ndarray]:
    x.grad = w.grad = None
    out = function(x, w, *rest)
    (out * out.detach().cos()).sum().backward()
    return [np.array(t) for t in (out.detach(), x.grad, w.grad)]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([1, 2, 7, 33, 64, 80]),
    st.integers(1, 3),
    st.sampled_from([1, 3, 8]),
    st.booleans(),
    st.sampled_from([by_hand, by_function]),
    st.sampled_from([tj.float32, tj.float64]),
)
def test_compiled_attention_is_eager_attention(
    batch: int, length: int, heads: int, each: int, causal: bool, function: Any, dtype: Any
) -> None:
    rng = np.random.default_rng(batch * 1000 + length)
    width = heads * each
    x = tj.from_numpy(rng.standard_normal((batch, length, width))).to(dtype).requires_grad_()
    w = tj.from_numpy(rng.standard_normal((width, 3 * width)) * 0.5).to(dtype).requires_grad_()
    compiled = tj.compile(function, strict=True)
    expected = gradients(function, x, w, heads, causal)
    scale = 3e-4 if dtype is tj.float32 else 1e-11
    for _ in range(3):
        for have, want in zip(gradients(compiled, x, w, heads, causal), expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=scale, atol=scale * np.abs(want).max())


def test_whole_steps_compute_scores_again(rng: np.random.Generator) -> None:
    x = tj.from_numpy(rng.standard_normal((2, 96, 12)).astype("f"))
    w = tj.from_numpy(rng.standard_normal((12, 36)).astype("f") * 0.3).requires_grad_()

    def step() -> Any:
        w.grad = None
        loss = by_hand(x, w, 3, True).square().sum()
        loss.backward()
        return loss.detach()

    expected = float(step()), np.array(w.grad)
    compiled = tj.compile(step, strict=True)
    for _ in range(3):
        loss = float(compiled())
        np.testing.assert_allclose(loss, expected[0], rtol=1e-5)
        np.testing.assert_allclose(np.array(w.grad), expected[1], rtol=1e-3, atol=1e-3)


def test_what_outgrows_its_operands() -> None:
    def product(text: str) -> Any:
        return next(v for v in parse(text).values if v.op.name == "matmul")

    scores = "graph f(q: f32[2, 64, 8], k: f32[2, 8, 64]) { %0: f32[2, 64, 64] = matmul(q, k) return %0 }"
    linear = "graph f(x: f32[64, 8], w: f32[8, 64]) { %0: f32[64, 64] = matmul(x, w) return %0 }"
    wide = (
        "graph f(x: f32[2, 8, 64], w: f32[2, 64, 8]) { %0: f32[2, 8, 8] = matmul(x, w) return %0 }"
    )
    assert outgrows(product(scores))
    assert not outgrows(product(linear))
    assert not outgrows(product(wide))


def test_recomputing_leaves_early_readers_alone() -> None:
    text = """graph f(q: f32[2, 64, 4], k: f32[2, 4, 64], v: f32[2, 64, 4]) {
        %0: f32[2, 64, 64] = matmul(q, k)
        %1: f32[2, 64, 64] = exp(%0)
        %2: f32[2, 64, 1] = sum(%1, dims=(2,), keepdim=True)
        %3: f32[2, 64, 64] = div(%1, %2)
        %4: f32[2, 64, 4] = matmul(%3, v)
        %5: f32[2, 64, 64] = permute(%3, dims=(0, 2, 1))
        %6: f32[2, 64, 4] = matmul(%5, %4)
        return %6
    }"""
    graph = verify(parse(text))
    found, order = recompute(graph)
    again = verify(found)
    assert [v.op.name for v in order] == ["matmul", "exp", "div"]
    names = [v.op.name for v in again.values if v.op is not None]
    assert (names.count("matmul"), names.count("exp"), names.count("sum")) == (4, 2, 1)
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(v.spec.shape).astype("f") for v in graph.inputs]
    assert np.array_equal(run(graph, arrays)[0], run(again, arrays)[0])


def test_what_is_only_read_late_is_not_computed_twice() -> None:
    text = """graph f(q: f32[2, 64, 4], k: f32[2, 4, 64], v: f32[2, 64, 4]) {
        %0: f32[2, 64, 64] = matmul(q, k)
        %1: f32[2, 64, 64] = exp(%0)
        %2: f32[2, 64, 4] = matmul(%0, v)
        %3: f32[2, 64, 4] = matmul(%1, %2)
        return %3
    }"""
    found, order = recompute(verify(parse(text)))
    assert [v.op.name for v in found.values] == ["matmul", "matmul", "matmul", "exp", "matmul"]
    assert set(order) <= set(found.values)


def test_a_step_with_a_contrastive_loss_is_compiled() -> None:
    encoder = tj.nn.Sequential(tj.nn.Linear(128, 256), tj.nn.ReLU(), tj.nn.Linear(256, 64))
    optimizer = tj.optim.AdamW(encoder.parameters(), lr=1e-3)

    def step(a: tj.Tensor, b: tj.Tensor) -> tj.Tensor:
        optimizer.zero_grad()
        logits = encoder(a) @ encoder(b).t() / 7
        labels = tj.arange(logits.shape[0])
        cross_entropy = tj.nn.functional.cross_entropy
        one = cross_entropy(logits, labels, label_smoothing=0.1)
        loss = one + cross_entropy(logits.t(), labels)
        loss.backward()
        optimizer.step()
        return loss

    compiled = tj.compile(step, strict=True)
    pair = tj.randn(512, 128), tj.randn(512, 128)
    losses = [float(compiled(*pair)) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert compiled.graphs


#: Lengths of one block of queries, and of two, which are another program.
LONGER = [(2, 180), (2, 180), (2, 300), (2, 300)]


def test_one_plan_serves_every_length() -> None:
    rng = np.random.default_rng(6)
    w = tj.from_numpy(rng.standard_normal((12, 36)).astype("f") * 0.3).requires_grad_()
    compiled = tj.compile(by_function, strict=True)
    made = None
    for batch, length in [(3, 64), (3, 64), (3, 56), (3, 56), (5, 70), (5, 70), *LONGER]:
        x = tj.from_numpy(rng.standard_normal((batch, length, 12)).astype("f")).requires_grad_()
        expected = gradients(by_function, x, w, 3, True)
        for have, want in zip(gradients(compiled, x, w, 3, True), expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
        if (batch, length) == (3, 56) and made is None:
            made = kernels.COUNTS.compiled + kernels.COUNTS.loaded
        if made is not None and length < 2 * BLOCK:
            assert kernels.COUNTS.compiled + kernels.COUNTS.loaded == made


@pytest.mark.parametrize(
    ("program", "shapes"),
    [
        (
            lambda x, y, z: tj.einsum("abcd,ce,aec->edbc", x, y.t(), z),
            ((7, 5, 7, 5), (7, 7), (7, 7, 7)),
        ),
        (lambda x, y: x[:, :1] @ (y * 2).exp(), ((3, 2, 4, 5, 5), (3, 2, 4, 5, 5))),
    ],
    ids=["read across", "a batch of three strides"],
)
def test_steps_that_are_not_one_native_step_are_no_part_of_a_run(
    program: Any, shapes: tuple[tuple[int, ...], ...], rng: np.random.Generator
) -> None:
    """Kernels printed in another order of axes, and products that BLAS cannot read as they lie."""
    leaves = [tj.from_numpy(rng.standard_normal(s).astype("f")).requires_grad_() for s in shapes]
    compiled = tj.compile(program, strict=True)
    for _ in range(3):
        found, expected = (
            tj.autograd.grad((f(*leaves) ** 2).sum(), leaves) for f in (compiled, program)
        )
        for a, b in zip(found, expected, strict=True):
            assert tj.allclose(a, b, rtol=1e-3, atol=1e-2)
