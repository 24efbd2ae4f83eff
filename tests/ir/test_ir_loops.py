"""Loops in graphs: their text, reading it back, what the verifier refuses, and running them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tracejit as tj
from loop_graphs import EXAMPLES, random_inputs
from tracejit.ir import Graph, GraphError, GraphSyntaxError, Value, parse, run, run_tensors, verify
from tracejit.ir.loops import body_of, is_loop, loop_value, part_value
from tracejit.ops.table import lookup
from tracejit.tensor import Tensor

RNN = """\
graph f(h: f32[4, 8], w: f32[8, 8], xs: f32[5, 4, 8]) {
    %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(h, w, xs, count=5, carried=1, items=1)   # rnn.py:7
        graph 'one round'(h: f32[4, 8], w: f32[8, 8], x: f32[4, 8]) {
            %0: f32[4, 8] = matmul(h, w)   # rnn.py:8
            %1: f32[4, 8] = add(%0, x)     # rnn.py:9
            return %1, %0
        }
    %1: f32[4, 8] = part(%0, index=0)
    %2: f32[5, 4, 8] = part(%0, index=1)
    return %1, %2
}"""


def test_prints_as_read():
    graph = parse(RNN)
    assert str(verify(graph)) == RNN
    assert [v.line for v in body_of(next(iter(graph.values))).values] == [
        ("rnn.py", 8),
        ("rnn.py", 9),
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_text_reads_back(name: str):
    graph = EXAMPLES[name]
    again = verify(parse(str(graph)))
    assert again == graph
    assert hash(again) == hash(graph)
    for a, b in zip(
        run(graph, random_inputs(graph)), run(again, random_inputs(graph)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_bodies_are_part_of_equality():
    assert parse(RNN) != parse(RNN.replace("add(%0, x) ", "sub(%0, x) "))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("carried=1", "carried=2", "f32[8, 8] is carried on as f32[4, 8]"),
        ("carried=1", "carried=4", "4 carried values and 1 items do not fit"),
        ("return %1, %0", "return x", "the text says"),
        ("count=5", "count=6", "a stack of 5 items for 6 rounds"),
        ("matmul(h, w)   #", "matmul(h, v)   #", "v is not defined here"),
        ("        graph 'one round'", "        %7: f32[1]", "expected 'graph'"),
        ("index=1", "index=2", "part refuses this"),
        (", xs, count", ", xs, body=5, count", "loop has no attribute 'body'"),
    ],
)
def test_errors_name_the_place(old: str, new: str, message: str):
    assert old in RNN
    with pytest.raises(GraphSyntaxError, match=re.escape(message)):
        parse(RNN.replace(old, new, 1))


def test_the_inside_does_not_see_the_outside():
    with pytest.raises(GraphSyntaxError, match="xs is not defined here"):
        parse(RNN.replace("add(%0, x) ", "add(%0, xs)"))


def altered(graph: Graph, body: Graph) -> Graph:
    """``graph`` with another body in its one loop."""
    (old,) = [v for v in graph.values if is_loop(v)]
    loop = loop_value(
        old.value_operands[:1], old.value_operands[1:2], old.value_operands[2:], body, 5
    )
    return Graph("f", graph.inputs, (loop,), (part_value(loop, 0),))


def test_verifier_looks_into_bodies():
    graph = parse(RNN)
    inner = body_of(next(iter(graph.values)))
    with pytest.raises(GraphError, match=r"in its body: .* is used before it is defined"):
        verify(altered(graph, Graph("round", inner.inputs, inner.body[1:], inner.outputs)))
    guarded = parse("graph g(x: bool[]) { guard x is True return x }")
    kind = Graph("round", guarded.inputs, guarded.body, guarded.outputs)
    start = Value(kind.inputs[0].spec, name="x")
    loop = loop_value([start], [], [], kind, 3)
    with pytest.raises(GraphError, match="a body cannot have guards"):
        verify(Graph("f", (start,), (loop, part_value(loop, 0)), ()))


def test_a_loop_is_read_by_its_parts_only():
    graph = parse(RNN)
    loop = next(iter(graph.values))
    with pytest.raises(GraphError, match="its parts are"):
        verify(Graph("f", graph.inputs, (loop,), (loop,)))
    odd = Value(graph.inputs[0].spec, lookup("exp"), (loop,), {})
    with pytest.raises(GraphError, match="read by its parts only"):
        verify(Graph("f", graph.inputs, (loop, odd), ()))


def test_no_rounds():
    text = RNN.replace("count=5", "count=0").replace("[5,", "[0,")
    graph = verify(parse(text))
    h, w, xs = (np.ones(v.spec.shape, np.float32) for v in graph.inputs)
    last, rows = run(graph, [h, w, xs])
    assert last is h
    assert (rows.shape, rows.dtype) == ((0, 4, 8), np.float32)
    last, rows = run_tensors(graph, [Tensor._wrap(a) for a in (h, w, xs)])
    assert (tuple(rows.shape), rows.dtype) == ((0, 4, 8), tj.float32)


def test_items_that_are_numbers_keep_their_dtype():
    graph = EXAMPLES["numbers"]
    arrays = random_inputs(graph)
    _, _, sums = run(graph, arrays)
    x, k = arrays[1], arrays[0]
    expected = []
    for t in range(4):
        expected.append(x.sum() * arrays[3][t])
        x, k = x * arrays[2] + arrays[3][t] * k, k + 1
    np.testing.assert_array_equal(sums, np.array(expected))
