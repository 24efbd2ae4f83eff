"""Numbers read from tensors inside compiled functions: one recording serves every value."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tracejit as tj


def random_inputs(count: int = 20, size: int = 5, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [
        tj.tensor(rng.standard_normal(size).astype(np.float64), requires_grad=True)
        for _ in range(count)
    ]


def close(ours, theirs) -> bool:
    """Are results the same up to rounding, numbers of the same type?"""
    if isinstance(ours, (tuple, list)):
        return all(map(close, ours, theirs))
    if isinstance(ours, tj.Tensor):
        return np.allclose(ours.tolist(), theirs.tolist(), rtol=1e-10, equal_nan=True)
    if isinstance(ours, str):
        return ours == theirs
    return type(ours) is type(theirs) and math.isclose(ours, theirs, rel_tol=1e-10)


def agree(function, inputs, recordings: int):
    f = tj.compile(function)
    for x in inputs:
        assert close(f(x), function(x)), x
    assert f.stats.recordings == recordings, str(f.explain())
    return f


def test_numbers_in_arithmetic() -> None:
    def function(x):
        mean, scale = x.mean().item(), x.std().item()
        y = (x - mean) / (scale + 1e-5)
        top = y.abs().max().item()
        return y * top + mean**2, top, (mean, [scale])

    f = agree(function, random_inputs(), recordings=2)
    assert "when any value" in str(f.explain())


def test_gradients_through_the_rest() -> None:
    def function(x):
        loss = (x * x).sum()
        return (x * loss.item()).sum() + loss / (1 + loss.item())

    f = tj.compile(function)
    pairs = [(x, f(x), function(x)) for x in random_inputs(8)]
    for x, ours, theirs in reversed(pairs):
        (a,) = tj.autograd.grad(ours, [x], create_graph=True)
        (b,) = tj.autograd.grad(theirs, [x], create_graph=True)
        assert close(a, b)
        assert close(tj.autograd.grad(a.sum(), [x])[0], tj.autograd.grad(b.sum(), [x])[0])
    assert f.stats.recordings == 2


def test_comparisons_are_guards_on_their_outcome() -> None:
    def function(x, best):
        value = (x * x).sum().item()
        if value < best:
            best = value
        return x * best, best

    f = tj.compile(function)
    ours = theirs = 1e9
    for x in random_inputs(30):
        a, ours = f(x, ours)
        b, theirs = function(x, theirs)
        assert close((a, ours), (b, theirs))
    assert type(ours) is float
    assert f.stats.recordings <= 4


def test_loops_until_a_number_is_small() -> None:
    def function(x):
        count = 0
        while x.abs().sum().item() > 1.0:
            x = x * 0.5
            count += 1
        return x * count, count

    f = tj.compile(function)
    for x in random_inputs(30):
        assert close(f(x), function(x))
    assert f.stats.recordings <= 5


def test_counts_that_decide_a_size_are_paths() -> None:
    def function(x):
        count = (x > 0).sum().item()
        return x[:count].sum(), count

    f = tj.compile(function)
    for x in random_inputs(40):
        assert close(f(x), function(x))
    assert f.stats.recordings <= 8


def test_special_values_and_types() -> None:
    def function(x):
        value = x[0].item()
        return x * value, value, value + 1, -value

    for kind, values in {
        tj.float64: [1.5, -0.0, float("nan"), float("inf"), 2.5, 0.0],
        tj.bfloat16: [1.5, -2.0, float("inf"), 3.0],
        tj.int64: [1, 2**62, -(2**63), 0, 7],
        tj.uint8: [1, 255, 0, 3],
    }.items():
        f = tj.compile(function)
        for value in values:
            x = tj.tensor([value, 1]).to(kind)
            ours, theirs = f(x), function(x)
            assert ours[0].tolist().__repr__() == theirs[0].tolist().__repr__()
            assert [(type(a), repr(a)) for a in ours[1:]] == [
                (type(a), repr(a)) for a in theirs[1:]
            ]
        assert f.stats.recordings == 2


def test_tolist_and_text_of_a_number() -> None:
    def function(x):
        value = x.sum().tolist()
        return x * value, f"{value:.0f}"

    inputs = [tj.tensor([float(i), 0.25]) for i in range(4)]
    f = agree(function, inputs, recordings=4)
    for x in inputs:
        assert close(f(x), function(x))
    assert f.stats.recordings == 5


def test_tensors_made_of_numbers() -> None:
    def function(x):
        value = x.max().item()
        parts = [tj.tensor(value), tj.full((2,), value), tj.zeros(2).fill_(value)]
        return tj.cat([p.reshape(-1).to(x.dtype) for p in parts]), tj.full_like(x, value)

    agree(function, random_inputs(6), recordings=2)


def test_errors_of_python_are_raised() -> None:
    def function(x):
        return x / (1 / x[0].item())

    f = tj.compile(function)
    for value in (1.0, 2.0, 3.0, 4.0):
        assert f(tj.tensor([value, 1.0])).tolist() == [value * value, value]
    with pytest.raises(ZeroDivisionError):
        f(tj.tensor([0.0, 1.0]))
    assert f(tj.tensor([5.0, 1.0])).tolist() == [25.0, 5.0]


def test_lists_of_the_user_keep_plain_numbers() -> None:
    history: list[float] = []

    def function(x):
        history.append(x.sum().item())
        return x * history[-1]

    f = tj.compile(function)
    for x in random_inputs(6):
        f(x)
    assert len(history) == 6
    assert all(type(value) is float for value in history)


def test_written_tensors_and_numbers() -> None:
    total = tj.zeros(3)

    def function(x):
        total.add_(x.detach() * x.detach().sum().item())
        return total.sum().item() * 2

    f = tj.compile(function)
    expected = np.zeros(3)
    for x in random_inputs(10, size=3):
        value = x.detach().numpy()
        expected += value * value.sum()
        assert math.isclose(f(x), 2 * total.sum().item(), rel_tol=1e-5)
    assert np.allclose(total.tolist(), expected, rtol=1e-4)
    assert f.stats.recordings == 2


def test_functions_of_numbers_refuse_tensors_of_several_elements() -> None:
    def f(x, rate):
        return x * math.copysign(rate, x.sum().item()) + math.hypot(x, rate)

    g = tj.compile(f)
    for call in (f, g, g):
        with pytest.raises(ValueError, match="only one element tensors can be converted"):
            call(tj.ones(3), 0.5)
