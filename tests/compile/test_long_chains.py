"""Paths of many questions are walked, and their programs run by built-ins once they have run often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.profiling.profiles import profile
from tracejit.trace.replay.replay import MAX_DEPTH
from tracejit.trace.tree.segments import OFTEN

QUESTIONS = MAX_DEPTH + 8


def kept(x: Any, threshold: Any) -> tuple[Any, Any]:
    """As suppression of boxes does: the result has as many elements as the path found."""
    keep = x > -10
    for i in range(QUESTIONS):
        if keep[i].item():
            keep = keep & ((x - x[i]).abs() >= threshold) | (tj.arange(len(x)) == i)
    return x[keep], keep.sum()


def steps(x: Any, scale: Any) -> Any:
    """A number of each round decides about the next; its history is kept."""
    for _ in range(QUESTIONS):
        total = (x * x).sum()
        x = x * 0.5 if total.item() > 4 else x * scale
    return x.sum()


def runners(compiled: Any) -> list[Any]:
    (entry,) = (e for entries in compiled.entries.values() for e in entries)
    return [s.runner for s in entry.root.segments() if s.runner is not None]


def test_a_chain_with_a_result_of_unknown_length() -> None:
    rng = np.random.default_rng(0)
    compiled = tj.compile(kept, strict=True)
    x, threshold = tj.tensor(rng.standard_normal(40)), tj.tensor(0.3)
    expected = kept(x, threshold)
    for _ in range(OFTEN + 6):
        found = compiled(x, threshold)
        assert tj.equal(found[0], expected[0])
        assert tj.equal(found[1], expected[1])
    made = [r.__dict__.get("quick") for r in runners(compiled)]
    assert sum(x is not None for x in made) >= QUESTIONS - 2
    for _ in range(20):  # other paths, and the same again
        x = tj.tensor(rng.standard_normal(40))
        found, expected = compiled(x, threshold), kept(x, threshold)
        assert tj.equal(found[0], expected[0])
        assert tj.equal(found[1], expected[1])


def test_a_chain_with_a_history() -> None:
    compiled = tj.compile(steps, strict=True)
    for number in range(4 * OFTEN):
        data = np.linspace(-1, 2, 16) * (1 + number % 3)
        x, y = (tj.tensor(data, requires_grad=True) for _ in range(2))
        scale, other = (tj.tensor(1.2, requires_grad=True) for _ in range(2))
        found, expected = compiled(x, scale), steps(y, other)
        found.backward()
        expected.backward()
        np.testing.assert_allclose(found.numpy(force=True), expected.numpy(force=True), rtol=1e-6)
        assert x.grad is not None
        assert y.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5, atol=1e-6)
        if other.grad is None:
            assert scale.grad is None or not scale.grad.any()
        else:
            np.testing.assert_allclose(scale.grad.numpy(), other.grad.numpy(), rtol=1e-5)
    assert any(r.__dict__.get("quick") is not None for r in runners(compiled))


@pytest.mark.parametrize("function", [kept, steps])
def test_profiles_see_every_program_of_a_chain(function: Any) -> None:
    compiled = tj.compile(function, strict=True)
    given = tj.tensor(np.linspace(-1, 1, 40)), tj.tensor(0.3)
    for _ in range(OFTEN + 3):
        compiled(*given)
    with profile() as found:
        compiled(*given)
    assert found.launches >= QUESTIONS
