"""Rolling recorded Python loops: the rolled list means the same and does not grow with the number of rounds."""

from __future__ import annotations

import inspect
import time

import pytest

import tracejit as tj
from rolling_programs import PROGRAMS, U4, W4, H, U, W, draw, lstm, random_order, rnn
from rolling_tools import assert_equal as assert_equal_graphs
from rolling_tools import check, random_function, random_operands, record, rolled_graph
from tracejit.ir.graph import Graph
from tracejit.ir.loops import body_of, is_loop
from tracejit.trace.rolling.rolling import natively_plannable, roll


@pytest.mark.sampled(4)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_rolled_means_the_same_at_any_length(program):
    sizes = set()
    for steps in (4, 5, 9, 24, 61):
        graph, found = check(program, draw(steps, 2, 3))
        if steps >= 24:
            assert found is not None
            assert found.loops == PROGRAMS[program]
            sizes.add(len(graph.body))
    assert len(sizes) == 1


@pytest.mark.parametrize("program", [rnn, lstm])
def test_a_thousand_steps(program):
    short, _ = rolled_graph(record(program, draw(30, 2, 3)))
    straight = record(program, draw(1000, 2, 3))
    graph, _ = rolled_graph(straight)
    assert len(graph.body) == len(short.body)
    assert_equal_graphs(straight, graph)


def test_rolling_is_fast():
    graph = record(lstm, draw(1000, 2, 3))
    statements = tuple(graph.values)
    times = []
    for _ in range(3):
        start = time.process_time()
        assert roll(graph.inputs, statements, graph.outputs) is not None
        times.append(time.process_time() - start)
    assert len(statements) > 18000
    assert min(times) < 0.3  # 2 us a statement, and a margin for slow machines


def test_body_of_a_recurrence():
    graph, _ = check(rnn, draw(8, 2, 3))
    (loop,) = [v for v in graph.values if is_loop(v)]
    assert [v.op.name for v in body_of(loop).values] == [
        "squeeze",
        "matmul",
        "matmul",
        "add",
        "tanh",
    ]
    assert (loop.attributes["count"], loop.attributes["carried"], loop.attributes["items"]) == (
        8,
        1,
        1,
    )
    assert {v.line for v in body_of(loop).values} == {(inspect.getsourcefile(rnn), line_of(rnn, 3))}
    assert [v.op.name for v in graph.values if not is_loop(v)].count("matmul") == 0


def line_of(function, offset):
    return inspect.getsourcelines(function)[1] + offset


# --- what is not rolled, or in part ----------------------------------------------------------------------------------


def test_a_list_of_results_is_cut_from_one_stack():
    def listed(x):
        h, outs = H, []
        for t in range(len(x)):
            h = (x[t] @ W + h @ U).tanh()
            outs.append(h)
        return outs

    for steps in (10, 30):
        graph, found = check(listed, draw(steps, 2, 3))
        assert found is not None
        assert len(graph.body) <= 2 * steps + 4


def few_rounds(x):
    h = H
    for t in range(3):
        h = (x[t] @ W4.T @ U4 + (h @ U).exp().sigmoid().sin()).tanh() * 0.5 + h
    return h


def numbers_that_change(x):
    for t in range(len(x)):
        x = (x * float(t)).sin()
    return x


def no_repetition(x):
    return ((x.sin() + 1).exp().sum(0) * x).tanh().mean()


def other_shapes(x):
    return tj.stack([(x[:t].exp() * 2).sum() for t in range(1, len(x))])


def not_in_a_loop(x):
    for _ in range(len(x)):
        x = x.cumsum(0).sin()
    return x


@pytest.mark.parametrize(
    "program", [few_rounds, numbers_that_change, no_repetition, other_shapes, not_in_a_loop]
)
def test_not_rolled(program):
    _, found = check(program, draw(20, 2, 3))
    assert found is None


def test_only_views_are_left_alone():
    graph = record(lambda x: [z.T for z in x.unbind(0)], draw(30, 2, 3))
    assert len(graph.body) == 90
    assert roll(graph.inputs, tuple(graph.values), tuple(graph.values)) is None


def test_the_caller_tells_what_a_body_may_hold():
    def program(x):
        h = H
        for t in range(len(x)):
            h = (tj.cat([x[t], h], 1) @ tj.cat([W, U])).tanh()
        return h

    assert check(program, draw(20, 2, 3))[1] is None
    graph, found = check(program, draw(20, 2, 3), plannable=lambda v: True)
    assert found is not None
    assert len(graph.body) < 10


def test_an_odd_round_divides_the_loop():
    def program(x):
        h = H
        for t in range(len(x)):
            h = (x[t] @ W + h @ U).tanh()
            if t == 20:
                h = h * 2
        return h

    _, found = check(program, draw(50, 2, 3))
    assert found is not None
    assert found.loops == 2


