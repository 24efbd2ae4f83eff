"""Simplification, stated as a graph before and the graph after; exactness on random graphs, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import FLOATS, OTHERS, assert_same_bits, random_array, random_graph
from tracejit.ir import Graph, parse, run, verify
from tracejit.passes.simplify.dead_code import dead_code
from tracejit.passes.simplify.simplify import keeps_values, simplify
from tracejit.types import TensorType


def simplified(text: str) -> Graph:
    return verify(dead_code(verify(simplify(verify(parse(text))))))


def assert_becomes(before: str, after: str) -> None:
    expected = verify(parse(after))
    found = simplified(before)
    assert found == expected, f"\n{found}\nexpected\n{expected}"
    assert simplify(found) == found


def statement(
    line: str, inputs: str = "x: f32[2, 3], y: f32[2, 3], c: bool[2, 3], i: i32[2, 3]"
) -> str:
    return f"graph f({inputs}) {{ {line} }}"


def test_combines_to_a_fixed_point():
    assert_becomes(
        """graph f(x: f32[2, 3]) {
            %0: f32[3, 2] = permute(x, dims=(1, 0))
            %1: f32[3, 2] = mul(%0, 1.0)
            %2: f32[2, 3] = permute(%1, dims=(1, 0))
            %3: f32[2, 3] = neg(%2)
            %4: f32[2, 3] = add(x, %3)
            return %4
        }""",
        """graph f(x: f32[2, 3]) {
            %0: f32[2, 3] = sub(x, x)
            return %0
        }""",
    )


#: expression on t = exp(x), u = exp(y), c, i -> what is left of it
RULES = [
    ("mul(%0, 1.0)", "%0"),
    ("mul(1, %0)", "%0"),
    ("add(%0, -0.0)", "%0"),
    ("add(-0.0, %0)", "%0"),
    ("sub(%0, 0.0)", "%0"),
    ("pow(%0, 1)", "%0"),
    ("pow(%0, 2.0)", "mul(%0, %0)"),
    ("maximum(%0, %0)", "%0"),
    ("minimum(%0, %0)", "%0"),
    ("where(c, %0, %0)", "%0"),
    ("where(True, %0, %1)", "%0"),
    ("where(False, %0, %1)", "%1"),
    ("cast(%0, dtype=f32)", "%0"),
]
#: what looks like an identity and is none
KEPT = [
    "add(%0, 0.0)",
    "add(%0, 0)",
    "sub(%0, -0.0)",
    "sub(0.0, %0)",
    "mul(%0, 0.0)",
    "sub(%0, %0)",
    "div(%0, %0)",
    "div(%0, 3.0)",
    "div(%0, 1.0)",
    "div(%0, 4.0)",
    "div(%0, 0.0)",
    "div(%0, inf)",
    "div(%0, 1.7014118346046923e+38)",
    "div(1.0, %0)",
    "pow(%0, 3.0)",
    "pow(%0, 0.5)",
    "pow(2.0, %0)",
]
BOTH = "%0: f32[2, 3] = exp(x) %1: f32[2, 3] = exp(y)"


@pytest.mark.parametrize(("expression", "result"), RULES)
def test_identities_of_floats(expression: str, result: str):
    found = simplified(
        statement(f"{BOTH} %2: f32[2, 3] = {expression} %3: f32[2, 3] = sin(%2) return %3")
    )
    if result in ("%0", "%1"):
        kept = "x" if result == "%0" else "y"
        assert found == parse(
            statement(f"%0: f32[2, 3] = exp({kept}) %1: f32[2, 3] = sin(%0) return %1")
        )
    else:
        after = f"%0: f32[2, 3] = exp(x) %1: f32[2, 3] = {result} %2: f32[2, 3] = sin(%1) return %2"
        assert found == parse(statement(after))


@pytest.mark.parametrize("expression", KEPT)
def test_what_is_no_identity_stays(expression: str):
    before = parse(statement(f"%0: f32[2, 3] = exp(x) %1: f32[2, 3] = {expression} return %1"))
    assert simplify(before) == before


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("add(%0, 0)", None),
        ("add(0, %0)", None),
        ("sub(%0, 0)", None),
        ("mul(%0, 1)", None),
        ("sub(0, %0)", "sub(0, %0)"),
        ("mul(%0, 0)", "mul(%0, 0)"),
    ],
)
def test_identities_of_integers(expression: str, result: str | None):
    found = simplified(
        statement(
            f"%0: i32[2, 3] = abs(i) %1: i32[2, 3] = {expression} %2: i32[2, 3] = sign(%1) return %2"
        )
    )
    assert len(found.body) == (2 if result is None else 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "%0: f32[2, 3] = neg(x) %1: f32[2, 3] = neg(%0) %2: f32[2, 3] = exp(%1)",
            "%0: f32[2, 3] = exp(x)",
        ),
        ("%0: f32[2, 3] = abs(x) %1: f32[2, 3] = abs(%0)", "%0: f32[2, 3] = abs(x)"),
        ("%0: f32[2, 3] = relu(x) %1: f32[2, 3] = relu(%0)", "%0: f32[2, 3] = relu(x)"),
        ("%0: f32[2, 3] = neg(x) %1: f32[2, 3] = abs(%0)", "%0: f32[2, 3] = abs(x)"),
        ("%0: f32[2, 3] = neg(x) %1: f32[2, 3] = square(%0)", "%0: f32[2, 3] = square(x)"),
        ("%0: f32[2, 3] = neg(y) %1: f32[2, 3] = add(x, %0)", "%0: f32[2, 3] = sub(x, y)"),
        ("%0: f32[2, 3] = neg(y) %1: f32[2, 3] = add(%0, x)", "%0: f32[2, 3] = sub(x, y)"),
        ("%0: f32[2, 3] = neg(y) %1: f32[2, 3] = sub(x, %0)", "%0: f32[2, 3] = add(x, y)"),
        (
            "%0: f32[2, 3] = neg(x) %1: f32[2, 3] = neg(y) %2: f32[2, 3] = mul(%0, %1)",
            "%0: f32[2, 3] = mul(x, y)",
        ),
        ("%0: f32[2, 3] = neg(x) %1: f32[2, 3] = div(%0, 3.0)", "%0: f32[2, 3] = div(x, -3.0)"),
        ("%0: f32[2, 3] = mul(x, 3.0) %1: f32[2, 3] = neg(%0)", "%0: f32[2, 3] = mul(x, -3.0)"),
        ("%0: bool[2, 3] = eq(x, y) %1: bool[2, 3] = logical_not(%0)", "%0: bool[2, 3] = ne(x, y)"),
        (
            "%0: bool[2, 3] = logical_not(c) %1: bool[2, 3] = logical_not(%0) %2: f32[2, 3] = where(%1, x, y)",
            "%0: f32[2, 3] = where(c, x, y)",
        ),
        (
            "%0: bool[2, 3] = bitwise_not(c) %1: f32[2, 3] = where(%0, x, y)",
            "%0: f32[2, 3] = where(c, y, x)",
        ),
        (
            "%0: bool[2, 3] = bitwise_and(c, c) %1: f32[2, 3] = where(%0, x, y)",
            "%0: f32[2, 3] = where(c, x, y)",
        ),
        (
            "%0: f64[2, 3] = cast(x, dtype=f64) %1: f32[2, 3] = cast(%0, dtype=f32) %2: f32[2, 3] = exp(%1)",
            "%0: f32[2, 3] = exp(x)",
        ),
        (
            "%0: i64[2, 3] = cast(i, dtype=i64) %1: f64[2, 3] = cast(%0, dtype=f64)",
            "%0: f64[2, 3] = cast(i, dtype=f64)",
        ),
    ],
)
def test_compositions(before: str, after: str):
    assert_becomes(
        statement(f"{before} return %{before.count('=') - before.count('dtype=') - 1}"),
        statement(f"{after} return %0"),
    )


@pytest.mark.parametrize(
    "body",
    [
        "%0: bool[2, 3] = lt(x, y) %1: bool[2, 3] = logical_not(%0)",  # NaN
        "%0: f32[2, 3] = sub(x, y) %1: f32[2, 3] = neg(%0)",  # zeros
        "%0: f16[2, 3] = cast(x, dtype=f16) %1: f32[2, 3] = cast(%0, dtype=f32)",  # rounds
        "%0: f32[2, 3] = cast(i, dtype=f32) %1: f64[2, 3] = cast(%0, dtype=f64)",  # rounds
        "%0: f64[2, 3] = cast(x, dtype=f64) %1: i32[2, 3] = cast(%0, dtype=i32)",  # out of range
        "%0: i32[2, 3] = logical_not(i) %1: bool[2, 3] = logical_not(%0)".replace("i32", "bool", 1),
    ],
)
def test_compositions_that_are_not_exact_stay(body: str):
    before = parse(statement(f"{body} return %1"))
    assert simplify(before) == before


def test_zero_added_to_a_product_that_underflows_stays():
    compiled = tj.compile(lambda x: 1.0 / (x @ -x.T + 0.0), strict=True)
    for _ in range(2):
        assert compiled(tj.tensor([[1e-30]])).item() == float("inf")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "%0: f32[3, 2] = reshape(x, shape=(3, 2)) %1: f32[6] = reshape(%0, shape=(6,))",
            "%0: f32[6] = reshape(x, shape=(6,))",
        ),
        (
            "%0: f32[2, 1, 3] = unsqueeze(x, dims=(1,)) %1: f32[6] = reshape(%0, shape=(6,))",
            "%0: f32[6] = reshape(x, shape=(6,))",
        ),
        ("%0: f32[3, 2] = permute(x, dims=(1, 0)) %1: f32[2, 3] = permute(%0, dims=(1, 0))", None),
        ("%0: f32[2, 3] = permute(x, dims=(0, 1))", None),
        ("%0: f32[2, 3] = reshape(x, shape=(2, 3))", None),
        ("%0: f32[2, 3] = slice(x, starts=(0, 0), counts=(2, 3), steps=(1, 1))", None),
        ("%0: f32[2, 1, 3] = unsqueeze(x, dims=(1,)) %1: f32[2, 3] = squeeze(%0, dims=(1,))", None),
        (
            "%0: f32[1, 2, 3] = expand(x, shape=(1, 2, 3)) %1: f32[4, 2, 3] = expand(%0, shape=(4, 2, 3))",
            "%0: f32[4, 2, 3] = expand(x, shape=(4, 2, 3))",
        ),
        (
            "%0: f32[1, 2] = slice(x, starts=(1, 0), counts=(1, 2), steps=(1, 2))"
            " %1: f32[1, 1] = slice(%0, starts=(0, 1), counts=(1, 1), steps=(1, 1))",
            "%0: f32[1, 1] = slice(x, starts=(1, 2), counts=(1, 1), steps=(1, 2))",
        ),
    ],
)
def test_views(before: str, after: str | None):
    last = before.count("%") // 2 if "%1:" in before else 0
    expected = "return x" if after is None else f"{after} return %0"
    assert_becomes(statement(f"{before} return %{min(last, 1)}"), statement(expected))


def test_work_moves_before_broadcasting():
    assert_becomes(
        """graph f(x: f32[3, 1]) {
            %0: f32[3, 4] = expand(x, shape=(3, 4))
            %1: f32[3, 4] = mul(%0, 2.0)
            %2: f32[3, 4] = exp(%1)
            %3: f32[3] = sum(%2, dims=(1,), keepdim=False)
            return %3
        }""",
        """graph f(x: f32[3, 1]) {
            %0: f32[3, 1] = mul(x, 2.0)
            %1: f32[3, 1] = exp(%0)
            %2: f32[3, 4] = expand(%1, shape=(3, 4))
            %3: f32[3] = sum(%2, dims=(1,), keepdim=False)
            return %3
        }""",
    )


def test_sums_over_no_dimension():
    assert_becomes(
        """graph f(x: f32[3, 1]) {
            %0: f32[3, 1] = sum(x, dims=(), keepdim=False)
            %1: f32[3, 1] = exp(%0)
            %2: f32[3, 1] = amax(x, dims=(), keepdim=True)
            %3: f32[3, 1] = exp(%2)
            return %1, %3
        }""",
        """graph f(x: f32[3, 1]) {
            %0: f32[3, 1] = add(x, 0.0)
            %1: f32[3, 1] = exp(%0)
            %2: f32[3, 1] = exp(x)
            return %1, %2
        }""",
    )


def test_extents_of_one_are_reduced_like_any_other():
    text = """graph f(x: f32[3, 1]) {
        %0: f32[3] = sum(x, dims=(1,), keepdim=False)
        return %0
    }"""
    assert_becomes(text, text)


def test_outputs_keep_memory_of_their_own():
    assert_becomes(
        """graph f(x: f32[2], y: f32[2, 1]) {
            %0: f32[2] = mul(x, 1.0)
            %1: f32[2] = exp(x)
            %2: f32[2] = mul(%1, 1.0)
            %3: f32[2] = pow(%1, 1)
            %4: f32[2, 3] = expand(y, shape=(2, 3))
            %5: f32[2, 3] = neg(%4)
            return %0, %1, %2, %3, %5
        }""",
        """graph f(x: f32[2], y: f32[2, 1]) {
            %0: f32[2] = exp(x)
            %1: f32[2, 1] = neg(y)
            %2: f32[2, 3] = expand(%1, shape=(2, 3))
            %3: f32[2] = clone(x)
            %4: f32[2] = clone(%0)
            %5: f32[2] = clone(%4)
            %6: f32[2, 3] = clone(%2)
            return %3, %0, %4, %5, %6
        }""",
    )


def test_views_of_outputs_stay_views_of_them():
    assert_becomes(
        """graph f(x: f32[2]) {
            %0: f32[2] = mul(x, 1.0)
            %1: f32[2, 1] = unsqueeze(%0, dims=(1,))
            %2: f32[2, 1] = unsqueeze(x, dims=(1,))
            return %0, %1, %2
        }""",
        """graph f(x: f32[2]) {
            %0: f32[2, 1] = unsqueeze(x, dims=(1,))
            %1: f32[2] = clone(x)
            %2: f32[2, 1] = unsqueeze(%1, dims=(1,))
            return %1, %2, %0
        }""",
    )


def test_factors_of_complex_numbers_stay():
    for line in (
        "%0: c64[2] = mul(x, 1.0) return %0",
        "%0: c64[2] = mul(1.0, x) return %0",
        "%0: c64[2] = add(x, -0.0) return %0",
    ):
        assert_becomes(statement(line, "x: c64[2]"), statement(line, "x: c64[2]"))
    assert_becomes(
        statement("%0: c64[2] = prod(x, dims=(), keepdim=False) return %0", "x: c64[2]"),
        statement("%0: c64[2] = mul(x, 1.0) return %0", "x: c64[2]"),
    )


def test_guards_stay():
    assert_becomes(
        "graph f(x: f32[]) { %0: f32[] = mul(x, 1.0) %1: bool[] = gt(%0, 0) guard %1 is True return x }",
        "graph f(x: f32[]) { %0: bool[] = gt(x, 0) guard %0 is True return x }",
    )


@given(st.integers(0, 10**6))
def test_random_graphs_keep_every_bit(seed: int):
    graph, arrays = random_graph(seed, size=16)
    after = verify(simplify(graph))
    for found, expected in zip(run(after, arrays), run(graph, arrays), strict=True):
        assert_same_bits(found, expected)
    assert {g.expected for g in after.guards} == {g.expected for g in graph.guards}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("expression", [e for e, _ in RULES if "cast" not in e and "1)" not in e])
def test_identities_keep_every_bit(expression: str, dtype: tj.dtypes.DType):
    kind = f"{dtype.short}[4, 4]"
    text = f"%0: {kind} = neg(x) %1: {kind} = neg(y) %2: {kind} = {expression} return %2"
    graph = parse(statement(text, f"x: {kind}, y: {kind}, c: bool[4, 4]"))
    rng = np.random.default_rng(1)
    arrays = [random_array(rng, v.spec) for v in graph.inputs]
    assert_same_bits(run(simplify(graph), arrays)[0], run(graph, arrays)[0])


@pytest.mark.parametrize("target", FLOATS + OTHERS, ids=str)
@pytest.mark.parametrize("source", FLOATS + OTHERS, ids=str)
def test_casts_that_keep_values_do(source: tj.dtypes.DType, target: tj.dtypes.DType):
    rng = np.random.default_rng(0)
    x = random_array(rng, TensorType((50,), source))
    if not source.is_floating_point and source is not tj.bool:
        info = np.iinfo(source.np)
        x = np.concatenate([x, np.array([info.min, info.max], source.np)])
    with np.errstate(all="ignore"):
        there_and_back = x.astype(target.np).astype(source.np)
        wide = x.astype(target.np).astype(np.float64)
    if keeps_values(source, target):
        assert_same_bits(there_and_back, x)
        assert np.array_equal(wide, x.astype(np.float64), equal_nan=True)
    else:
        assert source is not target
