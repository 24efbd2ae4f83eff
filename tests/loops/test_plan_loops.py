"""Loops as native loops: the program of a loop against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import Builder, interpreter
from tracejit.ir.loops import loop_value, part_value
from tracejit.runtime.launcher import Loop
from tracejit.runtime.plan.plan import make_plan
from tracejit.runtime.program import Program
from tracejit.types import TensorType


def build(carried, fixed, items, rounds, write):
    """A graph with one loop; ``write(c, f, i)`` gives the next carried values and what is collected."""
    kind = {"f32": tj.float32, "f64": tj.float64, "i64": tj.int64}

    def typed(text):
        dtype, *shape = text.split()
        return TensorType(tuple(map(int, shape)), kind[dtype])

    inner = Builder("body")
    groups = [
        [inner.input(f"{name}{i}", typed(t)) for i, t in enumerate(types)]
        for name, types in (("c", carried), ("f", fixed), ("i", items))
    ]
    with inner.writing():
        after, collected = write(*groups)
    graph = inner.finish([*after, *collected])
    outer = Builder("f")
    starts = [outer.input(f"start{i}", typed(t)) for i, t in enumerate(carried)]
    same = [outer.input(f"fixed{i}", typed(t)) for i, t in enumerate(fixed)]
    kinds = map(typed, items)
    stacks = [
        outer.input(f"stack{i}", TensorType((rounds, *t.shape), t.dtype))
        for i, t in enumerate(kinds)
    ]
    value = outer.insert(loop_value(starts, same, stacks, graph, rounds))
    count = len(graph.outputs)
    return outer.finish([outer.insert(part_value(value, i)) for i in range(count)])


def check(graph, order=False):
    """The planned graph on random inputs gives what the interpreter gives."""
    rng = np.random.default_rng(0)
    arrays = []
    for value in graph.inputs:
        array = np.asarray(rng.standard_normal(value.spec.shape) * 0.5, value.spec.dtype.np)
        arrays.append(np.asfortranarray(array) if order else array)
    expected = interpreter.run(graph, arrays)
    tensors = [tj.from_numpy(a) for a in arrays]
    strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
    plan = make_plan(graph, strides)
    program = Program(plan)
    for _ in range(2):
        for block, value, want in zip(program.run(*tensors), graph.outputs, expected, strict=True):
            found = np.ndarray(value.spec.shape, value.spec.dtype.np, block.array)
            np.testing.assert_allclose(found, want, 1e-5, 1e-6)
    return plan


def rnn(c, f, i):
    h = ((i[0] @ f[0]) + (c[0] @ f[1])).tanh()
    return [h], [h * 2.0, h]


@pytest.mark.parametrize("rounds", [1, 2, 5, 40])
@pytest.mark.parametrize("order", [False, True])
def test_a_recurrence(rounds, order):
    graph = build(["f32 3 8"], ["f32 4 8", "f32 8 8"], ["f32 3 4"], rounds, rnn)
    plan = check(graph, order)
    assert sum(isinstance(item, Loop) for item in plan.items) == 1
    assert len(plan.kernels) <= 4


def test_the_program_does_not_grow_with_rounds():
    sizes = {
        len(make_plan(g, [v.spec.contiguous_strides() for v in g.inputs]).items)
        for g in (
            build(["f32 3 8"], ["f32 4 8", "f32 8 8"], ["f32 3 4"], n, rnn) for n in (2, 7, 500)
        )
    }
    assert len(sizes) == 1


def test_carried_values_change_places():
    check(build(["f64 5", "f64 5"], [], [], 7, lambda c, f, i: ([c[1], c[0] + c[1]], [c[0]])))


def test_a_carried_value_that_never_changes():
    check(
        build(
            ["f64 5", "f64"], [], ["f64 5"], 6, lambda c, f, i: ([c[0], c[1] + 1.0], [i[0] * c[1]])
        )
    )


def test_a_carried_value_is_passed_on_and_collected():
    check(build(["f64 5"] * 2, [], [], 7, lambda c, f, i: ([c[0] * 1.5, c[0]], [c[0]])))
    check(build(["f64 5"] * 2, [], [], 7, lambda c, f, i: ([c[1] * 1.5, c[0]], [c[0], c[1]])))
    check(build(["f64 5"] * 3, [], [], 7, lambda c, f, i: ([c[2], c[0], c[0]], [c[0], c[0]])))


def test_nothing_carried():
    check(build([], ["f64 4"], ["f64 3 4"], 6, lambda c, f, i: ([], [(i[0] - f[0]).exp().sum(1)])))


def test_no_items_and_a_reduction():
    def step(c, f, i):
        x, v = c
        force = x.sum(0, keepdim=True) * f[0] - x
        return [x + 0.1 * v, v + 0.1 * force], [(v * v).sum()]

    check(build(["f64 6 3", "f64 6 3"], ["f64 3"], [], 9, step))


def test_large_rounds_are_spread_over_threads():
    check(
        build(
            ["f32 300 700"],
            ["f32 700 700"],
            ["f32 300 700"],
            4,
            lambda c, f, i: ([(c[0] @ f[0] * 0.05 + i[0]).tanh()], []),
        )
    )


def test_an_error_in_a_round_ends_the_program():
    def step(c, f, i):
        shifted = i[0] - i[0].amax(1, keepdim=True)
        return [c[0] + shifted.gather(1, f[0]).sum()], []

    graph = build(["f64"], ["i64 3 1"], ["f64 3 4"], 3, step)
    plan = make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])
    tensors = [tj.tensor(0.0).double(), tj.tensor([[1], [9], [0]]), tj.ones(3, 3, 4).double()]
    with pytest.raises(Exception, match="returned 1"):
        Program(plan).run(*tensors)
