"""compile(): training steps whose model, optimizer or gradients the user changes between calls; errors in a step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from training_tools import Job, assert_alike, batch, follow, train

lrs = tj.optim.lr_scheduler


# --- what users do between calls --------------------------------------------------------------------


def freeze(job: Job) -> None:
    job.model[0].weight.requires_grad_(False)


def thaw(job: Job) -> None:
    job.model[0].weight.requires_grad_(True)


def change_rate(job: Job) -> None:
    job.optimizer.param_groups[0]["lr"] *= 0.3


def no_decay(job: Job) -> None:
    job.optimizer.param_groups[0]["weight_decay"] = 0.0


def other_betas(job: Job) -> None:
    job.optimizer.param_groups[0]["betas"] = (0.7, 0.99)


def eager_step(job: Job) -> None:
    job.plain(*batch(99))


def eager_gradients(job: Job) -> None:
    (job.model(batch(98)[0]) ** 2).sum().backward()


def drop_gradients(job: Job) -> None:
    job.model.zero_grad()


def zero_gradients(job: Job) -> None:
    job.optimizer.zero_grad(set_to_none=False)


KEPT: dict[str, Any] = {}


def keep_gradient(job: Job) -> None:
    held = job.model[2].bias.grad
    KEPT[f"gradient {id(job)}"] = held, held.tolist()


def gradient_was_kept(job: Job) -> None:
    held, values = KEPT[f"gradient {id(job)}"]
    assert held.tolist() == values
    assert held is not job.model[2].bias.grad


def change_gradient(job: Job) -> None:
    job.model[2].bias.grad = tj.ones(3) * 5


def save_all(job: Job) -> None:
    job.saved = copy.deepcopy((job.model.state_dict(), job.optimizer.state_dict()))


def load_all(job: Job) -> None:
    job.model.load_state_dict(job.saved[0])
    job.optimizer.load_state_dict(job.saved[1])


def forget_state(job: Job) -> None:
    job.optimizer.state.clear()


def replace_state(job: Job) -> None:
    state = job.optimizer.state[job.model[0].bias]
    name = next(k for k in state if k != "step")
    state[name] = tj.ones(7) * 0.1


def change_state(job: Job) -> None:
    for state in job.optimizer.state.values():
        state["step"].fill_(50.0)


def add_group(job: Job) -> None:
    job.optimizer.add_param_group({"params": [nn.Parameter(tj.ones(2))], "lr": 1.0})


def hook_on(job: Job) -> None:
    job.handle = job.model[0].bias.register_hook(lambda g: g * 3)


def hook_off(job: Job) -> None:
    job.handle.remove()


def late_hook_on(job: Job) -> None:
    def doubled(p: tj.Tensor) -> None:
        p.grad.mul_(2)

    job.handle = job.model[0].bias.register_post_accumulate_grad_hook(doubled)


def step_hook(job: Job) -> None:
    job.optimizer.register_step_pre_hook(lambda o, a, k: change_rate(job))


def new_values(job: Job) -> None:
    job.model[0].weight.data = tj.ones(7, 5) * 0.1


def in_place(job: Job) -> None:
    with tj.no_grad():
        job.model[0].weight.mul_(0.5)


def other_parameter(job: Job) -> None:
    job.model[0].bias = nn.Parameter(tj.ones(7))


ACTIONS: list[tuple[Callable[[Job], None], ...]] = [
    (freeze, thaw),
    (change_rate, change_rate),
    (no_decay,),
    (other_betas,),
    (eager_step, eager_step),
    (eager_gradients, drop_gradients, zero_gradients),
    (keep_gradient, gradient_was_kept),
    (change_gradient,),
    (save_all, load_all),
    (forget_state,),
    (replace_state,),
    (change_state,),
    (add_group,),
    (hook_on, hook_off),
    (late_hook_on, hook_off),
    (step_hook,),
    (new_values, in_place),
    (other_parameter,),
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("actions", ACTIONS, ids=lambda found: found[0].__name__)
def test_between_calls(actions: tuple[Callable[[Job], None], ...]) -> None:
    schedule = None if add_group in actions else "lambda"
    eager, compiled = Job("adamw", schedule), Job("adamw", schedule).compiled()
    follow(eager, compiled, 3)
    for number, action in enumerate(actions, 1):
        action(eager)
        action(compiled)
        follow(eager, compiled, 3, 10 * number)
    assert compiled.stats.compiled_calls >= 2


@pytest.mark.parametrize("action", [keep_gradient, eager_gradients, change_rate, zero_gradients])
def test_what_needs_no_new_trace(action: Callable[[Job], None]) -> None:
    job = Job("adamw", "lambda").compiled()
    for number in range(8):
        job.run(*batch(number))
        action(job)
    assert job.stats.recordings == 1
    assert job.stats.compiled_calls == 7


def test_a_hook_costs_only_its_time() -> None:
    job = Job("adam").compiled()
    for number in range(3):
        job.run(*batch(number))
    hook_on(job)
    before = job.stats.compiled_calls
    for number in range(3):
        job.run(*batch(number))
    assert job.stats.compiled_calls == before + 2
    hook_off(job)
    for number in range(3):
        job.run(*batch(number))
    assert job.stats.compiled_calls == before + 5
    assert "a gradient hook was added" in str(job.run.explain())


# --- guards and errors: all or nothing ------------------------------------------------------------------


def test_a_step_skipped_by_a_guard() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(job.model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(job.model.parameters(), 1.0)
        if norm.isfinite():
            job.optimizer.step()
        job.schedule.step()
        return loss

    eager = Job("adam", "lambda", step=step)
    compiled = Job("adam", "lambda", step=step).compiled(strict=True)
    for number, bad in enumerate([False, False, True, False, True, True, False]):
        x, y = batch(number)
        if bad:
            x[0, 0] = float("nan")
        eager.run(x, y)
        compiled.run(x, y)
        assert_alike(eager, compiled)
    assert compiled.stats.recordings == 2
    assert compiled.optimizer.state[compiled.model[0].bias]["step"].item() == 4


def test_a_refused_input_changes_nothing() -> None:
    eager, compiled = Job("adamw", "lambda"), Job("adamw", "lambda").compiled()
    follow(eager, compiled, 3)
    x, y = batch(0)
    y[3] = 17
    messages = []
    for job in (eager, compiled):
        with pytest.raises(IndexError) as found:
            job.run(x, y)
        messages.append(str(found.value).splitlines()[0])
        job.optimizer.zero_grad()
    assert messages[0] == messages[1]
    assert_alike(eager, compiled)
    follow(eager, compiled, 2, 5)


def test_an_error_in_the_step_is_the_eager_one() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        loss = train(job, x, y)
        if loss > -1:
            raise ValueError("after the update")
        return loss

    eager, compiled = Job("adam", step=step), Job("adam", step=step).compiled()
    for number in range(3):
        for job in (eager, compiled):
            with pytest.raises(ValueError, match="after the update"):
                job.run(*batch(number))
        assert_alike(eager, compiled)


def test_read_only_parameters() -> None:
    job = Job("sgd").compiled()
    for number in range(3):
        job.run(*batch(number))
    array = np.ones((7, 5), np.float32)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="writ"):
        job.model[0].weight.data = tj.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        job.run(*batch(4))
    assert (array == 1).all()


def test_parameters_that_come_to_share_memory() -> None:
    def step(job: Job, x: Any, y: Any) -> Any:
        job.optimizer.zero_grad()
        loss = (x[:, :3] * job.model.a + job.model.b).sum()
        loss.backward()
        job.optimizer.step()
        return loss

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(tj.ones(3)), nn.Parameter(tj.ones(3) * 2)

    eager, compiled = (Job("sgd", step=step, model=Pair) for _ in "ab")
    compiled.compiled()
    follow(eager, compiled, 3)
    for job in (eager, compiled):
        job.model.b.data = job.model.a.data
    follow(eager, compiled, 3)


def plain_state(job: Job) -> None:
    job.optimizer.state = {p: dict(state) for p, state in job.optimizer.state.items()}


def test_a_state_replaced_by_a_plain_dict() -> None:
    eager, compiled = Job("adam"), Job("adam").compiled()
    follow(eager, compiled, 3)
    for job in (eager, compiled):
        plain_state(job)
    follow(eager, compiled, 3, 5)
    assert compiled.stats.compiled_calls == 4


def test_an_optimizer_as_an_argument() -> None:
    def step(optimizer: Any, model: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    f = tj.compile(step, strict=True)
    first, second, eager = (Job("adam") for _ in "abc")
    for job in (first, eager):
        job.optimizer = tj.optim.Adam(job.model.parameters(), lr=0.02, fused=True)
    for job in (first, second):
        job.run = lambda x, y, job=job: f(job.optimizer, job.model, x, y)
    follow(eager, first, 4)
    follow(Job("adam"), second, 4)
    assert f.stats.recordings == 2
    assert f.stats.compiled_calls == 6


def test_values_that_change_places_are_read_before_they_are_overwritten() -> None:
    a, b, c = tj.arange(4.0), tj.arange(4.0) * 10, tj.zeros(4)

    def swap(x: Any) -> None:
        old = a.clone()
        a.copy_(b)
        b.copy_(old)
        c.copy_(old + x)

    f = tj.compile(swap, strict=True)
    for k in range(1, 6):
        f(tj.ones(4))
        first, second = (10.0, 1.0) if k % 2 else (1.0, 10.0)
        assert a.tolist() == [first * i for i in range(4)]
        assert b.tolist() == [second * i for i in range(4)]
        assert c.tolist() == [second * i + 1 for i in range(4)]


@pytest.mark.parametrize(
    "way", ["w -= 0.1 * g", "w[1:].sub_(g[1:])", "w.detach().copy_(g)", "w.view(-1).mul_(0.5)"]
)
def test_a_history_beside_a_changed_parameter_is_compiled(way: str) -> None:
    space: dict[str, Any] = {"tj": tj}
    text = f"""
def step(x, w, v):
    g = tj.autograd.grad((w * w * x.detach()).sum(), w)[0]
    with tj.no_grad():
        {way}
    return x * v * g.sum(), w.detach() * 2
"""
    exec(text, space)
    ways = []
    for function in (space["step"], tj.compile(space["step"])):
        w, v = tj.ones(3, requires_grad=True), tj.full((3,), 2.0, requires_grad=True)
        seen: list[Any] = []
        for k in range(1, 5):
            x = (tj.arange(3) * 0.5 + k).requires_grad_()
            y, z = function(x, w, v)
            y.sum().backward()
            seen += [
                *y.tolist(),
                *z.tolist(),
                *x.grad.tolist(),
                *v.grad.tolist(),
                w.grad,
                w._version,
            ]
        ways.append(seen)
    assert ways[0] == ways[1]
    assert function.stats.compiled_calls >= 2, function.explain()
