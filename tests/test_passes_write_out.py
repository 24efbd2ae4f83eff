"""Loops written out: independent rounds over what was only stacked for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import Graph, parse, run, verify
from tracejit.passes.dead_code import dead_code
from tracejit.passes.optimize_loops import optimize_loops
from tracejit.passes.rewrite_loops import rewrite_loops
from tracejit.passes.write_out import MOST_STATEMENTS, written_out

STACKED = """graph f(a: f32[3, 8], b: f32[3, 8], c: f32[3, 8], k: f32[]) {
    %0: f32[1, 3, 8] = unsqueeze(a, dims=(0,))
    %1: f32[1, 3, 8] = unsqueeze(b, dims=(0,))
    %2: f32[1, 3, 8] = unsqueeze(c, dims=(0,))
    %3: f32[3, 3, 8] = cat(%0, %1, %2, dim=0)
    %4: loop(f32[3, 3, 8], f32[3, 3, 8]) = loop(k, %3, count=3, carried=0, items=1)
        graph round(k: f32[], x: f32[3, 8]) {
            %0: f32[3, 8] = mul(x, k)
            %1: f32[3, 8] = exp(%0)
            return %1, %0
        }
    %5: f32[3, 3, 8] = part(%4, index=0)
    %6: f32[3, 3, 8] = part(%4, index=1)
    RESULT
}"""
APART = """%7: f32[1, 3, 8] = slice(%5, starts=(1, 0, 0), counts=(1, 3, 8), steps=(1, 1, 1))
    %8: f32[3, 8] = squeeze(%7, dims=(0,))
    %9: f32[1, 3, 8] = slice(%6, starts=(2, 0, 0), counts=(1, 3, 8), steps=(1, 1, 1))
    %10: f32[3, 8] = sin(%8)
    %11: f32[1, 3, 8] = sin(%9)
    return %10, %11"""


def arrays(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(v.type.shape).astype("f") for v in graph.inputs]


def names(graph: Graph) -> list[str]:
    return [v.op.name for v in graph.values if v.op is not None]


@pytest.mark.parametrize("result", [APART, "return %5, %6", "return %6"])
def test_the_same_numbers(result: str) -> None:
    graph = verify(parse(STACKED.replace("RESULT", result)))
    out = verify(rewrite_loops(dead_code(graph), written_out))
    assert "loop" not in names(out)
    given = arrays(graph)
    for have, want in zip(run(out, given), run(graph, given), strict=True):
        assert np.array_equal(have, want)


def test_nothing_is_stacked_that_is_taken_apart() -> None:
    out = optimize_loops(verify(parse(STACKED.replace("RESULT", APART))))
    assert not {"cat", "loop", "slice"} & set(names(out))
    assert names(out).count("exp") == 1  # of the round that is read


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cat(%0, %1, %2, dim=0)", "mul(%3_, 1.5)"),
        ("exp(%0)", "cumsum(%0, dim=1)"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    text = STACKED.replace("RESULT", "return %5, %6").replace(old, new)
    if "%3_" in text:
        text = text.replace(
            "k: f32[]) {\n    %0: f32[1", "k: f32[], s: f32[3, 3, 8]) {\n    %0: f32[1"
        )
        text = text.replace("%3_", "s")
    graph = dead_code(verify(parse(text)))
    assert names(rewrite_loops(graph, written_out)).count("loop") == 1


def test_long_loops_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_STATEMENTS > 1000
    monkeypatch.setattr("tracejit.passes.write_out.MOST_STATEMENTS", 5)
    graph = dead_code(verify(parse(STACKED.replace("RESULT", APART))))
    assert "loop" in names(rewrite_loops(graph, written_out))


@pytest.mark.parametrize("shape", [(3, 4), (1,), (0, 2), ()])
def test_an_update_of_many_tensors_is_what_eager_execution_does(shape: Any) -> None:
    def made() -> tuple[list[Any], Any]:
        rng = np.random.default_rng(2)
        weights = []
        for _ in range(12):
            weight = tj.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()
            weight.grad = tj.from_numpy(np.asarray(rng.standard_normal(shape)))
            weights.append(weight)
        return weights, tj.optim.Adam(weights, lr=0.01)

    (eager, one), (compiled, two) = made(), made()

    def update() -> None:
        two.step()

    step = tj.compile(update, strict=True)
    for _ in range(5):
        one.step()
        step()
    for have, want in zip(compiled, eager, strict=True):
        np.testing.assert_array_equal(np.array(have.detach()), np.array(want.detach()))
