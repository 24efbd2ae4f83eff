"""Loops in the passes: their gradients are those of the rounds written out, before and after every pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, reject, settings
from hypothesis import strategies as st

import tracejit as tj
from loop_graphs import EXAMPLES, random_inputs, random_loop, random_network, unrolled
from tracejit.ir import Graph, interpreter, run, verify
from tracejit.passes.gradient.gradient import Gradient, differentiate
from tracejit.passes.gradient.partition import partition
from tracejit.passes.loops.hoist import hoist
from tracejit.passes.loops.loops import prepare
from tracejit.passes.loops.optimize import restructure_loops
from tracejit.passes.loops.sink import sink
from tracejit.passes.loops.sums import sums
from tracejit.passes.pipeline import run_passes
from tracejit.tensor import Tensor


def floats(graph: Graph) -> list[bool]:
    return [v.dtype.is_floating_point for v in graph.inputs]


def assert_close(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        finite = b[np.isfinite(b)] if b.dtype.kind == "f" else b
        scale = float(np.abs(finite).max(initial=0.0))
        np.testing.assert_allclose(a, b, 1e-8, 1e-10 * max(scale, 1.0))


def seeds_of(graph: Graph, gradient: Gradient, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    kinds = [graph.outputs[i].spec for i in gradient.seeds]
    return [np.asarray(rng.normal(size=k.shape)).astype(k.dtype.np) for k in kinds]


def gradients(
    graph: Graph,
    arrays: list[np.ndarray],
    wrt: Sequence[bool],
    outputs: Sequence[bool] | None = None,
) -> tuple[Gradient, list[np.ndarray]]:
    found = differentiate(graph, wrt, outputs)
    verify(found.graph)
    return found, run(found.graph, [*arrays, *seeds_of(graph, found)])


@pytest.mark.parametrize("name", EXAMPLES)
def test_values_are_those_of_the_rounds(name: str):
    graph = verify(EXAMPLES[name])
    arrays = random_inputs(graph)
    assert_close(run(graph, arrays), run(unrolled(graph), arrays))
    assert_close(run(run_passes(graph, check=verify), arrays), run(graph, arrays))


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_are_those_of_the_rounds(name: str):
    graph, plain = EXAMPLES[name], unrolled(EXAMPLES[name])
    arrays = random_inputs(graph)
    found, values = gradients(graph, arrays, floats(graph))
    expected, want = gradients(plain, arrays, floats(graph))
    assert (found.wrt, found.seeds) == (expected.wrt, expected.seeds)
    assert_close(values, want)


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_for_some_inputs_and_outputs(name: str):
    graph, plain = EXAMPLES[name], unrolled(EXAMPLES[name])
    arrays = random_inputs(graph)
    for number in range(len(graph.inputs)):
        wrt = [want and i == number for i, want in enumerate(floats(graph))]
        found, values = gradients(graph, arrays, wrt)
        expected, want = gradients(plain, arrays, wrt)
        assert (found.wrt, found.seeds) == (expected.wrt, expected.seeds)
        assert_close(values, want)
    for number in range(len(graph.outputs)):
        chosen = [i == number for i in range(len(graph.outputs))]
        found, values = gradients(graph, arrays, floats(graph), chosen)
        expected, want = gradients(plain, arrays, floats(graph), chosen)
        assert (found.wrt, found.seeds) == (expected.wrt, expected.seeds)
        assert_close(values, want)


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_after_leaving_the_loop(name: str):
    graph = verify(restructure_loops(EXAMPLES[name]))
    arrays = random_inputs(graph)
    found, values = gradients(graph, arrays, floats(graph))
    expected, want = gradients(unrolled(EXAMPLES[name]), arrays, floats(graph))
    assert (found.wrt, found.seeds) == (expected.wrt, expected.seeds)
    assert_close(values, want)
    assert found.saved_inputs == expected.saved_inputs
    assert set(found.saved_outputs) <= set(expected.saved_outputs)


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_eager_execution_keeps(name: str):
    graph, plain = EXAMPLES[name], unrolled(EXAMPLES[name])
    found = differentiate(graph, floats(graph))
    expected = differentiate(plain, floats(graph))
    assert found.saved_inputs == expected.saved_inputs
    assert set(found.saved_outputs) <= set(expected.saved_outputs)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"first_only"}))  # that one is detached
def test_finite_differences(name: str):
    graph = EXAMPLES[name]
    arrays = random_inputs(graph)
    found = differentiate(graph, floats(graph))
    seeds = seeds_of(graph, found)
    values = run(found.graph, [*arrays, *seeds])
    rng = np.random.default_rng(2)
    step = 1e-6
    for position, gradient in zip(found.wrt, values, strict=True):
        way = np.asarray(rng.normal(size=gradient.shape))

        def along(t: float, position: int = position, way: np.ndarray = way) -> float:
            moved = [a + t * way if i == position else a for i, a in enumerate(arrays)]
            outputs = run(graph, moved)
            pairs = zip(found.seeds, seeds, strict=True)
            return sum(float((outputs[i] * g).sum()) for i, g in pairs)

        slope = (along(step) - along(-step)) / (2 * step)
        np.testing.assert_allclose(float((gradient * way).sum()), slope, 1e-5, 1e-7)


@pytest.mark.parametrize("name", EXAMPLES)
def test_halves_compute_the_gradient(name: str):
    graph = EXAMPLES[name]
    arrays = random_inputs(graph)
    ready = prepare(graph, floats(graph)).graph
    verify(ready)
    assert prepare(ready, floats(graph)).graph is ready
    gradient = differentiate(ready, floats(graph))
    seeds = seeds_of(graph, gradient)
    want = run(gradient.graph, [*arrays, *seeds])
    parts = partition(ready, gradient)
    for check in (lambda g: verify(g), lambda g: run_passes(g, check=verify)):
        forward, backward = check(parts.forward), check(parts.backward)
        outputs = run(forward, arrays)
        assert_close(outputs[: parts.n_outputs], run(graph, arrays))
        saved = [arrays[i] for i in parts.saved_inputs] + [outputs[i] for i in parts.saved_outputs]
        assert_close(run(backward, [*saved, *seeds]), want)
    assert len([v for v in parts.backward.values if v.op.name == "loop"]) <= 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EXAMPLES)
def test_second_derivatives_are_those_of_the_rounds(name: str):
    graph, plain = EXAMPLES[name], unrolled(EXAMPLES[name])
    arrays = random_inputs(graph)
    found, expected = (differentiate(g, floats(g)) for g in (graph, plain))
    arrays += seeds_of(graph, found)
    wrt = floats(found.graph)
    again, values = gradients(found.graph, arrays, wrt)
    _, want = gradients(expected.graph, arrays, wrt)
    assert_close(values, want)
    optimized = run_passes(again.graph, check=verify)
    assert_close(run(optimized, [*arrays, *seeds_of(found.graph, again)]), want)


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_op_by_op_are_differentiable(name: str):
    graph = EXAMPLES[name]
    arrays = random_inputs(graph)
    found = differentiate(graph, floats(graph))
    arrays += seeds_of(graph, found)
    again = differentiate(found.graph, floats(found.graph))
    seeds = seeds_of(found.graph, again)
    want = run(again.graph, [*arrays, *seeds])
    tensors = [Tensor._wrap(a.copy()) for a in arrays]
    for tensor, is_float in zip(tensors, floats(found.graph), strict=True):
        if is_float:
            tensor.requires_grad_()
    outputs = interpreter.run_tensors(found.graph, tensors)
    tj.autograd.backward([outputs[i] for i in again.seeds], [Tensor._wrap(g) for g in seeds])
    assert_close([tensors[i].grad.array for i in again.wrt], want)


def moderate(arrays: Sequence[np.ndarray]) -> bool:
    """Nothing overflows, so that rounding is all that may differ."""
    wide = (a if a.dtype.kind == "c" else a.astype(np.float64) for a in arrays)
    largest = (float(np.abs(a).max(initial=0.0)) for a in wide)
    return all(x < 1e6 for x in largest)


def all_steps(graph: Graph) -> Graph:
    """All that a graph computes, round by round: large numbers that cancel leave what their order makes of them."""
    steps = unrolled(graph)
    return Graph(steps.name, steps.inputs, steps.body, tuple(steps.values))


# One random body in five has the dtypes and the moderate numbers that are asked for.
of_some_bodies = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@pytest.mark.thorough
@of_some_bodies
@given(st.integers(0, 10**6))
@example(283)  # a triangular solve of what is collected cannot be done for all rounds at once
def test_random_bodies(seed: int):
    graph, arrays = random_loop(seed)
    verify(graph)
    plain = unrolled(graph)
    try:
        want = run(plain, arrays)
    except (
        RuntimeError,
        IndexError,
        ValueError,
    ):  # an index, a pivot or a degree that a round made is out of range
        reject()
    assume(moderate(want))
    assert_close(run(graph, arrays), want)
    assert_close(run(run_passes(graph, check=verify), arrays), want)
    assume(not any(v.dtype.is_floating_point and v.dtype is not tj.float64 for v in plain.values))
    expected, want = gradients(plain, arrays, floats(graph))
    assume(moderate(want))
    chosen = [i in expected.seeds for i in range(len(graph.outputs))]
    found, values = gradients(graph, arrays, floats(graph), chosen)
    assert found.seeds == expected.seeds
    assert set(expected.wrt) <= set(found.wrt)
    seeds = seeds_of(graph, found)
    made = run(all_steps(found.graph), [*arrays, *seeds])
    assume(moderate([a[np.isfinite(a)] for a in made]))
    known = dict(zip(found.wrt, values, strict=True))
    assert_close([known[i] for i in expected.wrt], want)
    optimized = run_passes(found.graph, check=verify)
    assert_close(run(optimized, [*arrays, *seeds]), values)


@given(st.integers(0, 10**6))
def test_random_networks(seed: int):
    graph = random_network(seed)
    verify(graph)
    plain = unrolled(graph)
    arrays = random_inputs(graph)
    want = run(plain, arrays)
    assume(moderate(want))
    for step in (sums, hoist, sink, restructure_loops, run_passes):
        assert_close(run(verify(step(graph)), arrays), want)
    expected, want = gradients(plain, arrays, floats(graph))
    assume(moderate(want))
    chosen = [i in expected.seeds for i in range(len(graph.outputs))]
    ready = prepare(graph, floats(graph), chosen).graph
    assert prepare(ready, floats(graph), chosen).graph is ready
    found = differentiate(ready, floats(graph), chosen)
    seeds = seeds_of(graph, found)
    parts = partition(ready, found)
    forward, backward = (run_passes(g, check=verify) for g in (parts.forward, parts.backward))
    outputs = run(forward, arrays)
    saved = [arrays[i] for i in parts.saved_inputs] + [outputs[i] for i in parts.saved_outputs]
    known = dict(zip(parts.wrt, run(backward, [*saved, *seeds]), strict=True))
    assert_close([known[i] for i in expected.wrt], want)


@pytest.mark.thorough
@of_some_bodies
@given(st.integers(0, 10**6))
def test_halves_and_second_derivatives_of_random_bodies(seed: int):
    graph, arrays = random_loop(seed, 2)
    plain = unrolled(graph)
    assume(not any(v.dtype.is_floating_point and v.dtype is not tj.float64 for v in plain.values))
    try:
        assume(moderate(run(plain, arrays)))
    except (RuntimeError, IndexError, ValueError):
        reject()
    ready = prepare(graph, floats(graph)).graph
    assert prepare(ready, floats(graph)).graph is ready
    gradient = differentiate(ready, floats(graph))
    seeds = seeds_of(graph, gradient)
    want = run(gradient.graph, [*arrays, *seeds])
    assume(moderate(want))
    steps = all_steps(gradient.graph)
    assume(moderate(run(steps, [*arrays, *seeds])))
    assume(not any(v.dtype in (tj.float32, tj.bfloat16, tj.float16) for v in steps.values))
    parts = partition(ready, gradient)
    forward, backward = (run_passes(g, check=verify) for g in (parts.forward, parts.backward))
    outputs = run(forward, arrays)
    saved = [arrays[i] for i in parts.saved_inputs] + [outputs[i] for i in parts.saved_outputs]
    assert_close(run(backward, [*saved, *seeds]), want)
    again = differentiate(gradient.graph, floats(gradient.graph))
    flat = unrolled(gradient.graph)
    chosen = [i in again.seeds for i in range(len(flat.outputs))]
    expected = differentiate(flat, floats(gradient.graph), chosen)
    more = seeds_of(flat, expected)
    assume(again.seeds == expected.seeds)
    want = run(expected.graph, [*arrays, *seeds, *more])
    assume(moderate(want))
    found = dict(zip(again.wrt, run(again.graph, [*arrays, *seeds, *more]), strict=True))
    # What only the last round gives is differentiated in all rounds: zeros meet inf and nan in the others.
    assume(moderate([*found.values()]))
    assert_close([found[i] for i in expected.wrt], want)
