"""Differentiation of graphs: texts, agreement with the eager engine bit by bit, higher orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import assert_same_bits, random_array, random_graph
from tracejit.ir import Builder, Graph, parse, run, run_tensors, verify
from tracejit.ops.table import lookup
from tracejit.passes.gradient.gradient import Gradient, differentiate
from tracejit.tensor import Tensor
from tracejit.types import TensorType

F32 = (tj.float32, tj.float64, tj.int32, tj.bool)


def derivative(text: str, wrt: Sequence[bool]) -> Gradient:
    found = differentiate(verify(parse(text)), wrt)
    verify(found.graph)
    return found


def test_text_of_a_gradient():
    found = derivative(
        """graph mlp(x: f32[32, 8], w: f32[8, 16], b: f32[16]) {
            %0: f32[32, 16] = matmul(x, w)   # mlp.py:5
            %1: f32[32, 16] = add(%0, b)     # mlp.py:6
            %2: f32[32, 16] = exp(%1)        # mlp.py:7
            return %2
        }""",
        [False, True, True],
    )
    expected = """\
graph mlp_backward(x: f32[32, 8], w: f32[8, 16], b: f32[16], g0: f32[32, 16]) {
    %0: f32[32, 16] = matmul(x, w)                    # mlp.py:5
    %1: f32[32, 16] = add(%0, b)                      # mlp.py:6
    %2: f32[32, 16] = exp(%1)                         # mlp.py:7
    %3: f32[32, 16] = mul(g0, %2)                     # mlp.py:7
    %4: f32[16] = sum(%3, dims=(0,), keepdim=False)   # mlp.py:6
    %5: f32[8, 32] = permute(x, dims=(1, 0))          # mlp.py:5
    %6: f32[8, 16] = matmul(%5, %3)                   # mlp.py:5
    return %6, %4
}"""
    assert str(found.graph) == expected
    assert (found.wrt, found.seeds) == ((1, 2), (0,))
    assert (list(found.saved_inputs), list(found.saved_outputs)) == ([0], [0])


def test_guards_are_left_to_the_forward():
    found = derivative(
        "graph f(x: f32[]) { %0: bool[] = gt(x, 0) guard %0 is True %1: f32[] = exp(x) return %1 }",
        [True],
    )
    assert list(found.graph.guards) == []


def test_inputs_without_a_path_receive_nothing():
    found = derivative(
        """graph f(x: f32[2], y: f32[2], i: i32[2], z: f32[2]) {
            %0: f32[2] = detach_copy(y)
            %1: f32[2] = mul(x, %0)
            %2: f32[2] = mul(%1, i)
            %3: bool[2] = gt(z, 0)
            return %2, %3, z
        }""",
        [True, True, True, False],
    )
    assert found.wrt == (0,)
    assert found.seeds == (0,)


def test_an_input_that_is_an_output():
    found = derivative("graph f(x: f32[2]) { %0: f32[2] = exp(x) return x, %0 }", [True])
    assert found.seeds == (0, 1)
    assert [v.name for v in found.graph.inputs] == ["x", "g0", "g1"]
    assert str(found.graph).splitlines()[-3].strip() == "%2: f32[2] = add(g0, %1)"


def test_chosen_outputs_take_a_gradient():
    graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = sin(x) return %0, %1 }")
    found = differentiate(graph, [True], [False, True])
    assert found.seeds == (1,)
    assert [v.op.name for v in found.graph.values if v.op] == ["cos", "mul"]


def test_names_of_seeds_are_new():
    found = derivative("graph f(g0: f32[2]) { %0: f32[2] = exp(g0) return %0 }", [True])
    assert [v.name for v in found.graph.inputs] == ["g0", "gg0"]


def test_what_eager_execution_keeps():
    found = derivative(
        """graph f(x: f32[2, 3], y: f32[3, 2], z: f32[2, 3]) {
            %0: f32[2, 3] = permute(y, dims=(1, 0))
            %1: f32[2, 3] = mul(x, %0)
            %2: f32[2, 3] = add(%1, z)
            %3: f32[2, 3] = exp(%2)
            %4: f32[6] = reshape(%3, shape=(6,))
            return %4, %2
        }""",
        [True, False, False],
    )
    assert list(found.saved_inputs) == [1]  # through a view; x itself is not needed
    assert list(found.saved_outputs) == [0]


def eager_gradients(
    graph: Graph, arrays: list[np.ndarray], wrt: Sequence[bool], grads: dict[int, np.ndarray]
) -> list[np.ndarray | None]:
    """Gradients of the inputs by the eager engine."""
    tensors = [Tensor._wrap(a.copy()) for a in arrays]
    for tensor, want in zip(tensors, wrt, strict=True):
        if want:
            tensor.requires_grad_()
    outputs = run_tensors(graph, tensors)
    assert [i for i, o in enumerate(outputs) if o.requires_grad] == list(grads)
    if grads:
        tj.autograd.backward([outputs[i] for i in grads], [Tensor._wrap(g) for g in grads.values()])
    return [None if t.grad is None else t.grad.array for t in tensors]


@given(st.integers(0, 10**6))
def test_bits_of_the_eager_engine(seed: int):
    graph, arrays = random_graph(seed, size=10, dtypes=F32)
    wrt = [v.dtype.is_floating_point for v in graph.inputs]
    found = differentiate(graph, wrt)
    verify(found.graph)
    rng = np.random.default_rng(seed)
    grads = {i: random_array(rng, graph.outputs[i].spec) for i in found.seeds}
    expected = eager_gradients(graph, arrays, wrt, grads)
    results = run(found.graph, [*arrays, *grads.values()])
    assert [i for i, g in enumerate(expected) if g is not None] == list(found.wrt)
    for position, result in zip(found.wrt, results, strict=True):
        assert_same_bits(result, expected[position])


@given(st.integers(0, 10**6))
def test_second_derivatives_are_those_of_the_eager_engine(seed: int):
    graph, arrays = random_graph(seed, size=6, dtypes=(tj.float64,), special=False)
    first = differentiate(graph, [True] * len(graph.inputs)).graph
    floats = [v.dtype.is_floating_point for v in first.inputs]
    again = differentiate(first, floats)
    verify(again.graph)
    rng = np.random.default_rng(seed)
    arrays = [*arrays, *(random_array(rng, v.spec, False) for v in first.inputs[len(arrays) :])]
    grads = {i: random_array(rng, first.outputs[i].spec, False) for i in again.seeds}
    expected = eager_gradients(first, arrays, floats, grads)
    results = run(again.graph, [*arrays, *grads.values()])
    for position, result in zip(again.wrt, results, strict=True):
        assert_same_bits(result, expected[position])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_any_order(order: int):
    """The n-th derivative of exp(2x) is 2**n exp(2x)."""
    b = Builder("f")
    x = b.input("x", TensorType((), tj.float64))
    graph = b.finish([b.emit(lookup("exp"), (b.emit(lookup("mul"), (x, 2.0), {}),), {})])
    for _ in range(order):
        graph = differentiate(graph, [v.name == "x" for v in graph.inputs]).graph
        position = [v.name for v in graph.inputs].index("x")
        assert position == 0
    seeds = [np.ones(()) for _ in graph.inputs[1:]]
    (value,) = run(graph, [np.asarray(0.3), *seeds])[:1]
    np.testing.assert_allclose(value, 2.0**order * np.exp(0.6), rtol=1e-14)


def test_long_chains():
    b = Builder("f")
    x = b.input("x", TensorType((2,), tj.float32))
    y = x
    for _ in range(3000):
        y = b.emit(lookup("sin"), (y,), {})
    found = differentiate(b.finish([y]), [True])
    assert len(found.graph.body) == 3000 + 2 * 3000 - 1
