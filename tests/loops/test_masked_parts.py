"""Parts under masks that are changed in place: no size is found for them, unless something depends on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


class Kept:
    """Where functions leave things."""

    number: Any = None
    tensor: Any = None


KEPT = Kept()


def negated(x: Any) -> Any:
    v = x.clone()
    for _ in range(30):
        v = v + 0.25
        m = v > 1
        v[m] *= -1
    return v


def computed(x: Any) -> Any:
    v, m = x.clone(), x > 0
    part = v[m]
    v[m] = (part * 2 - part.abs()).clamp(max=1.5) + x.amax()
    return v, m


def of_rows(x: Any) -> Any:
    v = x.clone()
    m = v.sum(1) > 0
    v[m] *= x[0]
    v[m] = v[m] * 2 + v[m].abs()
    return v


def elsewhere(x: Any) -> Any:
    v, u, m = x.clone(), x * 2, x > 0
    u[m] = v[m] - u[m]
    return v, u


def in_arguments(x: Any) -> Any:
    x[x < 0] *= -1
    return x.sum()


def in_columns(x: Any) -> Any:
    v = x.clone()
    m = v[0] > 0
    v[:, m] += 1
    return v


SIZELESS = [negated, computed, of_rows, elsewhere, in_arguments]


def branch_after(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] *= 2
    return v if v.sum() > 0 else v[m].sum()


def branch_before(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] *= 2
    if v.sum() > 0:
        return v, v[m]
    v[~m] += 1
    return v * 2 if v.sum() < -3 else v


def by_its_count(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] *= v[m].shape[0]
    return v


def with_its_mean(x: Any) -> Any:
    v, m = x.clone(), x > 0
    part = v[m]
    v[m] = part * part - part.mean()
    return v


def of_integers(x: Any) -> Any:
    v = (x * 10).long()
    m = v != 0
    v[m] = 100 // v[m]
    return v


def count_returned(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] *= 2
    return v, v[m].shape[0]


def count_kept(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] *= 2
    KEPT.number = v[m].numel()
    return v


def part_kept(x: Any) -> Any:
    v, m = x.clone(), x > 0
    KEPT.tensor = v[m]
    v[m] *= 2
    return v


def count_in_text(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] *= 2
    return v, f"{len(v[m])}"


def drawn(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] += tj.rand(v[m].shape[0])
    return v


def by_chance_as_many(x: Any) -> Any:
    v, m = x.clone(), x > 0
    v[m] = v[m] + tj.arange(20.0)[: v[m].shape[0]]
    return v


SIZED = [branch_after, branch_before, by_its_count, with_its_mean, of_integers, in_columns]
SIZED += [count_returned, count_kept, part_kept, count_in_text, drawn, by_chance_as_many]


def outcome(function: Callable[..., Any], x: Any, seed: int) -> str:
    """All that a call leaves."""
    KEPT.number, KEPT.tensor = None, tj.zeros(1)
    tj.manual_seed(seed)
    return str((function(x), x, KEPT.number, KEPT.tensor))


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore::tracejit.errors.CompileWarning")
@pytest.mark.parametrize("function", [*SIZELESS, *SIZED])
def test_calls_are_those_of_eager_code(function: Callable[..., Any]) -> None:
    compiled = tj.compile(function)
    draws = np.random.default_rng(0)
    for call in range(10):
        numbers = draws.standard_normal((4, 5)).astype(np.float32) + (call % 3 - 1) * 0.8
        x, y = tj.tensor(numbers), tj.tensor(numbers)
        assert outcome(compiled, x, call) == outcome(function, y, call)


@pytest.mark.parametrize("function", SIZELESS)
def test_no_size_is_found(function: Callable[..., Any]) -> None:
    compiled = tj.compile(function)
    for _ in range(3):
        compiled(tj.randn(4, 5))
    assert "nonzero" not in str(compiled.explain())
    assert len(compiled.graphs) == 1


def test_rounds_are_a_loop() -> None:
    compiled = tj.compile(negated)
    for _ in range(3):
        compiled(tj.randn(4, 5))
    assert "loop of" in str(compiled.explain())


def test_gradients_do_not_come_from_what_the_mask_leaves_out() -> None:
    def roots(x: Any) -> Any:
        v, m = x * 1, x > 0
        v[m] = v[m].sqrt()
        return v.sum()

    compiled = tj.compile(roots)
    for _ in range(3):
        found = []
        for function in (roots, compiled):
            x = tj.tensor([4.0, -1.0, 9.0, 0.0], requires_grad=True)
            function(x).backward()
            found.append(x.grad.tolist())
        assert found[0] == found[1] == pytest.approx([0.25, 1.0, 1 / 6, 1.0])
