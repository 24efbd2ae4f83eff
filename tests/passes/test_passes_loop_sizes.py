"""What passes over loops write: settled after one run, the same for any number of rounds, right for all sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from loop_graphs import EXAMPLES, looped, lstm, random_inputs, rnn
from tracejit.extents import Extents
from tracejit.ir import Graph, run, verify
from tracejit.ir.loops import body_of, is_loop
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.gradient.partition import partition
from tracejit.passes.loops.hoist import hoist
from tracejit.passes.loops.loops import prepare
from tracejit.passes.loops.optimize import optimize_loops, restructure_loops
from tracejit.passes.loops.sink import sink
from tracejit.passes.loops.sums import sums
from tracejit.passes.pipeline import run_passes
from tracejit.passes.products import small_products
from tracejit.passes.simplify.dead_code import dead_code
from tracejit.sizes import Decided
from tracejit.types import TensorType

STEPS = (dead_code, sums, hoist, sink, optimize_loops, restructure_loops, run_passes)


def loops(graph: Graph) -> list[Graph]:
    return [body_of(v) for v in graph.values if is_loop(v)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_pass_settles(name: str, step):
    once = verify(step(EXAMPLES[name]))
    twice = verify(step(once))
    assert twice == once
    arrays = random_inputs(once)
    for a, b in zip(run(once, arrays), run(EXAMPLES[name], arrays), strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-12)


def sizes(rounds: int, write, carried, fixed, items) -> list[int]:
    graph = looped(carried, fixed, items, rounds, write)
    wrt = [True] * len(graph.inputs)
    ready = prepare(graph, wrt).graph
    gradient = differentiate(ready, wrt)
    parts = partition(ready, gradient)
    graphs = [ready, gradient.graph, parts.forward, parts.backward]
    graphs += [run_passes(parts.forward), run_passes(parts.backward)]
    return [len(g.body) + sum(len(b.body) for b in loops(g)) for g in graphs]


@pytest.mark.parametrize(
    ("write", "carried", "fixed", "items"),
    [
        (rnn, ["f64 2 4"], ["f64 3 4", "f64 4 4", "f64 4"], ["f64 2 3"]),
        (lstm, ["f64 2 3"] * 2, ["f64 3 12", "f64 2 12", "f64 12", "f64 3 2"], ["f64 2 2"]),
    ],
    ids=["rnn", "lstm"],
)
def test_nothing_grows_with_the_rounds(monkeypatch, write, carried, fixed, items):
    monkeypatch.setattr(small_products, "LEAST", 1 << 60)  # a thousand rounds have many, three few
    few, many = (sizes(rounds, write, carried, fixed, items) for rounds in (3, 1000))
    assert few == many


def test_all_sizes_at_once():
    """With symbols for rounds, rows and width, nothing is decided that would not hold for other sizes."""
    scope = Extents()
    rounds, rows, width, inner = map(scope.symbol, (5, 2, 3, 4))

    def kind(*shape):
        return TensorType(shape, tj.float64)

    with scope.deciding() as decisions:
        graph = looped(
            [kind(rows, width)],
            [kind(inner, width), kind(width, width), kind(width)],
            [kind(rows, inner)],
            rounds,
            rnn,
        )
        wrt = [True] * len(graph.inputs)
        ready = prepare(graph, wrt).graph
        parts = partition(ready, differentiate(ready, wrt))
        forward, backward = run_passes(parts.forward), run_passes(parts.backward)
    holds = Decided(scope, decisions)
    symbols = [x.symbols[0] for x in (rounds, rows, width, inner)]
    for other in ((5, 2, 3, 4), (2, 7, 5, 9), (100, 32, 64, 64)):
        assert holds(dict(zip(symbols, other, strict=True)))
    plain = looped(["f64 2 3"], ["f64 4 3", "f64 3 3", "f64 3"], ["f64 2 4"], 5, rnn)
    ready = prepare(plain, wrt).graph
    parts = partition(ready, differentiate(ready, wrt))
    assert (forward, backward) == (run_passes(parts.forward), run_passes(parts.backward))


def test_sums_of_outer_products_are_one_product():
    """A vector seen as a column takes no more memory than the vector."""
    graph = looped(
        ["f64 200", "f64 200 200"],
        ["f64 200 200"],
        ["f64 200"],
        5,
        lambda c, f, i: (
            [f[0] @ (c[0] * 0.5), c[1] + (c[0] * 0.5)[:, None] @ i[0][None]],
            [],
        ),
    )
    found = sums(graph)
    assert [v.op.name for v in found.values].count("matmul") == 1
    assert [v.op.name for v in loops(found)[0].values].count("matmul") == 1
    arrays = random_inputs(graph)
    for a, b in zip(run(found, arrays), run(graph, arrays), strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-12)
