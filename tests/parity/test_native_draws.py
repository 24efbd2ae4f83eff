"""Dropout in place and of channels, binomial counts, and other functions at the top, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import torch

import tracejit as tj

DROPOUTS = ["dropout_", "alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_"]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("name", [*DROPOUTS, "feature_dropout"])
@pytest.mark.parametrize(("p", "train"), [(0.0, True), (1.0, True), (0.5, False)])
def test_nothing_or_everything_is_dropped(name, p, train) -> None:
    for values in ([[1.0, NAN], [INF, -2.0]], [[[0.0, 2.0]]], np.zeros((0, 3))):
        ends = []
        for of in (torch, tj):
            x = of.tensor(values)
            found = getattr(of, name)(x, p, train)
            assert name[-1] != "_" or found is x
            ends.append([found.tolist(), x.tolist()])
        np.testing.assert_equal(ends[1], ends[0])


@pytest.mark.parametrize("name", DROPOUTS)
def test_what_is_dropped_in_place(name) -> None:
    def f(x, w):
        y = x * w
        view = y[:, 1:]
        getattr(tj, name)(view, 0.25, True)
        return y

    compiled = tj.compile(f)
    x, kept, gradients = tj.ones(40, 30, 2, dtype=tj.float64), [], []
    for g in (f, compiled, compiled, compiled):
        w = tj.full((1,), 2.0, dtype=tj.float64, requires_grad=True)
        tj.manual_seed(3)
        found = g(x, w)
        found.sum().backward()
        kept.append(found.tolist())
        gradients.append(w.grad.item())  # a sum, whose order kernels choose
        assert (found[:, 0] == 2).all()
        changed = (found[:, 1:] == found.max()).float()
        assert 0.7 < changed.mean().item() < 0.8
        together = (changed[..., 0] == changed[..., 1]).float().mean().item()
        assert (together == 1.0) is ("feature" in name)
    assert kept[1:] == kept[:1] * 3
    assert gradients[1:] == pytest.approx(gradients[:1] * 3)
    written = tj.ones(4, 4)
    into = tj.compile(lambda x: getattr(tj, name)(x, 1.0, True))
    for _ in range(3):
        written.fill_(1.0)
        assert into(written) is written
        assert written.tolist() == [[0.0] * 4] * 4


@pytest.mark.parametrize("name", [*DROPOUTS, "feature_dropout"])
def test_refused_dropouts(name) -> None:
    calls = [((1.5, True), {}), ((-0.1, False), {}), ((), {})]
    calls += [((0.5, True), {"rank": 1})] if "feature" in name else []
    for args, options in calls:
        for of in (torch, tj):
            x = of.ones(2, 2) if "rank" not in options else of.ones(2)
            with pytest.raises((RuntimeError, TypeError)):
                getattr(of, name)(x, *args)
    if name == "dropout_":
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
            tj.dropout_(tj.arange(3), 0.5, True)


def test_binomial_counts() -> None:
    count = [10.0, 0.0, 5.0, -1.0, 2.5, 2.0, 7.0]
    prob = [1.0, 0.5, 0.0, 0.5, 1.5, NAN, -0.5]
    ends = [of.binomial(of.tensor(count), of.tensor(prob)).tolist() for of in (torch, tj)]
    np.testing.assert_equal(ends[1], ends[0])

    def f(x):
        return tj.binomial(x, tj.tensor(0.25))

    compiled, draws = tj.compile(f), []
    for g in (f, compiled, compiled, compiled):
        tj.manual_seed(1)
        found = g(tj.full((20000,), 12.0))
        draws.append(found.tolist())
        assert abs(found.mean().item() - 3.0) < 0.06
        assert abs(found.var().item() - 2.25) < 0.1
    assert draws[1:] == draws[:1] * 3
    assert tj.binomial(tj.ones(2, 1), tj.ones(3)).shape == (2, 3)
    assert tj.binomial(tj.ones(0), tj.ones(0)).shape == (0,)
    with pytest.raises(ValueError, match="floating-point dtypes for count, got: Long"):
        tj.binomial(tj.tensor([10]), tj.tensor([0.5]))
    with pytest.raises(ValueError, match="finite"):
        tj.binomial(tj.tensor([INF]), tj.tensor([0.5]))


@pytest.mark.parametrize("name", ["matrix_rank", "symeig", "eig", "solve", "lstsq"])
def test_removed_functions_say_so(name) -> None:
    for of in (torch, tj):
        with pytest.raises(RuntimeError, match=r"is now removed\.[\s\S]*linalg\."):
            getattr(of, name)(of.ones(2, 2), of.ones(2, 2))
        with pytest.raises(TypeError, match="missing"):
            getattr(of, name)()


def test_other_shapes_in_place() -> None:
    def run(of: Any) -> list[Any]:
        x, y = of.arange(6.0), of.arange(6.0)
        assert of.as_strided_(x, (2, 2), (1, 2), 1) is x
        assert of.resize_as_(y, of.ones(2, 2)) is y
        return [x.tolist(), y.tolist()]

    assert run(tj) == run(torch)


def test_devices() -> None:
    assert tj.get_device_module("cpu") is tj.cpu
    assert tj.get_device_module(tj.device("cuda")) is tj.cuda
    for device in ("toaster", 3, "meta"):
        for of in (torch, tj):
            with pytest.raises(RuntimeError):
                of.get_device_module(device)
    assert not tj.is_distributed(tj.ones(1))


@pytest.mark.parametrize(
    "code",
    [
        "t.normal(a, b)",
        "t.normal(a, 2.0)",
        "t.normal(0.0, b)",
        "t.normal(a[:, None], b)",
        "t.poisson(b)",
    ],
)
def test_draws_are_no_functions_of_what_they_are_drawn_with(code: str) -> None:
    """Their gradients are zero: those of log densities at draws are the estimates that programs make."""

    def slopes(t: Any, a: Any, b: Any) -> Any:
        drawn = eval(code, {"t": t, "a": a, "b": b})
        return t.autograd.grad((drawn * drawn).sum(), [a, b], allow_unused=True)

    compiled = tj.compile(lambda a, b: slopes(tj, a, b))
    for t, run in ((torch, slopes), (tj, slopes), *[(tj, lambda t, a, b: compiled(a, b))] * 3):
        a, b = (t.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [0.5, 3.0]))
        found = run(t, a, b)
        assert [g is None for g in found] == [name not in code.split("(")[1] for name in "ab"]
        assert all(not g.any() for g in found if g is not None)
