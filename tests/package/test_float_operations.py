"""Operations on floats: elementary functions count as what they are computed by."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import tracejit as tj
from tracejit.ir import parse
from tracejit.profiling.operations import float_operations, operations_of

#: An expression of x and y, f32 of eight elements, the type of its result, and its operations for each.
STATEMENTS = [
    ("add(x, y)", "f32", 1),
    ("div(x, 3.0)", "f32", 1),
    ("sqrt(x)", "f32", 1),
    ("gt(x, y)", "bool", 1),
    ("maximum(x, y)", "f32", 2),
    ("neg(x)", "f32", 1),
    ("exp(x)", "f32", 22),
    ("log(x)", "f32", 31),
    ("erf(x)", "f32", 34),
]


@pytest.mark.parametrize(("text", "kind", "each"), STATEMENTS)
def test_operations_of_one_result(text: str, kind: str, each: int) -> None:
    graph = parse(f"graph f(x: f32[8], y: f32[8]) {{ %0: {kind}[8] = {text} return %0 }}")
    assert operations_of(next(iter(graph.values))) == 8 * each


@pytest.mark.parametrize("kind", ["bf16", "i64", "c64"])
def test_other_numbers_count_once(kind: str) -> None:
    graph = parse(f"graph f(x: {kind}[8]) {{ %0: {kind}[8] = add(x, x) return %0 }}")
    assert operations_of(next(iter(graph.values))) == 8


def test_reductions_count_what_they_read_and_copies_nothing() -> None:
    graph = parse(
        "graph f(x: f32[4, 8]) { %0: f32[4] = sum(x, dims=(1,), keepdim=False)"
        " %1: f32[8, 4] = permute(x, dims=(1, 0)) return %0, %1 }"
    )
    assert [operations_of(v) for v in graph.values] == [32, 0]


def test_functions_count_as_often_as_they_are_named() -> None:
    assert float_operations(["exp_f32", "erf_f32", "exp_f32"]) == 22 + 34 + 22
    assert float_operations([]) == 0


def test_benchmarks_count_what_their_kernels_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the cases, which know nothing of the package, and those of a profile agree to a tenth."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    known = set(sys.modules)
    try:
        pointwise = importlib.import_module("pointwise")
        assert float_operations(["exp_f32"]) == pointwise.EXP
        assert float_operations(["log_f32"]) == pointwise.LOG
        assert float_operations(["erf_f32"]) == pointwise.ERF
        f = tj.compile(pointwise.call_price)
        (kernel,) = f.profile(*map(tj.from_numpy, pointwise.market(1000))).kernels
        assert kernel.flops == pytest.approx(1000 * pointwise.PRICE, rel=0.1)
    finally:
        for name in set(sys.modules) - known:
            if name in ("pointwise", "cases"):
                del sys.modules[name]
