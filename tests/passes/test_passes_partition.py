"""Partition: what is kept between forward and backward, and that the two halves compute the gradient."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import assert_same_bits, random_array, random_graph
from tracejit.ir import Builder, Graph, Value, parse, run, verify
from tracejit.ops.table import lookup
from tracejit.passes.gradient.gradient import Gradient, differentiate
from tracejit.passes.gradient.minimum_cut import Network
from tracejit.passes.gradient.partition import Partition, partition
from tracejit.passes.pipeline import run_passes
from tracejit.passes.simplify.dead_code import dead_code
from tracejit.types import TensorType


def parts(text: str, wrt: Sequence[bool]) -> Partition:
    graph = verify(parse(text))
    found = partition(graph, differentiate(graph, wrt))
    verify(found.forward)
    verify(found.backward)
    assert len(dead_code(found.backward).body) == len(found.backward.body)
    return found


def ops(graph: Graph) -> list[str]:
    return [v.op.name for v in graph.values if v.op is not None]


def kept(found: Partition) -> list[str]:
    """Kept values as the forward names them: inputs by name, results by op."""
    names = [found.forward.inputs[i].name for i in found.saved_inputs]
    results = [found.forward.outputs[i] for i in found.saved_outputs]
    return names + [v.op.name if v.op is not None else v.name for v in results]


def test_activations_of_linear_layers_are_kept():
    found = parts(
        """graph mlp(x: f32[32, 8], w1: f32[8, 16], b1: f32[16], w2: f32[16, 4]) {
            %0: f32[32, 16] = matmul(x, w1)
            %1: f32[32, 16] = add(%0, b1)
            %2: f32[32, 16] = relu(%1)
            %3: f32[32, 4] = matmul(%2, w2)
            return %3
        }""",
        [False, True, True, True],
    )
    assert kept(found) == ["x", "w2", "relu"]
    assert found.saved_bytes == 4 * (32 * 8 + 16 * 4 + 32 * 16)
    assert [v.name for v in found.backward.inputs] == ["x", "w2", "s0", "g0"]
    assert "relu" not in ops(found.backward)


@pytest.mark.parametrize("activation", ["relu", "sin"])
def test_large_activations_are_recomputed_from_what_is_kept_anyway(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[Partition.__module__], "LARGE", 0)
    found = parts(
        f"""graph mlp(x: f32[32, 8], w1: f32[8, 16], w2: f32[16, 4]) {{
            %0: f32[32, 16] = matmul(x, w1)
            %1: f32[32, 16] = {activation}(%0)
            %2: f32[32, 4] = matmul(%1, w2)
            return %2
        }}""",
        [False, True, True],
    )
    # The gradient of relu asks for its result, which serves as well as its operand.
    assert kept(found) == ["x", "w2", "matmul" if activation == "sin" else "relu"]
    assert (activation in ops(found.backward)) == (activation == "sin")


def test_cheap_chains_are_recomputed_from_what_a_contraction_made():
    found = parts(
        """graph f(x: f32[32, 8], w: f32[8, 16]) {
            %0: f32[32, 16] = matmul(x, w)
            %1: f32[32, 16] = sin(%0)
            %2: f32[32, 16] = exp(%1)
            %3: f32[32, 16] = tanh(%2)
            %4: f32[] = sum(%3, dims=(0, 1), keepdim=False)
            return %4
        }""",
        [True, True],
    )
    assert kept(found) == ["x", "w", "matmul"]
    assert ops(found.backward)[:3] == ["sin", "exp", "tanh"]


def test_softmax_keeps_its_input_and_one_number_per_row():
    found = parts(
        """graph softmax(x: f32[32, 8]) {
            %0: f32[32, 1] = amax(x, dims=(1,), keepdim=True)
            %1: f32[32, 8] = sub(x, %0)
            %2: f32[32, 8] = exp(%1)
            %3: f32[32, 1] = sum(%2, dims=(1,), keepdim=True)
            %4: f32[32, 8] = div(%2, %3)
            return %4
        }""",
        [True],
    )
    assert kept(found) == ["x", "amax", "sum"]


def test_reductions_are_never_recomputed():
    found = parts(
        """graph f(x: f32[100, 100]) {
            %0: f32[] = sum(x, dims=(0, 1), keepdim=False)
            %1: f32[] = exp(%0)
            %2: f32[] = sin(%1)
            return %2
        }""",
        [True],
    )
    assert "sum" not in ops(found.backward)
    assert found.saved_bytes <= 8


def test_masks_are_smaller_than_what_they_come_from():
    found = parts(
        """graph f(x: f32[64, 64], w: f32[64, 64]) {
            %0: f32[64, 64] = exp(x)
            %1: f32[64, 64] = relu(%0)
            %2: f32[64] = sum(%1, dims=(0,), keepdim=False)
            %3: f32[64] = amax(%1, dims=(0,), keepdim=False)
            return %2
        }""",
        [True, False],
    )
    assert found.saved_bytes <= 4 * 64 * 64 * 2


def test_constants_and_views_are_never_kept():
    found = parts(
        """graph f(x: f32[8, 4]) {
            %0: f32[4, 8] = permute(x, dims=(1, 0))
            %1: f32[4, 8] = full(shape=(4, 8), value=3.0, dtype=f32)
            %2: f32[4, 8] = mul(%0, %1)
            %3: f32[4, 8] = mul(%2, %0)
            return %3
        }""",
        [True],
    )
    assert kept(found) == ["x"]


def test_an_output_is_kept_by_reference_where_eager_execution_keeps_it():
    found = parts("graph f(x: f32[8]) { %0: f32[8] = exp(x) return %0 }", [True])
    assert kept(found) == ["exp"]
    assert (found.saved_outputs, found.n_outputs) == ((0,), 1)
    assert found.checked_outputs == (0,)
    assert len(found.forward.outputs) == 1


def test_what_the_user_may_change_is_not_kept_by_reference():
    """Eager execution keeps exp(x), so changing x or y = 2 exp(x) in place before backward is allowed."""
    found = parts(
        "graph f(x: f32[8]) { %0: f32[8] = exp(x) %1: f32[8] = mul(%0, 2.0) return %1 }", [True]
    )
    assert found.saved_inputs == ()
    assert found.checked_inputs == found.checked_outputs == ()
    assert found.saved_outputs == (1,)
    assert kept(found) == ["exp"]


def test_a_copy_is_kept_where_nothing_else_can_be():
    """The gradient reads x in float16, which eager execution keeps; x itself stays free to change."""
    found = parts(
        """graph f(x: f32[8]) {
            %0: f32[8] = add(x, 1.0)
            %1: f32[8] = mul(%0, 2.0)
            %2: f32[8] = square(%1)
            return %2, %1
        }""",
        [True],
    )
    assert found.checked_outputs == (1,)
    assert found.saved_inputs == ()


def test_computed_only_to_be_kept():
    """The slope of relu is one byte per element; keeping it beats keeping the activation."""
    found = parts(
        """graph f(x: f32[64], y: f32[64], z: f32[64]) {
            %0: f32[64] = cat(x, dim=0)
            %1: f32[64] = cat(y, dim=0)
            %2: f32[64] = add(%0, %1)
            %3: f32[64] = relu(%2)
            %4: f32[64] = add(%3, z)
            return %4
        }""",
        [True, False, False],
    )
    assert found.saved_bytes == 64
    assert found.forward.outputs[-1].dtype is tj.bool


def test_unused_inputs_and_no_gradients():
    found = parts("graph f(x: f32[8], y: i32[8]) { %0: f32[8] = exp(x) return %0 }", [False, False])
    assert found.wrt == ()
    assert found.backward.outputs == ()
    assert found.saved_bytes == 0


def reassembled(
    found: Partition, arrays: list[np.ndarray], grads: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Gradients by the two halves."""
    outputs = run(found.forward, arrays)
    saved = [arrays[i] for i in found.saved_inputs] + [outputs[i] for i in found.saved_outputs]
    return run(found.backward, [*saved, *grads])


