"""Pieces put side by side: sums of scattered slices, and products of joined matrices."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from ir_graphs import assert_same_bits
from loop_graphs import EXAMPLES, looped, random_inputs
from tracejit.ir import parse, run, verify
from tracejit.ir.loops import body_of, is_loop
from tracejit.ops.contraction import matmul
from tracejit.ops.movement import cat
from tracejit.ops.table import Elementwise
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.gradient.partition import partition
from tracejit.passes.loops.loops import prepare
from tracejit.passes.loops.optimize import restructure_loops
from tracejit.passes.pipeline import run_passes
from tracejit.passes.products.split_products import split_products
from tracejit.passes.rewrite import is_view
from tracejit.passes.simplify.dead_code import dead_code
from tracejit.passes.simplify.simplify import simplify

PIECES = """graph f(a: f32[2, 3], b: f32[2, 1], c: f32[2, 2]) {
    %0: f32[2, 6] = full(shape=(2, 6), value=0, dtype=f32)
    %1: f32[2, 6] = slice_scatter(%0, c, starts=(0, 4), counts=(2, 2), steps=(1, 1))
    %2: f32[2, 6] = slice_scatter(%0, a, starts=(0, 0), counts=(2, 3), steps=(1, 1))
    %3: f32[2, 6] = add(%1, %2)
    %4: f32[2, 6] = slice_scatter(%0, b, starts=(0, 3), counts=(2, 1), steps=(1, 1))
    %5: f32[2, 6] = add(%3, %4)
    return %5
}"""


def test_pieces_are_joined():
    graph = parse(PIECES)
    found = dead_code(simplify(graph))
    assert [v.op.name for v in found.values] == ["add", "add", "add", "cat"]
    rng = np.random.default_rng(0)
    for _ in range(20):
        arrays = [
            rng.choice([0.0, -0.0, 1.5, np.nan, np.inf], v.spec.shape).astype(np.float32)
            for v in graph.inputs
        ]
        assert_same_bits(run(found, arrays)[0], run(graph, arrays)[0])


def test_pieces_are_joined_beside_another_term():
    text = PIECES.replace("c: f32[2, 2]", "c: f32[2, 2], d: f32[2, 6]").replace(
        "%3: f32[2, 6] = add(%1, %2)", "%3: f32[2, 6] = add(%1, d)"
    )
    graph = parse(
        text.replace(
            "add(%3, %4)\n    return %5",
            "add(%2, %3)\n    %6: f32[2, 6] = add(%5, %4)\n    return %6",
        )
    )
    found = dead_code(simplify(graph))
    assert [v.op.name for v in found.values] == ["add", "add", "add", "cat", "add"]
    rng = np.random.default_rng(0)
    for _ in range(20):
        arrays = [
            rng.choice([0.0, -0.0, 1.5, -1.5], v.spec.shape).astype(np.float32)
            for v in graph.inputs
        ]
        assert_same_bits(run(found, arrays)[0], run(graph, arrays)[0])


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("starts=(0, 3)", "starts=(0, 2)", 1),  # they overlap
        ("value=0,", "value=1,", 0),
        ("add(%3, %4)", "add(%3, %1)", 1),  # one is there twice, one is missing
        ("steps=(1, 1))\n    %5", "steps=(1, 2))\n    %5", 1),
    ],
)
def test_sums_of_pieces_that_do_not_fill_the_whole(old: str, new: str, count: int):
    """What can be joined is, with zeros in the gaps; the rest is added as before."""
    graph = parse(PIECES.replace(old, new))
    found = dead_code(simplify(graph))
    assert sum(v.op is cat for v in found.values) == count
    assert (found == graph) == (count == 0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        arrays = [
            rng.choice([0.0, -0.0, 1.5, -1.5], v.spec.shape).astype(np.float32)
            for v in graph.inputs
        ]
        assert_same_bits(run(found, arrays)[0], run(graph, arrays)[0])


def test_scattered_everywhere():
    graph = parse("""graph f(x: f32[3, 2], y: f32[3, 2]) {
        %0: f32[3, 2] = slice_scatter(x, y, starts=(2, 0), counts=(3, 2), steps=(-1, 1))
        %1: f32[3, 2] = exp(%0)
        %2: f32[3, 2] = slice_scatter(x, %1, starts=(0, 0), counts=(3, 2), steps=(1, 1))
        return %2
    }""")
    found = dead_code(simplify(graph))
    assert [v.op.name for v in found.values] == ["slice", "exp"]
    arrays = random_inputs(graph)
    assert_same_bits(run(found, arrays)[0], run(graph, arrays)[0])


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_products_of_joined_matrices(side: str):
    left = {"left": "%0", "right": "x", "both": "%0"}[side]
    right = {"left": "y", "right": "%1", "both": "%1"}[side]
    graph = parse(f"""graph f(a: f64[4, 2, 3], b: f64[4, 2, 2], c: f64[1, 6], d: f64[4, 6],
                                x: f64[3, 5], y: f64[5, 6]) {{
        %0: f64[4, 2, 5] = cat(a, b, dim=2)
        %1: f64[5, 6] = cat(c, d, dim=0)
        %2: f64[{"3" if left == "x" else "4, 2"}, 6] = matmul({left}, {right})
        return %2
    }}""")
    found = dead_code(verify(split_products(dead_code(graph))))
    assert sum(v.op.name == "cat" for v in found.values) == (side == "both")
    arrays = random_inputs(graph)
    np.testing.assert_allclose(run(found, arrays)[0], run(graph, arrays)[0], 1e-12)


def test_joined_matrices_that_something_else_reads_stay():
    graph = parse("""graph f(a: f64[2, 3], b: f64[2, 2], y: f64[5, 6]) {
        %0: f64[2, 5] = cat(a, b, dim=1)
        %1: f64[2, 6] = matmul(%0, y)
        return %1, %0
    }""")
    assert split_products(graph) is graph


@pytest.mark.parametrize("restructured", [False, True])
def test_gradients_of_pieces_are_joined_after_the_loop(restructured: bool):
    """In the rounds there are only products, views and elementwise ops."""
    graph = restructure_loops(EXAMPLES["lstm"]) if restructured else EXAMPLES["lstm"]
    wrt = [True] * len(graph.inputs)
    ready = prepare(graph, wrt).graph
    parts = partition(ready, differentiate(ready, wrt))
    found = run_passes(parts.backward, check=verify)
    (body,) = [body_of(v) for v in found.values if is_loop(v)]
    assert sum(v.op is matmul for v in body.values) == 4
    assert all(v.op is matmul or is_view(v) or isinstance(v.op, Elementwise) for v in body.values)
    assert sum(v.op is matmul for v in found.values) == 5
    assert sum(v.op is cat for v in found.values) == 1


def test_an_input_joined_to_what_is_carried_leaves_the_loop():
    """cat([x, h]) @ w: the product with x is computed for all rounds at once."""

    def write(c, f, i):
        return [(tj.cat([i[0], c[0]], 1) @ f[0]).tanh()], []

    graph = looped(["f64 2 4"], ["f64 7 4"], ["f64 2 3"], 5, write)
    found = run_passes(graph, check=verify)
    assert [v.op.name for v in found.values][:4] == ["slice", "reshape", "matmul", "reshape"]
    (body,) = [body_of(v) for v in found.values if is_loop(v)]
    assert [v.op.name for v in body.values] == ["slice", "matmul", "add", "tanh"]
    arrays = random_inputs(graph)
    np.testing.assert_allclose(run(found, arrays)[0], run(graph, arrays)[0], 1e-12)
