"""compile(): branches on tensor values, values that Python reads, randomness."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit import config

nn = tj.nn
F = nn.functional


def same_as_eager(function, inputs, rounds: int = 3):
    """Values and gradients of many calls, eager and compiled; returns the compiled function."""
    f = tj.compile(function)
    for _ in range(rounds):
        for values in inputs:
            a = tj.tensor(values, requires_grad=True)
            b = tj.tensor(values, requires_grad=True)
            ours, theirs = f(a), function(b)
            assert np.array_equal(ours.tolist(), theirs.tolist(), equal_nan=True), values
            if theirs.requires_grad:
                ours.sum().backward()
                theirs.sum().backward()
                assert np.array_equal(a.grad.tolist(), b.grad.tolist(), equal_nan=True), values
    return f


def test_both_sides_of_nested_branches() -> None:
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y * 3 if y[0] > 1 else y - x * x
        elif (y < -10).any():
            y = x.abs()
        else:
            y = y * y
        return y + 1

    inputs = [[1.0, -1.0, 2.0], [0.1, 5.0, 1.0], [-30.0, 1.0, 1.0], [-1.0, -1.0, 0.0]]
    g = same_as_eager(f, inputs)
    assert g.stats.recordings == 4
    assert g.stats.compiled_calls == 8
    tree = str(g.explain())
    assert "4 path(s)" in tree
    assert "if y.sum() > 0" in tree
    assert "an unseen branch at test_compile_guards.py:" in tree


def test_loops_with_data_dependent_trip_counts() -> None:
    def f(x):
        count = 0
        while x.sum() < 100:
            x = x * 2 + 1
            count += 1
        return x * count

    g = same_as_eager(f, [[float(k), 1.0] for k in range(1, 60, 7)])
    assert g.stats.compiled_calls > 15


def test_item_float_and_int() -> None:
    def f(x):
        a = x[0].item()
        b = float(x[1])
        c = int(x[2])
        return x * a + b if c > 2 else x - c

    same_as_eager(f, [[1.0, 2.0, 3.0], [1.0, 2.0, 1.0], [2.0, 0.0, 3.0], [2.0, -0.0, 3.0]])


def test_nan_and_signed_zero_in_guards() -> None:
    def f(x):
        v = x[0].item()
        return x * 2 if v != v else x + (1 if str(v) == "-0.0" else 2)

    nan = float("nan")
    g = same_as_eager(f, [[nan, 1.0], [0.0, 1.0], [-0.0, 1.0], [nan, 2.0]])
    assert not g.reasons
    assert g.stats.recordings == 4  # the first was of one number, then of any


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "bool", "float64"])
def test_guards_of_every_kind_of_dtype(dtype: str) -> None:
    f = tj.compile(lambda x: (x * 2, x[0].item(), bool(x[1])))
    for _ in range(3):
        for first in (0, 1):
            x = tj.tensor([first, 1]).to(getattr(tj, dtype))
            _, value, truth = f(x)
            assert (value, truth, type(value)) == (x[0].item(), True, type(x[0].item()))
    assert f.stats.recordings == 2


def test_more_paths_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "max_paths", 4)
    f = tj.compile(lambda x: x * float(str(x[0].item())))
    for k in range(10):
        assert f(tj.tensor([float(k), 1.0])).tolist() == [k * k, k]
    assert f.stats.recordings == 5  # the first, which was of one number, made room
    assert any("more than 4 recorded paths" in reason for reason in f.reasons)
    for k in range(1, 5):
        assert f(tj.tensor([float(k), 1.0])).tolist() == [k * k, k]
    assert f.stats.compiled_calls == 4


def test_values_that_leave_run_eagerly() -> None:
    f = tj.compile(lambda x: x + float(np.sum(x.numpy())))
    for k in range(4):
        assert f(tj.ones(2) * k).tolist() == [3 * k, 3 * k]
    assert any("numpy()" in reason for reason in f.reasons)
    with pytest.raises(tj.errors.CaptureError, match=r"numpy\(\)"):
        tj.compile(lambda x: x.numpy().max(), strict=True)(tj.ones(1))


def test_random_numbers_are_those_of_eager() -> None:
    def f(x):
        y = F.dropout(x, 0.5) + tj.rand(3) + tj.randn(3)
        if y.sum() > 3:
            y = y * tj.bernoulli(tj.full((3,), 0.5))
        return y + tj.randint(0, 10, (3,))

    g = tj.compile(f)
    for seed in range(12):
        x = tj.ones(3) * (seed % 3)
        tj.manual_seed(seed)
        expected, state = f(x).tolist(), tj.get_rng_state().tolist()
        follow = tj.rand(2).tolist()
        tj.manual_seed(seed)
        assert np.allclose(g(x).tolist(), expected, rtol=1e-6)
        assert tj.get_rng_state().tolist() == state
        assert tj.rand(2).tolist() == follow
    assert g.stats.compiled_calls >= 8


def test_dropout_masks_agree_in_backward() -> None:
    f = tj.compile(lambda x: F.dropout(x * 2, 0.5).sum())
    for seed in range(4):
        tj.manual_seed(seed)
        x = tj.ones(50, requires_grad=True)
        y = f(x)
        y.backward()
        assert abs(x.grad.sum().item() - y.item()) < 1e-4


def test_generators_of_their_own() -> None:
    g = tj.Generator().manual_seed(5)
    f = tj.compile(lambda x: x + tj.rand(2, generator=g) + tj.rand(2))
    tj.manual_seed(0)
    found = [f(tj.zeros(2)).tolist() for _ in range(4)]
    tj.manual_seed(0)
    g.manual_seed(5)
    expected = [(tj.rand(2, generator=g) + tj.rand(2)).tolist() for _ in range(4)]
    assert np.allclose(found, expected)


def test_seeding_inside() -> None:
    def f(x):
        a = x + tj.rand(2)
        tj.manual_seed(3)
        return a + tj.rand(2)

    g = tj.compile(f)
    for seed in range(4):
        tj.manual_seed(seed)
        expected = f(tj.zeros(2)).tolist()
        after = tj.rand(1).item()
        tj.manual_seed(seed)
        assert g(tj.zeros(2)).tolist() == expected
        assert tj.rand(1).item() == after


def test_an_index_out_of_range_is_the_eager_error() -> None:
    table = tj.arange(12.0).reshape(4, 3)
    log = tj.zeros(3)

    def f(index):
        log.add_(1)
        return F.embedding(index, table).sum()

    g = tj.compile(f)
    good, bad = tj.tensor([0, 3]), tj.tensor([0, 4])
    for _ in range(3):
        assert g(good).item() == 33
    with pytest.raises((RuntimeError, IndexError)) as eager:
        f(bad)
    log.fill_(3.0)
    for _ in range(2):
        with pytest.raises(type(eager.value)) as compiled:
            g(bad)
        assert str(compiled.value).split("\n")[0] == str(eager.value).split("\n")[0]
        assert "test_compile_guards.py" in str(compiled.value) or "\n" not in str(eager.value)
    assert log.tolist() == [5] * 3  # as eager: the write comes before the failure
    assert g(good).item() == 33
    assert not g.reasons
    strict = tj.compile(f, strict=True)
    for _ in range(2):
        strict(good)
    with pytest.raises(type(eager.value)):
        strict(bad)


def test_one_branch_that_cannot_be_recorded() -> None:
    f = tj.compile(lambda x: x * 2 if x.sum() > 0 else x + float(np.sum(x.numpy())))
    for _ in range(4):
        assert f(tj.ones(2)).tolist() == [2, 2]
        assert f(-tj.ones(2)).tolist() == [-3, -3]
    assert f.stats.compiled_calls == 3
    assert f.stats.recordings == 2
    assert len(f.reasons) == 1
    assert "unseen branches run eagerly: numpy()" in str(f.explain())


def test_one_hot_compares_classes_and_does_not_read_them() -> None:
    f = tj.compile(lambda x: F.one_hot(x, 4) * 2)
    for k in range(6):
        assert (
            f(tj.tensor([k % 4, 2])).tolist() == (F.one_hot(tj.tensor([k % 4, 2]), 4) * 2).tolist()
        )
    assert (f.stats.recordings, f.stats.compiled_calls) == (1, 5)
    for bad, words in ((4, "smaller than num_classes"), (-1, "non-negative")):
        with pytest.raises(RuntimeError, match=words):
            f(tj.tensor([bad, 2]))
    assert not f.reasons