def test_a_first_round_of_its_own():
    def program(x):
        h, outs = None, []
        for t in range(len(x)):
            h = (x[t] @ W).tanh() if h is None else (x[t] @ W + h @ U).tanh()
            outs.append(h)
        return tj.stack(outs)

    graph, found = check(program, draw(50, 2, 3))
    assert found is not None
    assert len(graph.body) < 30


def test_inputs_in_a_list_are_put_together():
    def program(*xs):
        h = H
        for x in xs:
            h = ((x @ W).sin() + h @ U).tanh()
        return h

    graph, found = check(program, *[draw(2, 3) + i for i in range(20)])
    assert found is not None
    assert [v.op.name for v in graph.values].count("matmul") == 0


def test_items_in_random_order_are_put_together():
    graph, found = check(random_order, draw(20, 2, 3))
    assert found is not None
    assert [v.op.name for v in graph.values].count("tanh") == 0


def test_a_filled_tensor_that_is_read_meanwhile():
    def program(x):
        h, outs = H, tj.zeros(len(x) + 1, 2, 4)
        for t in range(len(x)):
            h = (x[t] @ W + (outs[t] + h) @ U).tanh()
            outs[t + 1] = h
        return outs

    check(program, draw(20, 2, 3))
    found = record(program, draw(20, 2, 3))
    assert "slice_scatter" in str(found)


def test_in_place_changes_of_the_state():
    def program(x):
        h = H.clone()
        for t in range(len(x)):
            h *= 0.5
            h += x[t] @ W
            h.tanh_()
        return h

    _, found = check(program, draw(20, 2, 3))
    assert found is not None


def test_numbers_keep_their_types():
    def program(x):
        n, s = 0, 1.5
        for t in range(len(x)):
            n = n + (x[t] > 0).sum()
            s = s * x[t]
        return n, s

    graph, found = check(program, draw(30, 2, 3))
    assert found is not None
    assert [v.spec.dtype for v in graph.outputs] == [tj.int64, tj.float32]


def test_signs_of_zeros():
    def program(x):
        total = -0.0
        for t in range(len(x)):
            total = total + x[t] * 0.0
            other = 0.0 + x[t] * -0.0
        return total, other

    check(program, -abs(draw(30, 2, 3)))
    graph = record(program, draw(30, 2, 3))
    assert rolled_graph(graph)[1] is not None


# --- the result ------------------------------------------------------------------------------------------------------


def test_what_does_not_change_is_the_same_object():
    def program(x):
        before = x.exp().sum()
        h = H
        for t in range(len(x)):
            h = (x[t] @ W + h @ U).tanh()
        return before * 2, h * before

    graph = record(program, draw(20, 2, 3))
    found = roll(graph.inputs, tuple(graph.values), graph.outputs)
    assert found is not None
    old = set(graph.values)
    assert sum(v in old for v in found.statements) == 3
    assert found.mapping[graph.outputs[0]] is graph.outputs[0]
    assert found.mapping[graph.outputs[1]] is not graph.outputs[1]
    assert {v.line for v in found.statements} <= {v.line for v in graph.values}


def test_values_from_elsewhere_need_not_be_inputs():
    graph = record(rnn, draw(20, 2, 3))
    statements = tuple(graph.values)
    outer = next(i for i, v in enumerate(statements) if v.op.name == "permute")
    kept = (*graph.outputs, statements[outer])
    rest = statements[:outer] + statements[outer + 1 :]
    found = roll((), rest, kept)
    assert found is not None
    assert found.mapping[statements[outer]] is statements[outer]
    outputs = tuple(found.mapping[v] for v in graph.outputs)
    body = (statements[outer], *found.statements)
    assert_equal_graphs(graph, Graph("f", graph.inputs, body, outputs))


def test_natively_plannable():
    graph = record(lambda x: ((x @ W).tanh()[0].sum(), x.cumsum(0), tj.cat([x, x])), draw(2, 2, 3))
    found = {v.op.name: natively_plannable(v) for v in graph.values}
    assert {name for name, fine in found.items() if not fine} == {"cumsum", "cat"}


# --- random programs -------------------------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize("part", range(6))
def test_random_programs(part):
    rolled = smaller = 0
    for seed in range(part * 30, part * 30 + 30):
        steps = (4, 5, 8, 13, 30)[seed % 5]
        try:
            straight = record(random_function(seed), *random_operands(steps))
        except IndexError:
            continue  # the program picks an element of a list that came out too short
        allowed = (lambda v: True) if seed % 3 == 0 else natively_plannable
        graph, found = rolled_graph(straight, allowed)
        assert_equal_graphs(straight, graph, 1e-10)
        rolled += found is not None
        smaller += len(graph.body) < len(straight.body) // 2
    assert rolled > 10
    assert smaller > 5
