"""What a recording does per operation, by counts: what ran is not worked out a second time."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from tracejit.ir.builder import Builder
from tracejit.trace.backward.freeing import history_of


@pytest.fixture
def inferred(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops whose types were worked out."""
    found: list[str] = []
    original = Builder._inferred

    def counted(self: Builder, op: Any, operands: Any, attributes: Any) -> Any:
        found.append(op.name)
        return original(self, op, operands, attributes)

    monkeypatch.setattr(Builder, "_inferred", counted)
    return found


def test_types_of_what_ran_are_taken_from_it(inferred: list[str]) -> None:
    """Rounds are written as one loop, whose statements are typed: no more of them for more rounds."""

    def counted(rounds: int) -> int:
        def function(x: Any, w: Any) -> Any:
            for _ in range(rounds):
                x = (x @ w).tanh() * 0.5 + x.sum(0, keepdim=True)
            return x.sum()

        f = tj.compile(function, strict=True)
        x, w = tj.rand(3, 4), tj.rand(4, 4, requires_grad=True)
        expected = function(x, w).item()
        inferred.clear()
        assert f(x, w).item() == expected
        count = len(inferred)
        assert f(x, w).item() == pytest.approx(expected, rel=1e-5)
        return count

    assert counted(20) == counted(60) < 20


def test_types_of_views_and_copies_are_right(inferred: list[str]) -> None:
    """Views are not statements of the run: their types are worked out, and agree with what was seen."""

    def views(x: Any) -> Any:
        a, b = x.t().chunk(2)
        return (
            tj.cat([a[0], b[-1].unsqueeze(0).expand(2, -1).reshape(-1)]) * x.half().float().mean()
        )

    f = tj.compile(views, strict=True)
    x = tj.rand(3, 4)
    results = [f(x) for _ in range(3)]
    assert all(r.tolist() == views(x).tolist() for r in results)
    assert inferred


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3)])
@pytest.mark.parametrize("dtype", [tj.float32, tj.bfloat16, tj.int64, tj.bool])
def test_equal_computations_on_the_tape_stay_apart(shape: tuple[int, ...], dtype: Any) -> None:
    """Each occurrence is a statement of its own: gradients are summed in eager's order."""

    def twice(w: Any, x: Any) -> Any:
        a, b = w * x, w * x
        return (a * 3.0 + b * 0.1 + (w * x) * 7.0).sum()

    x = (tj.rand(*shape) * 3).to(dtype)
    w, v = (tj.full(shape, 0.3, requires_grad=True) for _ in range(2))
    f = tj.compile(twice, strict=True)
    for _ in range(3):
        w.grad = v.grad = None
        f(w, x).backward()
        twice(v, x).backward()
        assert w.grad.tolist() == v.grad.tolist()


def test_histories_with_shared_and_separate_parts() -> None:
    x, y, z = (tj.ones(2, requires_grad=True) for _ in range(3))
    shared = x * y
    a, b, c = shared * z, shared.exp(), z.sin()
    ends = {x._edge(): 1, y._edge(): 2, z._edge(): 4}
    found = history_of([a._edge(), b._edge(), c._edge(), None], ends, 0)
    assert found.ends == (7, 3, 4, 0)
    assert set(found.parts) == {(0b011, 3), (0b001, 7), (0b010, 3), (0b100, 4)}
    late = history_of([a._edge()], ends, a.grad_fn.sequence)
    assert late.parts == ((1, 4),)
    assert late.ends == (4,)
    earlier = history_of([a._edge(), b._edge()], {b._edge(): 8}, c.grad_fn.sequence)
    assert earlier == type(earlier)((), (0, 8), ways=(0, 8))


def test_what_was_copied_from_an_argument_has_its_history() -> None:
    def function(x, y):
        made = tj.zeros(2)
        made.copy_(y)
        return made, x * 2

    compiled = tj.compile(function, strict=True)
    for _ in range(3):
        x = tj.ones(2, requires_grad=True)
        given = x.sin()
        copied, doubled = compiled(x, given)
        copied.sum().backward(retain_graph=True)
        assert x.grad.tolist() == pytest.approx(x.cos().tolist())
        (doubled.sum() + copied.sum()).backward()
        assert x.grad.tolist() == pytest.approx((2 * x.cos() + 2).tolist())
