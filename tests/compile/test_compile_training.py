"""compile(): whole training steps (gradients, clipping, optimizer, schedule) as one recorded program."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from training_tools import OPTIMIZERS, SCHEDULES, Job, assert_alike, batch, follow, train

lrs = tj.optim.lr_scheduler


# --- one trace ------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name: str) -> None:
    eager, compiled = Job(name), Job(name).compiled(strict=True)
    follow(eager, compiled, 6)
    first = name in ("momentum", "nesterov")  # their first step has another formula
    assert compiled.stats.recordings == 1 + first
    assert compiled.stats.compiled_calls == 5 - first
    assert len(compiled.run.entries) == 1


@pytest.mark.parametrize("nesterov", [True, False])
def test_matrices_made_orthogonal(nesterov: bool) -> None:
    """Muon, with numbers and the length of its iteration changed between steps."""

    def job() -> tuple[Any, Any, Any]:
        tj.manual_seed(2)
        layer = tj.nn.Linear(6, 4, bias=False)
        made = tj.optim.Muon(layer.parameters(), lr=0.1, nesterov=nesterov)

        def step(x: tj.Tensor) -> tj.Tensor:
            made.zero_grad()
            loss = layer(x).square().mean()
            loss.backward()
            made.step()
            return loss

        return layer, made, step

    (eager, slow, plain), (compiled, quick, step) = job(), job()
    run = tj.compile(step)
    for number in range(8):
        x = tj.randn(3, 6, generator=tj.Generator().manual_seed(number))
        plain(x), run(x)
        if number == 3:
            for group in (*slow.param_groups, *quick.param_groups):
                group["lr"], group["momentum"], group["ns_steps"] = 0.05, 0.3, 2
        np.testing.assert_allclose(
            np.array(eager.weight.detach()), np.array(compiled.weight.detach()), atol=2e-2
        )  # the directions are computed in bfloat16
    assert run.stats.compiled_calls >= 5, run.explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("optimizer", ["adamw", "momentum"])
def test_every_schedule(name: str, optimizer: str) -> None:
    eager, compiled = Job(optimizer, name), Job(optimizer, name).compiled(strict=True)
    follow(eager, compiled, 12)
    assert compiled.stats.recordings <= 2, compiled.run.explain()
    assert compiled.stats.compiled_calls >= 10


def test_a_thousand_steps_are_one_trace() -> None:
    eager, compiled = Job("adam", "lambda", clip=1.0), Job("adam", "lambda", clip=1.0).compiled()
    for number in range(1000):
        x, y = batch(number % 7)
        compiled.run(x, y)
        if number < 50:
            eager.run(x, y)
            assert_alike(eager, compiled)
    assert compiled.stats.recordings == 1
    assert compiled.stats.compiled_calls == 999
    assert compiled.optimizer.state[compiled.model[0].weight]["step"].item() == 1000
    assert compiled.schedule.last_epoch == 1000


def test_equal_to_the_last_bit_where_the_order_is_equal() -> None:
    """Elementwise gradients and updates: nothing is summed, so nothing may differ."""

    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        ((job.model.w * x - y) * x + job.model.b).backward(y)
        nn.utils.clip_grad_value_(job.model.parameters(), 0.5)
        job.optimizer.step()
        job.schedule.step()

    class Elementwise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(tj.randn(4, 5)), nn.Parameter(tj.randn(4, 5))
            self.w.data[0, 0] = -0.0

    for name in set(OPTIMIZERS) - {"adafactor"}:  # which takes means
        options = {"schedule": "cosine", "step": step, "model": Elementwise}
        eager, compiled = Job(name, **options), Job(name, **options).compiled(strict=True)
        for number in range(6):
            rng = np.random.default_rng(number)
            x, y = (tj.from_numpy(rng.standard_normal((4, 5)).astype(np.float32)) for _ in "xy")
            eager.run(x, y)
            compiled.run(x, y)
            assert_alike(eager, compiled, exact=True)
        assert compiled.stats.compiled_calls >= 4


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes(dtype: str) -> None:
    kind = getattr(tj, dtype)

    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        loss = (job.model(x.to(kind)) ** 2).mean()
        loss.backward()
        job.optimizer.step()
        return loss

    def model() -> Any:
        return nn.Linear(5, 3).to(kind)

    eager = Job("adamw", step=step, model=model)
    compiled = Job("adamw", step=step, model=model).compiled(strict=True)
    tolerance = 1e-9 if dtype == "float64" else 2e-2
    for number in range(5):
        x, y = batch(number)
        a, b = eager.run(x, y), compiled.run(x, y)
        np.testing.assert_allclose(b.item(), a.item(), rtol=tolerance)
        for p, q in zip(eager.model.parameters(), compiled.model.parameters(), strict=True):
            a, b = (t.detach().float().numpy() for t in (p, q))
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)
    assert compiled.stats.compiled_calls == 4


def test_parameters_without_gradient_or_of_no_size() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(5, 3), nn.Linear(2, 2)
            self.scalar = nn.Parameter(tj.tensor(1.5))
            self.none = nn.Parameter(tj.zeros(0, 3))

        def forward(self, x: Any) -> Any:
            return self.used(x) * self.scalar + self.none.sum()

    for name in ("adam", "momentum"):
        eager = Job(name, "step", model=Odd, clip=0.5)
        compiled = Job(name, "step", model=Odd, clip=0.5).compiled(strict=True)
        follow(eager, compiled, 5)
        assert compiled.model.unused.weight.grad is None
        assert compiled.stats.recordings <= 2


# --- the program ----------------------------------------------------------------------------------------------


def test_updates_are_written_in_place_and_old_gradients_freed() -> None:
    job = Job("adam").compiled()
    for number in range(3):
        job.run(*batch(number))
    (entry,) = (e for found in job.run.entries.values() for e in found)
    (program,) = entry.programs()
    kinds = [slot.kind for slot in program.plan.output_slots]
    assert kinds.count("input") >= 6  # two matrices with two moments each
    weight = job.model[0].weight
    memory, old = weight.data_ptr(), weakref.ref(weight.grad)
    job.run(*batch(4))
    gc.collect()
    assert weight.data_ptr() == memory
    assert old() is None
    assert program.plan.launches <= 18


def test_values_read_after_a_guard_are_not_overwritten_early() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        before = job.model[0].weight.detach().clone()
        loss = train(job, x, y)
        moved = (job.model[0].weight - before).abs().max()
        if moved > 1e-3:
            return moved.detach()
        return loss.detach()

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled(strict=True)
    follow(eager, compiled, 5)


# --- what stays eager, with a reason --------------------------------------------------------------------------


def reason_of(function: Any, *args: Any, times: int = 4) -> str:
    f = tj.compile(function)
    for _ in range(times):
        f(*args)
    assert f.stats.compiled_calls == 0
    return " ".join(f.reasons)


def test_reasons() -> None:
    w = tj.ones(3, requires_grad=True)
    optimizer = tj.optim.Adam([w], lr=0.1)
    plateau = lrs.ReduceLROnPlateau(optimizer)
    asked = list[int]()
    schedule = lrs.LambdaLR(optimizer, lambda epoch: asked.append(epoch) or 1.0)

    def hooked(x: Any) -> Any:
        y = w * x
        total = y.sum()
        y.register_hook(lambda g: g * 2)  # it sees gradients of what was computed before, too
        return total

    def on_plateau(x: Any) -> None:
        plateau.step(x.sum() if plateau.in_cooldown else x.max())

    def early(x: Any) -> None:
        (w * x).sum().backward()
        schedule.step()
        optimizer.step()

    def saved(x: Any) -> Any:
        return optimizer.state_dict()["param_groups"][0]["lr"] * x

    def rate(x: Any) -> Any:
        schedule.step()
        return schedule.get_last_lr()[0] * x

    def retained(x: Any) -> Any:
        y = w * x
        y.retain_grad()
        return y

    x = tj.ones(3)
    optimizer.step()
    assert "register_hook" in reason_of(hooked, x)
    assert "in_cooldown" in reason_of(on_plateau, x)
    assert "scheduled in one call" in reason_of(early, x)
    assert "state_dict" in reason_of(saved, x)
    assert "a learning rate, which is set at the end" in reason_of(rate, x)
    assert "retains its gradient" in reason_of(retained, x)


def test_a_learning_rate_that_python_reads_is_guarded() -> None:
    job = Job("sgd", step=lambda job, x, y: x.sum() * job.optimizer.param_groups[0]["lr"])
    job.compiled()
    x, y = batch(0)
    for rate in (0.1, 0.1, 0.2, 0.2, 0.1):
        job.optimizer.param_groups[0]["lr"] = rate
        assert job.run(x, y).item() == pytest.approx(x.sum().item() * rate)


def test_a_step_that_reads_its_count_stays_eager() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        train(job, x, y)
        return job.optimizer.state[job.model[0].bias]["step"] * 1.0

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled()
    for number in range(4):
        assert compiled.run(*batch(number)).item() == eager.run(*batch(number)).item() == number + 1
    assert any("step count" in reason for reason in compiled.run.reasons)


@pytest.mark.parametrize("rule", [tj.optim.SGD, tj.optim.Adam, tj.optim.NAdam, tj.optim.Adafactor])
def test_a_step_beside_attributes_whose_names_are_computed(rule: type[tj.optim.Optimizer]) -> None:
    layer = nn.Linear(3, 2)
    optimizer = rule(layer.parameters(), lr=0.01)  # type: ignore[call-arg]
    names = ["for", "ward"]

    @tj.compile
    def step(x: tj.Tensor) -> tj.Tensor:
        optimizer.zero_grad()
        loss = getattr(layer, names[0] + names[1])(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(6):
        step(tj.randn(4, 3))
    assert step.stats.compiled_calls >= 4, step.explain()


@pytest.mark.parametrize("start", [0, None, 0.0])
def test_numbers_that_are_set_back_leave_a_step_compiled(start: Any) -> None:
    class Meter:
        def __init__(self) -> None:
            self.reset()

        def reset(self) -> None:
            self.mean, self.count = start, 0

        def update(self, value: float) -> None:
            self.count += 1
            self.mean = value if self.mean is None else self.mean * 0.5 + value

    def run(compiled: bool) -> tuple[list[float], Any]:
        meter = Meter()

        def step(x: Any) -> None:
            meter.update(x.sum().item())

        f = tj.compile(step) if compiled else step
        found = []
        for i in range(60):
            if i % 12 == 0:
                meter.reset()
            f(tj.ones(3) * i)
            found.append(meter.mean)
        return found, f

    expected, _ = run(False)
    found, f = run(True)
    assert found == pytest.approx(expected)
    assert f.stats.compiled_calls >= 45, f.explain()
    assert f.stats.recordings <= 10, f.explain()
