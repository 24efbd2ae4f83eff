"""Guards of the only path that is known are joined to be one, which is looked at when the program is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import distributions as D
from tracejit.nn import functional as F

ROUNDS = 30


def filtered(seen: tj.Tensor, scale: tj.Tensor) -> tj.Tensor:
    """A loop of which every round checks its observation."""
    belief = tj.zeros(4)
    for t in range(ROUNDS):
        belief = tj.tanh(belief) + D.Normal(belief, scale.exp()).log_prob(seen[t])
    return belief.sum()


def stepped(x: tj.Tensor) -> tj.Tensor:
    """A loop of which every round raises an error about what is not finite."""
    for t in range(ROUNDS):
        x = x * x + 0.1
        if not (x < 1e3 + t).all():
            raise OverflowError("it grew")
    return x


def inputs(seed: int) -> tuple[tj.Tensor, tj.Tensor]:
    """Observations and a parameter."""
    rng = np.random.default_rng(seed)
    return tj.tensor(rng.normal(size=ROUNDS)), tj.tensor(rng.normal(size=4) / 9).requires_grad_()


def launches(f: Any) -> int:
    """How many kernels a call launches."""
    (entry,) = (entry for found in f.entries.values() for entry in found)
    return sum(s.runner.program.plan.launches for s in entry.root.segments() if s.runner)


def segments(f: Any) -> int:
    """Of how many pieces the tree is."""
    return sum(len(e.root.segments()) for found in f.entries.values() for e in found)


def test_a_loop_with_checks_is_a_loop() -> None:
    f = tj.compile(filtered)
    for seed in range(3):
        seen, scale = inputs(seed)
        other = scale.detach().clone().requires_grad_()
        found, expected = f(seen, scale), filtered(seen, other)
        found.backward()
        expected.backward()
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-12)
        np.testing.assert_allclose(scale.grad.numpy(), other.grad.numpy(), rtol=1e-10)
    assert f.stats.recordings == 1
    assert segments(f) == 1
    assert "loop of" in str(f.explain())
    assert launches(f) < ROUNDS


@pytest.mark.parametrize(
    ("rounds", "pieces"), [(20, 2), pytest.param(200, 1, marks=pytest.mark.thorough)]
)
def test_one_check_before_many_rounds(rounds: int, pieces: int) -> None:
    def function(x: tj.Tensor) -> tj.Tensor:
        if not tj.isfinite(x).all():
            raise ValueError("not finite")
        for _ in range(rounds):
            x = (x * 1.5).sin() + 0.1
        return x

    f = tj.compile(function)
    x = tj.linspace(0.0, 1.0, 5)
    for _ in range(3):
        np.testing.assert_allclose(f(x).numpy(), function(x).numpy(), rtol=1e-5)
    assert segments(f) == pieces
    assert launches(f) <= 4
    for _ in range(2):
        with pytest.raises(ValueError, match="not finite"):
            f(x * float("nan"))


def test_explanations_tell_of_joined_guards() -> None:
    f = tj.compile(filtered)
    f(*inputs(0))
    f(*inputs(1))
    assert f"{3 * ROUNDS} guards, looked at together" in str(f.explain())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_check_that_fails_raises_the_error_of_eager_code(bad: float) -> None:
    f = tj.compile(stepped)
    x = tj.tensor([0.1, 0.2])
    for _ in range(2):
        assert f(x).tolist() == stepped(x).tolist()
    assert segments(f) == 1
    for _ in range(3):
        with pytest.raises(OverflowError, match="it grew"):
            f(tj.tensor([0.1, bad]))
    for _ in range(3):
        assert f(x).tolist() == stepped(x).tolist()
    assert segments(f) > ROUNDS  # the guards are apart from then on


def test_a_function_that_takes_turns_is_recorded_in_pieces() -> None:
    def turns(x: tj.Tensor) -> tj.Tensor:
        for t in range(6):
            if x.sum() > t:
                x = x * 0.5 + t
        return x

    f = tj.compile(turns)
    rng = np.random.default_rng(0)
    for size in (9.0, 9.0, 1.0, -3.0, 4.0, 9.0, 1.0, -3.0):
        x = tj.tensor(rng.normal(size=5) + size)
        assert f(x).tolist() == turns(x).tolist()
    assert f.stats.compiled_calls >= 3


def test_numbers_drawn_by_a_call_in_vain_are_given_back() -> None:
    def walk(x: tj.Tensor) -> tj.Tensor:
        for _ in range(5):
            x = x + tj.rand(3)
            if x.sum() > 40.0:
                x = x - 40.0
        return x

    def run(function: Callable[[tj.Tensor], tj.Tensor]) -> list[Any]:
        tj.manual_seed(3)
        return [function(tj.full((3,), size)).tolist() for size in (0.0, 0.0, 0.0, 13.0, 12.5, 0.0)]

    assert run(tj.compile(walk)) == run(walk)


def test_nothing_is_written_by_a_call_in_vain() -> None:
    def step(state: tj.Tensor, x: tj.Tensor) -> tj.Tensor:
        for number in range(12):
            state.add_(x)
            if state.max() > 300.0 + number:
                raise ValueError("too large")
        return state.sum()

    f = tj.compile(step)
    mine, theirs = tj.zeros(3), tj.zeros(3)
    for size in (1.0, 2.0, 3.0):
        x = tj.full((3,), size)
        assert f(mine, x).item() == step(theirs, x).item()
    assert segments(f) == 1
    assert mine.tolist() == theirs.tolist()
    for size in (60.0, 1.0):
        x = tj.full((3,), size)
        for function, state in ((f, mine), (step, theirs)):
            with pytest.raises(ValueError, match="too large"):
                function(state, x)
        assert mine.tolist() == theirs.tolist()


def test_an_index_out_of_range_behind_a_check_is_not_refused_for_ever() -> None:
    def looked_up(table: tj.Tensor, at: tj.Tensor) -> tj.Tensor:
        for step in range(4):
            if (at >= 5 + step).any():
                at = at % (5 + step)
        return table[at]

    f = tj.compile(looked_up)
    table = tj.arange(5.0)
    for values in ([0, 1], [4, 2], [7, 30], [8, 2], [7, 30], [8, 2], [0, 1]):
        at = tj.tensor(values)
        assert f(table, at).tolist() == looked_up(table, at).tolist()
    assert f.stats.compiled_calls >= 3


def test_a_loop_that_ends_by_its_values_is_not_run_past_a_check() -> None:
    def halved(x: tj.Tensor) -> tj.Tensor:
        for limit in (1e30, 1e31, 1e32):
            if not bool((x < limit).all()):
                return x
        while (x > 1.0).any():
            x = x * 0.5
        return x

    f = tj.compile(halved)
    for value in (40.0, 3000.0, float("inf"), 5.0, float("inf")):
        x = tj.tensor([value, 1.0])
        assert f(x).tolist() == halved(x).tolist()


def test_guards_joined_for_one_signature_are_joined_for_others() -> None:
    f = tj.compile(stepped)
    for count in (2, 3, 4):
        for _ in range(2):
            x = tj.full((count,), 0.2)
            assert f(x).tolist() == stepped(x).tolist()
    assert segments(f) <= 1 + len([e for found in f.entries.values() for e in found])


def test_gradients_of_a_call_behind_a_failed_check() -> None:
    def clipped(x: tj.Tensor) -> tj.Tensor:
        for limit in (3.0, 2.0, 1.0):
            if x.abs().max() > limit:
                x = x * (limit / x.abs().max())
        return (x * x).sum()

    f = tj.compile(clipped)
    for size in (0.5, 0.5, 2.5, 9.0, 0.5, 2.5, 9.0):
        mine = tj.tensor([size, 0.1], dtype=tj.float64, requires_grad=True)
        theirs = tj.tensor([size, 0.1], dtype=tj.float64, requires_grad=True)
        f(mine).backward()
        clipped(theirs).backward()
        np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)


def test_a_check_that_fails_at_a_size_of_its_own() -> None:
    f = tj.compile(stepped)
    for count in (2, 3, 4, 5):
        x = tj.full((count,), 0.2)
        assert f(x).tolist() == stepped(x).tolist()
    for _ in range(2):
        with pytest.raises(OverflowError, match="it grew"):
            f(tj.full((6,), 3.0))
        x = tj.full((7,), 0.3)
        assert f(x).tolist() == stepped(x).tolist()


def test_code_made_in_the_background_parts_too() -> None:
    f = tj.compile(stepped, mode="background")
    x = tj.tensor([0.1, 0.2])
    for _ in range(4):
        assert f(x).tolist() == stepped(x).tolist()
        f.wait()
    assert segments(f) == 1
    for _ in range(2):
        with pytest.raises(OverflowError, match="it grew"):
            f(tj.tensor([0.1, 7.0]))
    for _ in range(4):
        assert f(x).tolist() == stepped(x).tolist()
        f.wait()
    assert segments(f) > ROUNDS
    assert f.stats.compiled_calls >= 3


def test_guards_of_programs_with_large_results() -> None:
    """They are run by Python, which looks at a byte of memory."""

    def checked(x: tj.Tensor, scale: tj.Tensor) -> tj.Tensor:
        for limit in (5.0, 6.0, 7.0):
            if not (x < limit).all():
                raise OverflowError("too large")
        return x * scale

    f = tj.compile(checked, strict=True)
    x, scale = tj.ones(600_000), tj.tensor(2.0, requires_grad=True)
    for number in range(3):
        scale.grad = None
        found = f(x + number, scale)
        found.sum().backward()
        assert scale.grad.item() == 600_000 * (number + 1)
        assert (found == 2.0 * (number + 1)).all()
    assert f.stats.compiled_calls == 2
    assert segments(f) == 1
    with pytest.raises(OverflowError):
        f(x * 9, scale)


def test_one_guard_is_enough_where_its_other_outcome_is_an_error() -> None:
    f = tj.compile(lambda p, y: F.binary_cross_entropy(p * 1, y), strict=True)
    p, y = tj.tensor([0.25, 0.5, 1.0], requires_grad=True), tj.tensor([0.0, 1.0, 1.0])
    expected = F.binary_cross_entropy(p, y)
    (wanted,) = tj.autograd.grad(expected, p)
    for _ in range(3):
        found = f(p, y)
        assert found.item() == pytest.approx(expected.item())
        np.testing.assert_allclose(tj.autograd.grad(found, p)[0].numpy(), wanted.numpy())
    assert segments(f) == 1
    for _ in range(2):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            f(p * 2, y)
    assert f(p, y).item() == pytest.approx(expected.item())


def test_one_guard_of_the_program_stays_where_it_is() -> None:
    f = tj.compile(lambda x: x * 2 if (x > 0).all() else x - 1, strict=True)
    for x in ([1.0], [2.0], [-1.0], [1.0]):
        assert f(tj.tensor(x)).item() == (x[0] * 2 if x[0] > 0 else x[0] - 1)
    assert segments(f) == 3
