"""How much work is worth a second thread: fewer elements of dear operations than of cheap ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import config
from tracejit.codegen.grain import elements_per_chunk
from tracejit.ir import parse
from tracejit.runtime.plan.plan import make_plan


def grain_of(*statements: str, dtype: str = "f32") -> int:
    body = "".join(f"%{i}: {dtype}[8] = {text} " for i, text in enumerate(statements))
    graph = parse(f"graph f(x: {dtype}[8]) {{ {body} return %{len(statements) - 1} }}")
    return elements_per_chunk(graph.values)


def test_cheap_operations_take_as_many_as_memory_allows() -> None:
    assert grain_of("add(x, x)") == config.grain_elements
    assert grain_of("add(x, x)", "mul(%0, x)", "maximum(%1, x)") == config.grain_elements


def test_dear_operations_take_fewer() -> None:
    one, two, many = grain_of("exp(x)"), grain_of("exp(x)", "sin(%0)"), grain_of(*["exp(x)"] * 200)
    assert config.grain_elements > one > two > many == 1024
    assert grain_of("div(x, x)", "sqrt(%0)", "div(%1, x)") < config.grain_elements
    assert grain_of("exp(x)", dtype="f64") < one


@pytest.mark.parametrize(
    "text",
    [
        "graph f(x: f32[50000]) { %0: f32[50000] = exp(x) return %0 }",
        "graph f(x: f32[500, 100]) { %0: f32[500, 100] = exp(x) "
        "%1: f32[500] = sum(%0, dims=(1,), keepdim=False) return %1 }",
        "graph f(x: f32[50000]) { %0: f32[50000] = exp(x) "
        "%1: f32[] = sum(%0, dims=(0,), keepdim=False) return %1 }",
    ],
)
def test_kernels_are_divided_by_their_work(text: str) -> None:
    graph = parse(text)
    function = (
        make_plan(graph, [(1,) if "500, 100" not in text else (100, 1)])
        .kernels[0]
        .code.functions[0]
    )
    cheap = parse(text.replace("exp(x)", "neg(x)"))
    other = (
        make_plan(cheap, [(1,) if "500, 100" not in text else (100, 1)])
        .kernels[0]
        .code.functions[0]
    )
    assert function.extent == other.extent
    assert 0 < function.grain <= other.grain


@pytest.mark.parametrize("size", [1000, 3000, 20000])
def test_results_do_not_depend_on_it(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(x: Any) -> Any:
        return (x.exp() * x.sin()).sum(), x.tanh() / (1 + x * x)

    x = tj.randn(size)
    found = []
    for free in (1, 14, 1 << 40):
        monkeypatch.setattr("tracejit.codegen.grain._FREE", free)
        compiled: Callable[..., Any] = tj.compile(lambda x: run(x))
        for _ in range(3):
            results = compiled(x)
        found.append(results)
    for total, parts in found[1:]:
        assert tj.equal(total, found[0][0])
        assert tj.equal(parts, found[0][1])
