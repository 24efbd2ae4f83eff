"""Recorded runs of many rounds: rounds like those before are compared only, and whatever else happens ends that."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tracejit as tj
from tracejit.trace.rounds import settled


@pytest.fixture
def left_out(monkeypatch):
    """How many rounds each stand-in left out."""
    found = []
    end = settled.Settled.end

    def noted(self):
        if self.live:
            found.append(self.count)
        end(self)

    monkeypatch.setattr(settled.Settled, "end", noted)
    return found


def _start(rounds):
    return tj.tensor([2.0**rounds * 0.75, 0.0])


def _same(f, compiled, starts):
    for rounds in starts:
        for x, y in zip(_parts(f(_start(rounds))), _parts(compiled(_start(rounds))), strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def _parts(result):
    return result if isinstance(result, tuple) else (result,)


def halved(x):
    """A loop and something after it."""
    y = tj.zeros(2)
    while x.sum() > 1:
        y = y + x * 0.5
        x = x / 2
    return x * 3, y


def test_rounds_are_left_out_and_the_loop_is_one(left_out):
    compiled = tj.compile(halved)
    compiled(_start(90))
    assert left_out == [86]
    _same(halved, compiled, (90, 3, 1, 0, 50))
    assert compiled.stats.recordings <= 3
    assert sum(str(graph).count("until=") for graph in compiled.graphs) > 0


def test_numbers_that_are_compared_are_no_reason_to_write_rounds_down(left_out):
    def f(x):
        error = 2.0
        for _ in range(500):
            y = x * 0.5
            error = (x - y).abs().max().item()
            x = y
            if error < 1e-3:
                break
        return x

    compiled = tj.compile(f)
    compiled(_start(90))
    assert max(left_out) > 90
    _same(f, compiled, (90, 3, 1, 40))
    assert compiled.stats.recordings <= 3


def test_stand_ins_of_no_use_are_given_up(left_out):
    def f(x):
        seen = 0.0
        while x.sum() > 1:
            x = x / 2
            seen += float(x[0])
        return x * seen

    compiled = tj.compile(f)
    _same(f, compiled, (60, 10))
    assert left_out.count(0) <= 2 * settled.MOST_FUTILE


def test_long_runs_keep_no_memory_for_their_rounds():
    def f(x):
        k = tj.zeros(())
        while k < 3000:
            x = x * 0.5 + 1
            k = k + 1
        return x

    compiled = tj.compile(f)
    tracemalloc.start()
    try:
        expected, found = f(tj.ones(64)), compiled(tj.ones(64))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(expected.numpy(), found.numpy())
    assert peak < 4_000_000


def other_op_later(x):
    """Python itself does something else in a late round."""
    k = 0
    while x.sum() > 1:
        k += 1
        x = x / 2 if k != 20 else x * 0.25
    return x


def other_number_later(x):
    """A number that changes once."""
    k, factor = 0, 0.5
    while x.sum() > 1:
        k += 1
        if k == 20:
            factor = 0.25
        x = x * factor
    return x


def looked_at_later(x):
    """Elements leave in a late round."""
    k, seen = 0, []
    while x.sum() > 1:
        x = x / 2
        k += 1
        if k == 25:
            seen.append(x.tolist())
    return x, tj.tensor(seen[0] if seen else [0.0, 0.0])


def left_early(x):
    """The function returns in the middle of a round."""
    k = tj.zeros(())
    while x.sum() > 1:
        x = x / 2
        k = k + 1
        if k > 30:
            return x, k
    return x * 2, k


def run_out(x):
    """A counter ends it while the truth would have it go on."""
    for _ in range(40):
        if x.sum() < 1:
            break
        x = x / 2
    return x, x * 2


def two_loops(x):
    """One after the other."""
    y = x + 1
    while x.sum() > 1:
        x = x / 2
    while y.sum() > 1:
        y = y * 0.25 + 0.125
    return x, y


def nested(x):
    """One in another."""
    while x.sum() > 1:
        y = x
        while y.sum() > 0.5:
            y = y / 4
        x = x / 8 + y * 0
    return x


def drawn_later(x):
    """A random number in a late round."""
    k = 0
    while x.sum() > 1:
        k += 1
        x = x / 2
        if k == 22:
            x = x + tj.rand(2) * 0
    return x


@pytest.mark.sampled(12)
@pytest.mark.parametrize("turn", [0, 1, 2])
@pytest.mark.parametrize(
    "f",
    [
        other_op_later,
        other_number_later,
        looked_at_later,
        left_early,
        run_out,
        two_loops,
        nested,
        drawn_later,
    ],
    ids=lambda f: f.__name__,
)
def test_what_happens_otherwise_happens(f, turn, left_out):
    starts = (60, 10, 3, 35, 21, 0, 90, 24, 26)
    compiled = tj.compile(f)
    _same(f, compiled, (*starts[turn:], *starts[:turn]) * 2)
    if turn == 0 and f is not left_early:  # which reads two truths in a round
        assert max(left_out) > 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rounds", range(2, 12))
def test_what_no_loop_can_hold_comes_after_any_number_of_rounds(rounds):
    """Rounds that were left out are nowhere, be it a single one."""

    def made():
        bank = tj.zeros(2)

        def f(x):
            while x.sum() > 1:
                x = x / 2
            bank.data = x * 3  # ends the search for loops
            return x + 1

        return f, bank

    (eager, expected), (f, found) = made(), made()
    compiled = tj.compile(f)
    for count in (rounds, rounds, 4, rounds, rounds + 1, rounds):
        start = _start(count)
        np.testing.assert_array_equal(eager(start).numpy(), compiled(start).numpy())
        np.testing.assert_array_equal(expected.numpy(), found.numpy())


def test_errors_leave_rounds_as_they_are():
    def f(x):
        k = 0
        while x.sum() > 1:
            x = x / 2
            k += 1
            if k == 30:
                raise ValueError("enough")
        return x

    compiled = tj.compile(f)
    for rounds in (60, 20, 60, 20, 40):
        if rounds > 30:
            with pytest.raises(ValueError, match="enough"):
                compiled(_start(rounds))
        else:
            _same(f, compiled, [rounds])


def test_rounds_that_turn_out_to_be_no_loop_are_written_down_next_time():
    def f(x):
        k = 0
        while x.sum() > 1:
            k += 1
            x = x / 2 if k < 30 else x * 0.25
        return x

    compiled = tj.compile(f)
    _same(f, compiled, [50, 50, 50, 50])
    assert compiled.stats.compiled_calls > 0


def test_gradients_are_not_left_out(left_out):
    def f(w):
        x = w
        while x.sum() > 1:
            x = x / 2
        return (x * x).sum()

    compiled = tj.compile(f)
    for rounds in (30, 8, 30):
        weights = [_start(rounds).requires_grad_() for _ in range(2)]
        for function, w in zip((f, compiled), weights, strict=True):
            function(w).backward()
        np.testing.assert_array_equal(weights[0].grad.numpy(), weights[1].grad.numpy())
    assert left_out == []


def test_rounds_that_cannot_be_compared_are_no_error(monkeypatch):
    def fails(*things):
        raise RuntimeError("no")

    monkeypatch.setattr(settled.Settled, "let_go", fails)
    monkeypatch.setattr(settled, "LARGE", 0)
    compiled = tj.compile(halved)
    _same(halved, compiled, (60, 5, 60))
    assert "a round of a loop could not be recorded (RuntimeError: no)" in str(compiled.explain())
