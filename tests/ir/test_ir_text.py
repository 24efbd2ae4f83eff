"""The text of graphs: spelling, reading back, errors that name the place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import random_graph
from tracejit.ir import Builder, Graph, GraphSyntaxError, Value, parse, print_graph, verify
from tracejit.ops.table import lookup
from tracejit.types import TensorType

MLP = """\
graph mlp(x: f32[32, 8], w1: f32[8, 16], b1: f32[16]) {
    %0: f32[32, 16] = matmul(x, w1)                  # mlp.py:5
    %1: f32[32, 16] = add(%0, b1)                    # mlp.py:5
    %2: f32[] = sum(x, dims=(0, 1), keepdim=False)   # mlp.py:6
    %3: bool[] = gt(%2, 0)                           # mlp.py:6
    guard %3 is True                                 # mlp.py:6
    %4: f32[32, 16] = relu(%1)
    return %4, x
}"""


def vector(name: str = "x", dtype: tj.dtypes.DType = tj.float32) -> tuple[Builder, Value]:
    b = Builder("f")
    return b, b.input(name, TensorType((2,), dtype))


def test_prints_as_read():
    assert str(parse(MLP)) == MLP


def test_equality_ignores_the_users_lines():
    plain = print_graph(parse(MLP), lines=False)
    assert "#" not in plain
    assert parse(plain) == parse(MLP)
    assert hash(parse(plain)) == hash(parse(MLP))


def test_lines_are_read():
    values = list(parse(MLP).values)
    assert values[0].line == ("mlp.py", 5)
    assert values[4].line is None


def test_guard_shows_the_source_of_its_line(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text("def f(x):\n    if x.sum() > 0:\n        return x\n")
    b, x = vector()
    value = b.emit(lookup("sum"), (x,), {"dims": (0,), "keepdim": False})
    positive = b.emit(lookup("gt"), (value, 0), {})
    b.guard(positive, True, (str(file), 2))
    text = str(b.finish([x]))
    assert "    guard %1 is True   # model.py:2  if x.sum() > 0:" in text.splitlines()
    assert parse(text) == b.finish([x])


@pytest.mark.parametrize("number", [1, -1, True, False, 1.0, -0.0, 0.0, 1e300, 1e-7, 2.5, 10**30])
def test_numbers_keep_type_and_bits(number: float):
    b, x = vector(dtype=tj.float64)
    graph = b.finish([b.emit(lookup("add"), (x, number), {})])
    (value,) = parse(str(graph)).values
    assert repr(value.operands[1]) == repr(number)
    assert parse(str(graph)) == graph


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_special_numbers(number: float):
    b, x = vector()
    graph = b.finish(
        [b.emit(lookup("where"), (b.emit(lookup("gt"), (x, number), {}), x, number), {})]
    )
    assert repr(list(parse(str(graph)).values)[1].operands[2]) == repr(number)


@pytest.mark.parametrize(
    "name", ["inf", "True", "return", "a b", "it's", "layers[0].weight", "1st"]
)
def test_unusual_input_names_are_quoted(name: str):
    b, x = vector(name)
    graph = b.finish([b.emit(lookup("exp"), (x,), {})])
    again = parse(str(graph))
    assert again == graph
    assert again.inputs[0].name == name


def test_dotted_names_stay_plain():
    b, x = vector("model.weight")
    assert "exp(model.weight)" in str(b.finish([b.emit(lookup("exp"), (x,), {})]))


def test_attributes_in_declared_order():
    b, x = vector()
    value = b.emit(lookup("sum"), (x,), {"keepdim": True, "dims": (0,)})
    assert "sum(x, dims=(0,), keepdim=True)" in str(b.finish([value]))


def test_dtypes_and_nested_tuples():
    text = """graph f(x: bf16[2]) {
    %0: f64[2] = cast(x, dtype=f64)
    %1: f64[4] = pad(%0, widths=((1, 1),), value=-0.0)
    return %1
}"""
    assert str(parse(text)) == text


def test_variadic_and_no_operands():
    text = """graph f(x: i64[2]) {
    %0: i64[3] = full(shape=(3,), value=-7, dtype=i64)
    %1: i64[7] = cat(x, %0, x, dim=0)
    return %1
}"""
    assert str(parse(text)) == text


def test_empty_graph():
    assert str(parse("graph f() { return }")) == "graph f() {\n    return\n}"


@given(st.integers(0, 10**6))
def test_random_graphs_read_back(seed: int):
    graph, _ = random_graph(seed)
    again = verify(parse(str(graph)))
    assert again == graph
    assert str(again) == str(graph)
    assert len(again.body) == len(graph.body)


HEAD = "graph f(x: f32[2]) {\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("grph f() {}", 1, 1, "expected 'graph'"),
        (HEAD + "  %0: f32[2] = tanhh(x)\n return %0 }", 2, 16, "unknown op 'tanhh'"),
        (HEAD + "  %0: f32[2] = add(x, y)\n return %0 }", 2, 23, "y is not defined here"),
        (HEAD + "  return %0 }", 2, 10, "%0 is not defined here"),
        (
            HEAD + "  %0: f32[3] = add(x, x)\n return %0 }",
            2,
            7,
            "gives f32[2] here, the text says f32[3]",
        ),
        (HEAD + "  %0: f32[2] = add(x)\n return %0 }", 2, 16, "takes 2 operands, found 1"),
        (HEAD + "  %0: f32[2] = exp(x, base=2)\n return %0 }", 2, 23, "no attribute 'base'"),
        (HEAD + "  %0: f32[2] = exp(x) $\n", 2, 23, "unexpected '$'"),
        (HEAD + "  %0: f31[2] = exp(x)\n", 2, 7, "expected a type"),
        (HEAD + "  %0: f32[x] = exp(x)\n", 2, 11, "expected an extent"),
        (HEAD + "  %0: f32[2] = exp(x)\n  %0: f32[2] = exp(x)\n", 3, 3, "%0 is defined twice"),
        ("graph f(x: f32[2], x: f32[2]) { return }", 1, 20, "x is defined twice"),
        (HEAD + "  guard x is maybe", 2, 14, "expected a number"),
        (HEAD + "  return x", 2, 11, "expected '}'"),
        (HEAD + "  return x } graph", 2, 14, "expected the end of the text"),
        (HEAD + "  %0: f32[2] = cast(x, dtype=f32, dtype=f32)\n", 2, 35, "given twice"),
        (HEAD + "  %0: f32[2] = cast(dtype=f32, x)\n", 2, 32, "operands come before attributes"),
        (HEAD + "  %0: f32[2] = reshape(x, shape=(5,))\n", 2, 16, "invalid for input of size 2"),
        (HEAD + "  x = 3\n", 2, 3, "expected a statement"),
        ("", 1, 1, "expected 'graph'"),
    ],
)
def test_errors_name_line_and_column(text: str, line: int, column: int, message: str):
    with pytest.raises(GraphSyntaxError, match=re.escape(message)) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"line {line}, column {column}" in str(caught.value)


def test_large_graphs_print_and_parse_fast():
    b, x = vector()
    for _ in range(5000):
        x = b.emit(lookup("sin"), (x,), {}, ("model.py", 3))
    graph = b.finish([x])
    again: Graph = parse(str(graph))
    assert again == graph
