"""Autocast and scaled losses: which dtypes products take, and which steps are skipped."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn


def test_products_take_half_precision_inside_and_only_there():
    layer, x = nn.Linear(3, 2), tj.ones(4, 3)
    with tj.autocast("cpu"):
        y = layer(x)
        assert y.dtype is tj.bfloat16
        assert nn.Conv1d(3, 2, 1)(tj.ones(1, 3, 5)).dtype is tj.bfloat16
        assert (x + 1).dtype is tj.float32
        with tj.autocast("cpu", enabled=False):
            assert layer(x).dtype is tj.float32
        with tj.autocast("cpu", dtype=tj.float16):
            assert layer(x).dtype is tj.float16
        assert (
            tj.ones(2, 2, dtype=tj.float64).mm(tj.ones(2, 2, dtype=tj.float64)).dtype is tj.float64
        )
    y.sum().backward()
    assert layer.weight.grad.dtype is tj.float32
    assert layer(x).dtype is tj.float32


def test_autocast_is_of_one_thread_and_a_decorator():
    found = []
    half = tj.autocast("cpu")(lambda: tj.ones(2, 2) @ tj.ones(2, 2))
    with tj.autocast("cpu"):
        thread = threading.Thread(
            target=lambda: found.append((tj.ones(1, 1) @ tj.ones(1, 1)).dtype)
        )
        thread.start()
        thread.join()
    assert found == [tj.float32]
    assert half().dtype is tj.bfloat16


def test_compiled_functions_know_whether_autocast_is_on():
    layer, x = nn.Linear(3, 2), tj.ones(4, 3)
    f = tj.compile(lambda x: layer(x), strict=True)
    for _ in range(3):
        assert f(x).dtype is tj.float32
        with tj.autocast("cpu"):
            assert tj.equal(f(x), layer(x))
            assert f(x).dtype is tj.bfloat16

    @tj.compile(strict=True)
    def inside(x):
        with tj.autocast("cpu"):
            return layer(x)

    assert [inside(x).dtype for _ in range(3)] == [tj.bfloat16] * 3


def test_devices_and_dtypes_without_autocast():
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        tj.autocast("toaster")
    with pytest.warns(UserWarning, match="not supported"), tj.autocast("cpu", dtype=tj.float64):
        assert (tj.ones(1, 1) @ tj.ones(1, 1)).dtype is tj.float32
    if not tj.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"), tj.cuda.amp.autocast():
            assert (tj.ones(1, 1) @ tj.ones(1, 1)).dtype is tj.float32
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not tj.cuda.amp.GradScaler().is_enabled()


def test_a_scaled_step_equals_a_plain_one():
    steps = []
    for scale in (False, True):
        p = nn.Parameter(tj.tensor([1.0, -2.0]))
        opt = tj.optim.SGD([p], lr=0.5)
        scaler = tj.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2, enabled=scale)
        for _ in range(2):
            opt.zero_grad()
            scaler.scale((p * p).sum()).backward()
            scaler.unscale_(opt)
            scaler.step(opt)
            scaler.update()
        steps.append(p.tolist())
    assert steps[0] == steps[1]
    assert scaler.get_scale() == 16.0


def test_steps_with_infinite_gradients_are_skipped():
    p = nn.Parameter(tj.tensor([1.0]))
    opt = tj.optim.SGD([p], lr=0.5)
    scaler = tj.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(p.sum() * float("inf")).backward()
    assert scaler.step(opt) is None
    scaler.update()
    assert (p.item(), scaler.get_scale()) == (1.0, 4.0)
    other = tj.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    for bad in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(ValueError, match="must be"):
            tj.amp.GradScaler("cpu", **bad)


def test_a_scaler_refuses_calls_out_of_order():
    p = nn.Parameter(tj.tensor([1.0]))
    opt = tj.optim.SGD([p], lr=0.5)
    scaler = tj.amp.GradScaler("cpu", init_scale=8.0)
    for early in (lambda: scaler.unscale_(opt), lambda: scaler.step(opt), scaler.update):
        with pytest.raises(AssertionError, match="_scale is None"):
            early()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(opt)
    with pytest.raises(RuntimeError, match="unscale_\\(\\) has already been called"):
        scaler.unscale_(opt)
    scaler.step(opt)
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
        scaler.step(opt)
    with pytest.raises(RuntimeError, match="called after step"):
        scaler.unscale_(opt)
    assert p.item() == 0.5
    scaler.update()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    opt.zero_grad()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(opt)


def test_a_scaled_loss_in_float16_does_not_overflow_and_its_gradients_are_refused():
    p = nn.Parameter(tj.tensor([3.0], dtype=tj.float16))
    scaler = tj.amp.GradScaler("cpu", init_scale=2.0**16)
    scaled = scaler.scale(p.sum())
    assert (scaled.dtype, scaled.item()) == (tj.float32, 3 * 2**16)
    scaled.backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(tj.optim.SGD([p], lr=0.5))


_FULL = {
    "cross_entropy": lambda x: nn.functional.cross_entropy(x, tj.tensor([0, 1, 2])),
    "nll_loss": lambda x: nn.functional.nll_loss(x, tj.tensor([0, 1, 2])),
    "mse_loss": lambda x: nn.functional.mse_loss(x, x.detach().flip(0)),
    "binary_cross_entropy_with_logits": lambda x: nn.functional.binary_cross_entropy_with_logits(
        x, tj.full_like(x, 0.25)
    ),
    "prod": lambda x: x.prod(),
    "cdist": lambda x: tj.cdist(x, x),
    "reflect": lambda x: nn.functional.pad(x, (1, 1), mode="reflect"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", _FULL)
def test_losses_compute_in_single_precision(name):
    x = (tj.arange(9.0).reshape(3, 3) / 7).bfloat16().requires_grad_()

    def run(x):
        with tj.autocast("cpu"):
            return _FULL[name](x)

    expected = _FULL[name](x.detach().float())
    f = tj.compile(run, strict=True)
    for found in (run(x), f(x), f(x)):
        assert found.dtype is tj.float32
        assert tj.allclose(found, expected)
        (gradient,) = tj.autograd.grad(found.sum(), x)
        assert gradient.dtype is tj.bfloat16
    assert _FULL[name](x).dtype is tj.bfloat16


def test_products_with_more_to_them_and_products_that_stay_as_they_are():
    a, v = tj.ones(3, 3), tj.ones(3)
    with tj.autocast("cpu"):
        assert tj.addmm(a, a, a).dtype is tj.bfloat16
        assert tj.baddbmm(a[None], a[None], a[None]).dtype is tj.bfloat16
        assert nn.functional.prelu(a, tj.ones(1)).dtype is tj.bfloat16
        assert tj.dot(v, v).dtype is tj.float32
        assert tj.mv(a, v).dtype is tj.float32
        assert (a @ a).dtype is tj.bfloat16


@pytest.mark.parametrize("infinite", [(), (4,)], ids=["finite", "once infinite"])
def test_a_scaler_inside_a_compiled_step_goes_on(infinite: tuple[int, ...]) -> None:
    def run(compiled: bool) -> list[Any]:
        layer = tj.nn.Linear(2, 2)
        with tj.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.zero_()
        optimizer = tj.optim.SGD(layer.parameters(), 0.1)
        scaler = tj.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

        def step(x: Any) -> Any:
            loss = layer(x).square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        function = tj.compile(step) if compiled else step
        seen = []
        for number in range(9):
            function(tj.full((1, 2), float("inf") if number in infinite else 1.0))
            seen.append((scaler.state_dict(), layer.weight.tolist()))
        return seen

    assert run(True) == run(False)
