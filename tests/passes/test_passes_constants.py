"""Folding, common subexpressions, dead code and copies: before and after, and counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir_graphs import assert_same_bits, random_graph
from tracejit.ir import Graph, parse, run, verify
from tracejit.passes.simplify.cse import cse
from tracejit.passes.simplify.dead_code import dead_code, live_values
from tracejit.passes.simplify.drop_copies import drop_copies
from tracejit.passes.simplify.fold import fold


def assert_becomes(step: Callable[[Graph], Graph], before: str, after: str) -> None:
    found = verify(dead_code(verify(step(verify(parse(before))))))
    assert found == verify(parse(after)), f"\n{found}"


FULL = "full(shape=(2, 3), value={}, dtype=f32)"


def test_constants_beside_tensors_become_numbers():
    assert_becomes(
        fold,
        """graph f(x: f32[4, 2]) {
            %0: f32[2] = full(shape=(2,), value=1.0, dtype=f32)
            %1: f32[2] = mul(%0, 3.0)
            %2: f32[4, 2] = mul(x, %1)
            return %2
        }""",
        "graph f(x: f32[4, 2]) { %0: f32[4, 2] = mul(x, 3.0) return %0 }",
    )


@pytest.mark.parametrize(
    "body",
    [
        "%0: f64[2] = full(shape=(2,), value=1.0, dtype=f64) %1: f64[2] = mul(x, %0)",  # widens x
        "%0: f32[4, 2] = full(shape=(4, 2), value=1.0, dtype=f32) %1: f32[4, 2] = mul(x, %0)",  # broadcasts x
        "%0: i32[2] = arange(start=0, step=1, count=2, dtype=i32) %1: f32[2] = mul(x, %0)",  # not uniform
    ],
)
def test_constants_that_decide_the_type_stay(body: str):
    graph = parse(f"graph f(x: f32[2]) {{ {body} return %1 }}")
    assert fold(graph) == graph


def test_numbers_do_not_become_complex_constants():
    body = "%0: f32[1] = full(shape=(1,), value=0.75, dtype=f32) %1: c64[1] = cast(%0, dtype=c64)"
    graph = parse(f"graph f() {{ {body} return %1 }}")
    assert fold(graph) == graph


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("exp(%0)", "f32[2, 3]", "1.0"),
        ("add(%0, %0)", "f32[2, 3]", "0.0"),
        ("neg(%0)", "f32[2, 3]", "-0.0"),
        ("div(%0, 0.0)", "f32[2, 3]", "nan"),
        ("div(1.0, %0)", "f32[2, 3]", "inf"),
        ("eq(%0, 0)", "bool[2, 3]", "True"),
        ("cast(%0, dtype=i64)", "i64[2, 3]", "0"),
        ("sum(%0, dims=(0, 1), keepdim=False)", "f32[]", "0.0"),
        ("amax(%0, dims=(1,), keepdim=True)", "f32[2, 1]", "0.0"),
        ("all_true(%0, dims=(1,), keepdim=False)", "bool[2]", "False"),
        ("add(1, 2.5)", "f32[]", "3.5"),
    ],
)
def test_folds_to_a_constant(expression: str, kind: str, value: str):
    dtype, shape = kind[:-1].split("[")
    extents = f"({shape},)" if shape and "," not in shape else f"({shape})"
    assert_becomes(
        fold,
        f"graph f() {{ %0: f32[2, 3] = {FULL.format('0.0')} %1: {kind} = {expression} return %1 }}",
        f"graph f() {{ %0: {kind} = full(shape={extents}, value={value}, dtype={dtype}) return %0 }}",
    )


def test_views_of_constants_are_constants():
    assert_becomes(
        fold,
        """graph f(x: f32[3, 2]) {
            %0: f32[2, 1] = full(shape=(2, 1), value=2.0, dtype=f32)
            %1: f32[2, 3] = expand(%0, shape=(2, 3))
            %2: f32[3, 2] = permute(%1, dims=(1, 0))
            %3: f32[3, 2] = mul(x, %2)
            return %3
        }""",
        "graph f(x: f32[3, 2]) { %0: f32[3, 2] = mul(x, 2.0) return %0 }",
    )


def test_a_returned_view_of_a_constant_stays_a_view():
    text = """graph f() {
        %0: f32[2, 1] = full(shape=(2, 1), value=2.0, dtype=f32)
        %1: f32[2, 3] = expand(%0, shape=(2, 3))
        return %0, %1
    }"""
    assert_becomes(fold, text, text)


@pytest.mark.parametrize(
    ("value", "folded"),
    [("1.0", True), ("-2.0", True), ("0.1", False), ("inf", False), ("nan", False), ("-0.0", True)],
)
def test_sums_fold_only_where_no_order_matters(value: str, folded: bool):
    text = f"%0: f32[2, 3] = {FULL.format(value)} %1: f32[2] = sum(%0, dims=(1,), keepdim=False) return %1"
    graph = parse(f"graph f() {{ {text} }}")
    assert (len(dead_code(fold(graph)).body) == 1) is folded
    assert_same_bits(run(fold(graph), [])[0], run(graph, [])[0])


def test_an_op_that_refuses_its_numbers_is_left_to_do_so():
    graph = parse(
        """graph f() {
            %0: i32[2] = full(shape=(2,), value=1, dtype=i32)
            %1: i32[2] = floor_divide(%0, 0)
            return %1
        }"""
    )
    assert fold(graph) == graph
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(graph, [])


def test_equal_statements_become_one():
    assert_becomes(
        cse,
        """graph f(x: f32[2]) {
            %0: f32[2] = exp(x)
            %1: f32[2] = exp(x)
            %2: f32[2] = add(%0, 1.0)
            %3: f32[2] = add(%1, 1.0)
            %4: f32[2] = add(%1, 1)
            %5: f32[2] = mul(%2, %3)
            %6: f32[2] = mul(%5, %4)
            return %6
        }""",
        """graph f(x: f32[2]) {
            %0: f32[2] = exp(x)
            %1: f32[2] = add(%0, 1.0)
            %2: f32[2] = add(%0, 1)
            %3: f32[2] = mul(%1, %1)
            %4: f32[2] = mul(%3, %2)
            return %4
        }""",
    )


def test_zeros_of_either_sign_and_nan_are_numbered_by_their_bits():
    text = "graph f(x: f32[2]) {{ %0: f32[2] = mul(x, {}) %1: f32[2] = mul(x, {}) %2: f32[2] = add(%0, %1) return %2 }}"
    counts = [
        len(cse(parse(text.format(*pair))).body)
        for pair in (("0.0", "-0.0"), ("nan", "nan"), ("1", "True"))
    ]
    assert counts == [3, 2, 3]


def test_merged_outputs_keep_memory_of_their_own():
    assert_becomes(
        cse,
        "graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = exp(x) return %0, %1, %0 }",
        "graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = clone(%0) return %0, %1, %0 }",
    )


def test_dead_statements_go():
    before = parse(
        """graph f(x: f32[2], unused: f32[2]) {
            %0: f32[2] = exp(x)
            %1: f32[2] = mul(%0, x)
            %2: f32[] = sum(x, dims=(0,), keepdim=False)
            %3: bool[] = gt(%2, 0)
            guard %3 is True
            %4: f32[2] = mul(x, 2.0)
            return %4
        }"""
    )
    after = verify(dead_code(before))
    assert [v.op.name for v in after.values if v.op] == ["sum", "gt", "mul"]
    assert len(after.inputs) == 2
    assert dead_code(after) is after
    assert len(live_values(before)) == 4


def test_copies_and_marks_go():
    assert_becomes(
        drop_copies,
        """graph f(x: f32[2]) {
            %0: f32[2] = clone(x)
            %1: f32[2] = detach_copy(%0)
            %2: f32[2] = exp(%1)
            %3: f32[2] = clone(x)
            return %2, %3
        }""",
        "graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = clone(x) return %0, %1 }",
    )


def test_copies_of_broadcasts_stay_where_they_are_returned():
    text = """graph f(x: f32[2, 1]) {
        %0: f32[2, 3] = expand(x, shape=(2, 3))
        %1: f32[2, 3] = clone(%0)
        return %1
    }"""
    assert_becomes(drop_copies, text, text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", [fold, cse, dead_code, drop_copies], ids=lambda f: f.__name__)
@given(seed=st.integers(0, 10**6))
def test_random_graphs_keep_every_bit(step: Callable[[Graph], Graph], seed: int):
    graph, arrays = random_graph(seed, size=16)
    after = verify(step(graph))
    for found, expected in zip(run(after, arrays), run(graph, arrays), strict=True):
        assert_same_bits(found, expected)
    assert len(dead_code(after).body) <= len(dead_code(graph).body) + len(graph.outputs)
