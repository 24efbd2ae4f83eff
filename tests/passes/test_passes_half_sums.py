"""Sums of half precision at positions are computed in float32 and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import documented
from tracejit import ir
from tracejit.passes.products import half_sums as module
from tracejit.passes.products.half_sums import half_sums
from tracejit.runtime.plan.records import HostCall


def test_the_documented_example() -> None:
    found = half_sums(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


@pytest.mark.parametrize("change", [("f16", "f32"), ("accumulate=True", "accumulate=False")])
def test_what_rounds_alike_stays(change: tuple[str, str]) -> None:
    graph = ir.parse(str(documented(module, "Before")).replace(*change))
    assert half_sums(graph) is graph


def added(x: Any, i: Any, y: Any) -> Any:
    return (x * 1.5).index_add(0, i, y)


def gathered(x: Any, i: Any, y: Any) -> Any:
    return x.scatter_add(0, i[:, None].expand(y.shape), y) * 2


def put(x: Any, i: Any, y: Any) -> Any:
    return x.clone().index_put_((i,), y, accumulate=True)


def embedded(x: Any, i: Any, y: Any) -> Any:
    return (tj.nn.functional.embedding(i, x) * y).sum()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16], ids=str)
@pytest.mark.parametrize("function", [added, gathered, put, embedded])
@settings(deadline=None, max_examples=12)
@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 7),
    count=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_compiled_sums_are_those_of_eager_code(
    function: Any, dtype: Any, rows: int, columns: int, count: int, seed: int
) -> None:
    draws = np.random.default_rng(seed)
    index = tj.from_numpy(draws.integers(0, rows, count))
    first, second = (
        tj.from_numpy(draws.standard_normal((n, columns)).astype(np.float32)).to(dtype)
        for n in (rows, count)
    )
    compiled = tj.compile(function)
    for _ in range(2):
        results = []
        for run in (function, compiled):
            x, y = (t.clone().requires_grad_() for t in (first, second))
            out = run(x, index, y)
            out.float().sum().backward()
            results.append(
                [
                    t.detach().float().numpy().tobytes()
                    for t in (out, x.grad, y.grad)
                    if t is not None
                ]
            )
        assert results[0] == results[1]


def test_nothing_is_left_to_the_op_itself() -> None:
    compiled = tj.compile(added)
    x, y = tj.ones(5, 3, dtype=tj.float16), tj.ones(4, 3, dtype=tj.float16)
    for _ in range(2):
        compiled(x, tj.tensor([0, 4, 4, 0]), y)
    items = [i for e in compiled._all() for p in e.programs() for i in p.plan.items]
    assert items
    assert not any(isinstance(item, HostCall) for item in items)
