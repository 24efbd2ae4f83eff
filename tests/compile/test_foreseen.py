"""Operations of a recorded run that come as foreseen: the recording and the results are those that they would be."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.deferral import MOST_INTERRUPTIONS
from tracejit.trace.foreseen import foresight

Program = Callable[..., Any]
NEVER = 1 << 60


def few(size: tuple[int, int] = (6, 5)) -> list[tj.Tensor]:
    numbers = np.random.default_rng(3)
    return [tj.tensor(numbers.standard_normal(size).astype(np.float32)) for _ in range(3)]


def large() -> list[tj.Tensor]:
    return few((300, 260))


def stepped(a: tj.Tensor, b: tj.Tensor) -> tj.Tensor:
    c = a * 0.5
    return c + b * 0.25


def functions(x, y, w):
    for _ in range(9):
        x = stepped(x, y)
        y = stepped(y, w)
    return x, y


def swaps(x, y, w):
    for _ in range(9):
        x, y = y, x * 0.5 + w
    return x, y


def numbers(x, y, w):
    for i in range(9):
        x = x * 0.5 + i * 0.25
        y = y * (-0.0 if i % 2 else 0.0) + w
    return x, y


def views(x, y, w):
    for _ in range(8):
        x = tj.nn.functional.pad(x[1:-1, 1:-1] + w[1:-1, 1:-1], (1, 1, 1, 1))
        y = (y.t() * 0.5).t() + w
    return x, y


def shown(x, y, w):
    for _ in range(8):
        part = x[1:4]
        x = x + part.sum(0)
        part = w[1:4]
        y = y + part.sum(0) * 0.1
    return x, y, part


def branches(x, y, w):
    for i in range(12):
        if i % 3 == 1:
            x = x * 0.5 + y
        x = x - w * 0.25
    return x


def nested(x, y, w):
    for _ in range(4):
        for _ in range(3):
            x = tj.tanh(x * 0.5)
        y = y + x
    return x, y


def kept(x, y, w):
    found = []
    for _ in range(9):
        x = x * 0.5 + w
        found.append(x)
    return tj.stack(found).sum(0), found[0], found[-1]


def writes(x, y, w):
    total = x * 1.0
    for i in range(9):
        y = y * 0.5 + w
        y = y * 0.5 + x
        if i % 3 == 2:
            total[0] = y[1]
            total += y * 0.5
    return total, y


def equal(x, y, w):
    for _ in range(6):
        a = x * 0.5
        b = x * 0.5
        y = a + b
    return y, x * 0.5


def types(x, y, w):
    for _ in range(8):
        mask = x > y
        x = tj.where(mask, x, y * 0.5)
        y = (mask * 0.5 + w).to(tj.float64).to(tj.float32)
    return x, y


def products(x, y, w):
    for _ in range(8):
        x = (x @ y.t()) @ w * 0.05
        x = x / (x.abs().sum(1, keepdim=True) + 1.0)
    return x


def halves(x, y, w):
    x, y = x.bfloat16(), y.half()
    for _ in range(8):
        x = x * 0.5 + 1.0
        y = y * 0.5 + 1.0
    return x, y


PROGRAMS = (
    *(functions, swaps, numbers, views, shown, branches, nested, kept, writes, equal, types),
    *(products, halves),
)


def texts(compiled: Any) -> list[str]:
    found = []
    for graph in compiled.graphs:
        found.append(str(graph))
        found.append(str([v.line for v in graph.values]))
    return found


def count(compiled: Any) -> int:
    """How many operations came as foreseen in the last recording."""
    found = re.findall(r"; (\d+) operations came as foreseen", str(compiled.explain()))
    return int(found[-1]) if found else 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("given", [few, large], ids=["few", "large"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_recordings_are_the_ones_that_they_would_be(
    program: Program, given: Callable[[], list[tj.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = program(*given())
    recorded = []
    for seen in (NEVER, 0):
        monkeypatch.setattr(foresight, "SEEN", seen)
        compiled = tj.compile(program)
        for _ in range(2):
            found = compiled(*given())
            for one, other in zip(leaves(found), leaves(expected), strict=True):
                assert one.dtype is other.dtype
                assert one.stride() == other.stride()
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
        assert compiled.stats.recordings == 1
        recorded.append(texts(compiled))
        assert (count(compiled) > 0) is (seen == 0)
    assert recorded[0] == recorded[1]


def leaves(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


def test_most_of_a_loop_is_foreseen() -> None:
    def function(x, y):
        for _ in range(100):
            x = x + (y - x) * 0.1
            y = y * 0.99
        return x

    compiled = tj.compile(function)
    x, y, _ = few()
    expected = function(x, y)
    np.testing.assert_array_equal(compiled(x, y), expected)
    assert count(compiled) >= 380  # of 400


def test_layers_with_parameters_are_not() -> None:
    layers = tj.nn.Sequential(*[tj.nn.Linear(5, 5) for _ in range(9)])
    compiled = tj.compile(layers)
    x = few()[0]
    np.testing.assert_allclose(compiled(x).detach(), layers(x).detach(), rtol=1e-5)
    assert count(compiled) == 0


@pytest.mark.parametrize("given", [few, large], ids=["few", "large"])
def test_elements_are_there_for_whoever_asks(given: Callable[[], list[tj.Tensor]]) -> None:
    seen: list[float] = []

    def function(x, w):
        for i in range(20):
            x = x * 0.5 + w
            if i == 15:
                thread = threading.Thread(
                    target=lambda x=x: seen.append(float(x.detach().numpy()[0, 0]))
                )
                thread.start()
                thread.join()
        return x

    x, w, _ = given()
    expected = function(x, w)
    compiled = tj.compile(function)
    np.testing.assert_allclose(compiled(x, w), expected, rtol=1e-6)
    assert len(seen) == 2
    assert seen[0] == pytest.approx(seen[1])


def test_an_error_in_the_middle() -> None:
    class StopError(Exception):
        pass

    left: list[tj.Tensor] = []

    def function(x, w):
        for i in range(20):
            x = x * 0.5 + w
            if i == 10:
                left.append(x)
                raise StopError
        return x

    x, w, _ = few()
    compiled = tj.compile(function)
    for call in (function, compiled, compiled):
        with pytest.raises(StopError):
            call(x, w)
    for found in left[1:]:
        np.testing.assert_array_equal(found, left[0])


def test_what_cannot_be_recorded_is_computed_all_the_same() -> None:
    def function(x, w):
        for i in range(20):
            x = x * 0.5 + w
            if i == 12:
                w = tj.from_numpy(np.ascontiguousarray(x.numpy()[::-1]))
        return x

    x, w, _ = few()
    expected = function(x, w)
    compiled = tj.compile(function)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x, w), expected, rtol=1e-6)


def test_inputs_that_are_written_to_afterwards() -> None:
    def function(x, w):
        for _ in range(9):
            w = w * 0.5 + x
        x.mul_(2.0)
        for _ in range(9):
            w = w * 0.5 + x
        return w

    for seen in range(2):
        given, same = few(), few()
        expected = function(*same[:2])
        np.testing.assert_allclose(tj.compile(function)(*given[:2]), expected, rtol=1e-6)
        np.testing.assert_array_equal(given[0], same[0])
        assert given[0]._version == same[0]._version == 1, seen


def test_modes_that_change_on_the_way() -> None:
    def function(x, w):
        total = x * 0.0
        for i in range(12):
            with tj.no_grad() if i % 2 else tj.enable_grad():
                x = x * 0.5 + w
            with tj.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                total = total + x
        return total, x.is_inference()

    x, w, _ = few()
    expected = function(x, w)
    compiled = tj.compile(function)
    for _ in range(2):
        found = compiled(x, w)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
        assert found[1] is expected[1]
    with tj.inference_mode():
        assert compiled(x, w)[1]


def test_gradients_are_recorded_as_ever() -> None:
    def function(x, w):
        for _ in range(9):
            x = tj.tanh(x * 0.5)
            w = w * 0.5 + x
        return (w * w).sum()

    def gradient(f: Program) -> tj.Tensor:
        x, w, _ = few()
        f(x, w.requires_grad_()).backward()
        return w.grad

    compiled = tj.compile(function)
    for _ in range(2):
        np.testing.assert_allclose(gradient(compiled), gradient(function), rtol=1e-5)
    assert count(compiled) > 0


def test_questions_for_identities_are_heard() -> None:
    first, other, w = few()
    known = id(first)

    def function(x, w):
        for _ in range(20):
            w = w * 0.5 + x
        return w * (2 if id(x) == known else 3)

    compiled = tj.compile(function)
    for x in (first, other, first, other):
        np.testing.assert_allclose(compiled(x, w), function(x, w), rtol=1e-6)
    assert count(compiled) > 0


def test_numbers_that_vary_are_heard() -> None:
    x, w, _ = few()
    ends = []
    for wrap in (lambda f: f, tj.compile):
        weight = tj.ones(5, requires_grad=True)
        optimizer = tj.optim.SGD([weight], lr=0.8)
        plan = tj.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def step(x, w, optimizer=optimizer, plan=plan):
            for _ in range(9):
                w = w * 0.5 + x
            plan.step()
            for _ in range(9):
                w = w * 0.5 + x
            return w * (2 if optimizer.param_groups[0]["lr"] > 0.15 else 1)

        run = wrap(step)
        with pytest.warns(UserWarning, match="lr_scheduler.step"):
            ends.append([float(run(x, w).sum()) for _ in range(6)])
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


def test_little_waits_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "MOST_WAITING", 10)
    lengths: list[int] = []
    write = foresight.write_again

    def writing(recorder: Any, waiting: list[Any]) -> None:
        lengths.append(len(waiting))
        write(recorder, waiting)

    monkeypatch.setattr(foresight, "write_again", writing)
    compiled = tj.compile(functions)
    found = compiled(*few())
    for one, other in zip(found, functions(*few()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert max(lengths) == 10
    assert sum(lengths) == count(compiled)


def test_loops_that_ask_for_numbers_are_left_to_the_recorder() -> None:
    def function(x, w):
        for _ in range(30):
            x = x * 0.5 + w
            x = x * 0.5 + w
            if x.sum() > 1e9:
                break
        return x

    x, w, _ = few()
    compiled = tj.compile(function)
    np.testing.assert_allclose(compiled(x, w), function(x, w), rtol=1e-6)
    assert count(compiled) <= 4 * (MOST_INTERRUPTIONS + 1)