@pytest.mark.parametrize("simplified", [False, True])
@given(seed=st.integers(0, 10**6))
@example(seed=39149)  # a number written over a whole tensor
def test_halves_compute_the_gradient(simplified: bool, seed: int):
    graph, arrays = random_graph(seed, size=12, dtypes=(tj.float32, tj.float64, tj.int32, tj.bool))
    gradient = differentiate(graph, [v.dtype.is_floating_point for v in graph.inputs])
    rng = np.random.default_rng(seed)
    grads = [random_array(rng, graph.outputs[i].spec) for i in gradient.seeds]
    expected = run(gradient.graph, [*arrays, *grads])
    # What a convolution with few channels becomes adds up a weight's gradient in another order.
    convolves = any(v.op is not None and v.op.name.startswith("convolution") for v in graph.values)
    if simplified:
        joint = run_passes(gradient.graph, check=verify)
        gradient = Gradient(
            joint, gradient.wrt, gradient.seeds, gradient.saved_inputs, gradient.saved_outputs
        )
        graph = run_passes(graph, check=verify)
    found = partition(graph, gradient)
    verify(found.forward)
    verify(found.backward)
    for result, value in zip(reassembled(found, arrays, grads), expected, strict=True):
        if simplified and convolves and value.dtype.kind == "f":
            close = 1e-12 if value.dtype == np.float64 else 1e-4
            np.testing.assert_allclose(result, value, rtol=close, atol=close)
        else:
            assert_same_bits(result, value)
    for result, value in zip(run(found.forward, arrays), run(graph, arrays), strict=False):
        assert_same_bits(result, value)
    assert_rules(found)


