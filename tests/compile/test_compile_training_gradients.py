"""compile(): gradients inside a recorded function: what is in ``.grad``, histories, what else can be there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from training_tools import Job, assert_alike, batch, follow, train, world

lrs = tj.optim.lr_scheduler


# --- gradients as state -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "zeros", "kept", "module"])
def test_gradients_from_before(mode: str) -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        if mode == "module":
            job.model.zero_grad()
        elif mode != "kept":
            job.optimizer.zero_grad(set_to_none=mode == "none")
        loss = nn.functional.cross_entropy(job.model(x), y)
        loss.backward()
        return loss

    eager, compiled = Job(step=step), Job(step=step).compiled(strict=True)
    follow(eager, compiled, 5)
    assert compiled.stats.recordings == 1 + (mode in ("zeros", "kept"))
    held = compiled.model[0].weight.grad
    follow(eager, compiled, 1, 20)
    assert (compiled.model[0].weight.grad is held) == (mode in ("zeros", "kept"))
    for job in (eager, compiled):
        job.model[0].weight.grad = None
    follow(eager, compiled, 3, 30)


def test_accumulation_over_several_passes() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        total = 0.0
        for part in range(3):
            loss = nn.functional.cross_entropy(
                job.model(x[part * 2 : part * 2 + 2]), y[part * 2 :][:2]
            )
            (loss / 3).backward()
            total = total + loss.detach()
        job.optimizer.step()
        return total

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled(strict=True)
    follow(eager, compiled, 5)
    assert compiled.stats.recordings == 1


def test_two_steps_in_one_call() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        for _ in range(2):
            loss = train(job, x, y)
        return loss

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled(strict=True)
    follow(eager, compiled, 5)
    assert compiled.optimizer.state[compiled.model[0].bias]["step"].item() == 10
    assert compiled.stats.recordings == 1


def test_gradients_read_and_written_by_hand() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(job.model(x), y)
        loss.backward()
        with tj.no_grad():
            for p in job.model.parameters():
                p -= p.grad * 0.1
                p.grad = None
            job.model[0].bias.grad = job.model[0].bias * 2
            job.model[2].bias.data.mul_(0.99)
            job.model[2].weight.data[0] = 0.5
        return loss, job.model[0].bias.grad

    eager, compiled = Job(step=step), Job(step=step).compiled(strict=True)
    for number in range(5):
        x, y = batch(number)
        (a, g), (b, h) = eager.run(x, y), compiled.run(x, y)
        np.testing.assert_allclose(b.item(), a.item(), rtol=1e-4)
        np.testing.assert_allclose(h.numpy(), g.numpy(), rtol=1e-4)
        assert h is compiled.model[0].bias.grad
        assert_alike(eager, compiled)
    assert compiled.stats.compiled_calls == 3, compiled.run.explain()


def test_gradients_of_arguments() -> None:
    def step(w: Any, x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss

    f = tj.compile(step, strict=True)
    for k in range(1, 6):
        w = tj.full((3,), float(k), requires_grad=True)
        f(w, tj.arange(3.0))
        assert w.grad.tolist() == [0, 1, 2]
        f(w, tj.arange(3.0))
        assert w.grad.tolist() == [0, 2, 4]
    assert f.stats.recordings == 2
    assert f.stats.compiled_calls == 8
    w.register_hook(lambda g: g * 10)
    tj.compile(step)(w, tj.arange(3.0))
    assert w.grad.tolist() == [0, 12, 24]
    with pytest.raises(tj.errors.CaptureError, match="hook"):
        f(w, tj.arange(3.0))


def test_a_gradient_known_by_another_name() -> None:
    w = tj.ones(2, requires_grad=True)
    w.grad = tj.ones(2)
    alias = w.grad

    def step(x: Any) -> Any:
        (w * x).sum().backward()
        return alias * 1

    f = tj.compile(step)
    for k in range(1, 5):
        assert f(tj.ones(2)).tolist() == [1 + k] * 2
    w.grad = tj.zeros(2)
    for k in range(1, 5):
        assert f(tj.ones(2)).tolist() == [5, 5]
        assert w.grad.tolist() == [k, k]


def test_one_gradient_in_two_places() -> None:
    a, b = tj.ones(2, requires_grad=True), tj.ones(2, requires_grad=True)

    def step(x: Any) -> None:
        (a * x).sum().backward()
        (b * x * 2).sum().backward()

    f = tj.compile(step)
    for _ in range(4):
        f(tj.ones(2))
    assert f.stats.compiled_calls == 2
    a.grad = b.grad = tj.zeros(2)
    for k in range(1, 5):
        f(tj.ones(2))
        assert a.grad is b.grad
        assert a.grad.tolist() == [3 * k] * 2


# --- the history of what is returned ------------------------------------------------------------------


def test_a_second_backward_pass() -> None:
    for job in (Job(), Job().compiled(strict=True)):
        for number in range(3):
            loss = job.run(*batch(number))
            assert loss.requires_grad
            assert not loss.is_leaf
            before = world(job)
            with pytest.raises(RuntimeError, match="a second time"):
                loss.backward()
            with pytest.raises(RuntimeError, match="a second time"):
                tj.autograd.grad(loss, job.model[0].weight)
            assert before.keys() == world(job).keys()


def test_a_history_that_was_kept() -> None:
    w = tj.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * w * x).sum()
        loss.backward(retain_graph=True)
        return loss

    f = tj.compile(step, strict=True)
    for k in range(1, 5):
        f(tj.full((3,), float(k))).backward()
        assert w.grad.tolist() == [4 * k] * 3
    assert f.stats.compiled_calls == 3


def test_a_history_through_a_changed_parameter() -> None:
    w = tj.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        with tj.no_grad():
            w.mul_(0.5)
        return (w * x).sum()

    f = tj.compile(step)
    for k in range(1, 4):
        w.grad = None
        y = f(tj.ones(3) * k)
        assert y.item() == 3 * k * 0.5**k
        y.backward()
        assert w.grad.tolist() == [k] * 3
    assert f.stats.compiled_calls == 2
    assert not f.reasons


def test_a_tape_from_outside_is_left_to_eager() -> None:
    w = tj.ones(3, requires_grad=True)
    f = tj.compile(lambda y: y.backward())
    for k in range(1, 4):
        f((w * k).sum())
        assert w.grad.tolist() == [k * (k + 1) / 2] * 3
    assert "from outside" in f.reasons[0]


# --- more that can be inside ------------------------------------------------------------------------------


def test_dropout_and_batch_statistics() -> None:
    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = nn.Buffer(tj.zeros(8))

        def forward(self, x: Any) -> Any:
            mean = x.mean(0)
            with tj.no_grad():
                self.mean.mul_(0.9).add_(mean, alpha=0.1)
            return x - mean

    def model() -> Any:
        return nn.Sequential(nn.Linear(5, 8), Centred(), nn.Dropout(0.3), nn.Linear(8, 3))

    eager, compiled = (
        Job("momentum", model=model),
        Job("momentum", model=model).compiled(strict=True),
    )
    for number in range(5):
        x, y = batch(number)
        for job in (eager, compiled):
            tj.manual_seed(number)
            job.run(x, y)
            job.draw = tj.rand(1).item()
        assert eager.draw == compiled.draw
        assert_alike(eager, compiled)
    assert compiled.stats.recordings == 2


def test_gradients_as_values_and_of_gradients() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        x = x.clone().requires_grad_()
        out = job.model(x)
        (slope,) = tj.autograd.grad(out.sum(), x, create_graph=True)
        loss = nn.functional.cross_entropy(out, y) + (slope**2).mean()
        loss.backward()
        job.optimizer.step()
        return loss

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled(strict=True)
    follow(eager, compiled, 5)
    assert compiled.stats.recordings == 1


def test_custom_functions() -> None:
    class Cube(tj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        loss = (Cube.apply(job.model(x)) ** 2).mean()
        loss.backward()
        job.optimizer.step()
        return loss

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled(strict=True)
    follow(eager, compiled, 5)
    assert compiled.stats.compiled_calls == 4


def test_in_place_forward_operations() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        h = job.model[0](x)
        h.mul_(2).tanh_()
        h[:, 0] = h[:, 1] * 3
        h[1:, 2:4].add_(h[:-1, 2:4])
        loss = nn.functional.cross_entropy(job.model[2](h), y)
        loss.backward()
        job.optimizer.step()
        return loss

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled(strict=True)
    follow(eager, compiled, 5)


def test_a_moving_average_and_a_closure() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        def closure() -> Any:
            job.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(job.model(x), y)
            loss.backward()
            return loss

        loss = job.optimizer.step(closure)
        with tj.no_grad():
            for average, p in zip(job.averages, job.model.parameters(), strict=True):
                average.mul_(0.9).add_(p, alpha=0.1)
        return loss

    eager, compiled = Job("adam", step=step), Job("adam", step=step)
    for job in (eager, compiled):
        job.averages = [p.detach().clone() for p in job.model.parameters()]
    compiled.compiled(strict=True)
    follow(eager, compiled, 5)
    for a, b in zip(eager.averages, compiled.averages, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-4, atol=1e-6)


def test_groups_and_two_optimizers() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        for optimizer in job.all:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(job.model(x), y)
        loss.backward()
        for optimizer in job.all:
            optimizer.step()
        return loss

    jobs = Job("sgd", step=step), Job("sgd", step=step)
    for job in jobs:
        first, second = job.model[0], job.model[2]
        groups = [{"params": [first.weight], "lr": 0.05}, {"params": [first.bias], "momentum": 0.5}]
        job.optimizer = tj.optim.SGD(groups, lr=0.1)
        job.other = tj.optim.AdamW(second.parameters(), lr=0.01)
        job.all = [job.optimizer, job.other]
    jobs[1].compiled(strict=True)
    follow(*jobs, 6)
    assert jobs[1].stats.recordings == 2


def test_verify_checks_whole_steps() -> None:
    eager, compiled = Job("adamw", "sequence"), Job("adamw", "sequence").compiled(verify=True)
    follow(eager, compiled, 6)
    assert compiled.stats.compiled_calls == 5


def test_verify_finds_wrong_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("sgd").compiled(verify=True)
    for number in range(3):
        job.run(*batch(number))
    weight = job.model[0].weight
    plain = job.run.function

    def other(*args: Any) -> Any:
        result = plain(*args)
        weight.grad.mul_(2)
        return result

    monkeypatch.setattr(job.run, "function", other)
    with pytest.raises(tj.errors.VerificationError, match="grad"):
        job.run(*batch(3))


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_gradients_with_a_history_of_their_own() -> None:
    w = tj.tensor([1.0, 2.0], requires_grad=True)

    def step(x: Any) -> None:
        w.grad = None
        (w * w * w * x).sum().backward(create_graph=True)

    f = tj.compile(step, strict=True)
    for k in range(1, 5):
        f(tj.ones(2) * k)
        slope = w.grad
        assert slope.tolist() == [3 * k, 12 * k]
        assert slope.requires_grad
        (second,) = tj.autograd.grad(slope.sum(), w)
        assert second.tolist() == [6 * k, 12 * k]
    assert f.stats.compiled_calls >= 2, f.explain()
