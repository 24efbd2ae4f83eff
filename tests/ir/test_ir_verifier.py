"""The verifier accepts what the builder makes and names each rule that a graph breaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import random_graph
from tracejit.ir import Graph, GraphError, Guard, Value, verify
from tracejit.ops.table import lookup
from tracejit.types import TensorType

F32 = TensorType((2,), tj.float32)
X = Value(F32, name="x")


def result(op: str, *operands: object, kind: TensorType = F32, **attributes: object) -> Value:
    return Value(kind, lookup(op), operands, attributes)  # type: ignore[arg-type]


def graph(
    *body: Value | Guard, outputs: tuple[Value, ...] = (), inputs: tuple[Value, ...] = (X,)
) -> Graph:
    return Graph("f", inputs, body, outputs)


@given(st.integers(0, 10**6))
def test_accepts_random_graphs(seed: int):
    made, _ = random_graph(seed)
    assert verify(made) is made


SUM = result("exp", X)
UNHASHABLE = result("reshape", X, shape=[2])

BROKEN: list[tuple[str, Callable[[], Graph]]] = [
    ("used before it is defined", lambda: graph(result("exp", result("exp", X)))),
    ("return: .* used before it is defined", lambda: graph(outputs=(SUM,))),
    ("defined twice", lambda: graph(SUM, SUM)),
    ("empty or used twice", lambda: graph(inputs=(X, Value(F32, name="x")))),
    ("empty or used twice", lambda: graph(inputs=(Value(F32),))),
    ("is the result of an op", lambda: graph(inputs=(SUM,))),
    ("needs an op", lambda: graph(Value(F32))),
    ("takes 2 operands, found 1", lambda: graph(result("add", X))),
    ("neither a value nor a number", lambda: graph(result("add", X, "2"))),
    ("has no attribute 'base'", lambda: graph(result("exp", X, base=2))),
    ("is not hashable", lambda: graph(UNHASHABLE)),
    ("needs the attribute 'shape'", lambda: graph(result("reshape", X))),
    (r"the op gives f32\[2\]", lambda: graph(result("exp", X, kind=TensorType((3,), tj.float32)))),
    (r"the op gives f32\[2\]", lambda: graph(result("exp", X, kind=TensorType((2,), tj.float64)))),
    (
        "refuses its operands",
        lambda: graph(result("add", X, Value(TensorType((3,), tj.float32), name="y")), inputs=(X,)),
    ),
    ("one element", lambda: graph(Guard(X, True))),
    ("a guard expects", lambda: graph(Guard(S, "yes"), inputs=(S,))),  # type: ignore[arg-type]
]
S = Value(TensorType((), tj.float32), name="s")


@pytest.mark.parametrize(("message", "make"), BROKEN)
def test_refuses(message: str, make: Callable[[], Graph]):
    if "refuses" in message:
        y = Value(TensorType((3,), tj.float32), name="y")
        made = graph(result("add", X, y), inputs=(X, y))
    else:
        made = make()
    with pytest.raises(GraphError, match=message):
        verify(made)


def test_error_shows_the_statement():
    with pytest.raises(GraphError, match=r"%0: f32\[2\] = add\(x, %undefined\)"):
        verify(graph(result("add", X, SUM)))