def assert_rules(found: Partition) -> None:
    """What is kept is read, by reference only where allowed, and is no view."""
    used = {x for v in found.backward.values for x in v.value_operands} | set(
        found.backward.outputs
    )
    count = len(found.saved_inputs) + len(found.saved_outputs)
    assert all(v in used for v in found.backward.inputs[:count])
    assert set(found.saved_inputs) <= set(found.checked_inputs)
    outputs = {i for i in found.saved_outputs if i < found.n_outputs}
    assert outputs <= set(found.checked_outputs)
    added = found.forward.outputs[found.n_outputs :]
    assert all(v.op is not None and not getattr(v.op, "is_view", False) for v in added)


def test_is_deterministic():
    graph, _ = random_graph(7, size=40, dtypes=(tj.float32,))
    texts = {
        (str(p.forward), str(p.backward))
        for p in (
            partition(graph, differentiate(graph, [True] * len(graph.inputs))) for _ in range(3)
        )
    }
    assert len(texts) == 1


def recurrent(steps: int) -> Graph:
    """h = tanh(x_t @ w + h @ u), repeated."""
    b = Builder("recurrent")
    h, w, u = (b.input(n, TensorType((4, 4), tj.float32)) for n in "hwu")

    def op(name: str, *operands: Value) -> Value:
        return b.emit(lookup(name), operands, {})

    for step in range(steps):
        x = b.input(f"x{step}", TensorType((4, 4), tj.float32))
        h = op("tanh", op("add", op("matmul", x, w), op("matmul", h, u)))
    return b.finish([h])


def test_long_graphs_keep_one_value_per_step():
    graph = recurrent(500)
    gradient = differentiate(graph, [v.name in "hwu" for v in graph.inputs])
    found = partition(graph, gradient)
    assert len(found.saved_outputs) == 500
    assert "tanh" not in ops(found.backward)


Edges = list[tuple[int, int, int]]


def cut_price(edges: Edges, sink_side: Sequence[bool]) -> int:
    return sum(c for a, b, c in edges if not sink_side[a] and sink_side[b])


@pytest.mark.parametrize("seed", range(100))
def test_minimum_cut_matches_enumeration(seed: int):
    rng = np.random.default_rng(seed)
    inner = range(5)
    edges = [
        (a, b, int(rng.integers(1, 9)))
        for a in range(7)
        for b in range(7)
        if a != b and rng.random() < 0.4
    ]
    network = Network(7)
    for edge in edges:
        network.connect(*edge)
    side = network.sink_side(0, 6)
    every = [[False, *(bool(m >> i & 1) for i in inner), True] for m in range(1 << len(inner))]
    best = min(cut_price(edges, s) for s in every)
    assert (side[0], side[-1]) == (False, True)
    assert cut_price(edges, side) == best
    assert sum(side) == min(sum(s) for s in every if cut_price(edges, s) == best)
