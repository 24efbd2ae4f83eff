"""The interpreter runs graphs on arrays and on tensors, and checks guards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import DECOMPOSITIONS, GraphMaker, assert_same_bits, random_graph
from tracejit.ir import GuardFailedError, parse, run, run_tensors
from tracejit.ops.table import all_ops
from tracejit.tensor import Tensor

OPS = [op for op in all_ops() if op.name not in DECOMPOSITIONS]

GUARDED = parse("""graph f(x: f32[2]) {
    %0: f32[] = sum(x, dims=(0,), keepdim=False)
    %1: bool[] = gt(%0, 0)
    guard %1 is True
    guard %0 is nan
    %2: f32[2] = neg(x)
    return %2
}""")


@given(st.integers(0, 10**6))
def test_same_as_running_the_ops_one_by_one(seed: int):
    maker = GraphMaker(seed, (tj.float32, tj.int32, tj.bool))
    for _ in range(200):
        maker.add(maker.pick(OPS))
        if len(maker.builder.body) == 8:
            break
    values = list(maker.known)
    for found, value in zip(run(maker.builder.finish(values), maker.arrays), values, strict=True):
        assert_same_bits(found, maker.known[value])


@given(st.integers(0, 10**6))
def test_tensors_give_what_arrays_give(seed: int):
    graph, arrays = random_graph(seed)
    tensors = [Tensor._wrap(a) for a in arrays]
    for found, expected in zip(run_tensors(graph, tensors), run(graph, arrays), strict=True):
        assert_same_bits(found.array, expected)


def test_tensors_are_differentiable():
    graph = parse("graph f(x: f32[]) { %0: f32[] = mul(x, x)  return %0 }")
    x = Tensor._wrap(np.asarray(3.0, np.float32))
    x.requires_grad_()
    run_tensors(graph, [x])[0].backward()
    assert x.grad.array == 6.0


def test_guards_are_checked_on_request():
    x = np.array([1.0, -3.0], np.float32)
    assert_same_bits(run(GUARDED, [x])[0], -x)
    with pytest.raises(GuardFailedError, match="guard expects True, found False") as caught:
        run(GUARDED, [x], check_guards=True)
    assert caught.value.guard is next(GUARDED.guards)
    with pytest.raises(GuardFailedError, match="guard expects nan, found 4"):
        run(GUARDED, [np.abs(x)], check_guards=True)
    with pytest.raises(GuardFailedError, match="guard expects True"):
        run_tensors(GUARDED, [Tensor._wrap(x)], check_guards=True)


def test_nan_satisfies_a_guard_on_nan():
    graph = parse("graph f(x: f32[]) { guard x is nan  return x }")
    assert np.isnan(run(graph, [np.asarray(np.nan, np.float32)], check_guards=True)[0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "takes 1 inputs, not 0"),
        ([np.zeros(3, np.float32)], "input x is f32"),
        ([np.zeros(2, np.float64)], "input x is f32"),
    ],
)
def test_inputs_must_fit(arrays: list[np.ndarray], message: str):
    with pytest.raises(ValueError, match=message):
        run(GUARDED, arrays)
    with pytest.raises(ValueError, match=message):
        run_tensors(GUARDED, [Tensor._wrap(a) for a in arrays])


def test_views_alias_their_operand():
    graph = parse("graph f(x: f32[2, 3]) { %0: f32[3, 2] = permute(x, dims=(1, 0)) return %0 }")
    x = np.zeros((2, 3), np.float32)
    assert np.shares_memory(run(graph, [x])[0], x)
