"""Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop against their formulas; L-BFGS, averaged models; compiled steps."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import optim
from tracejit.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

GRADIENTS = np.random.default_rng(0).standard_normal((8, 5))
START = np.linspace(-1, 1, 5)
#: Rates that a state carries from step to step are in single precision.
NEAR = 1e-6


def run(name, options):
    w = tj.tensor(START, requires_grad=True)
    opt = getattr(optim, name)([w], **options)
    for g in GRADIENTS:
        w.grad = tj.tensor(g)
        opt.step()
    return w.detach().numpy(), opt.state[w]


def adadelta(p, s, g, t):
    s["v"] = 0.9 * s.get("v", 0) + 0.1 * g * g
    d = np.sqrt(s.get("d", 0) + 1e-6) / np.sqrt(s["v"] + 1e-6) * g
    s["d"] = 0.9 * s.get("d", 0) + 0.1 * d * d
    return p - d


def adamax(p, s, g, t):
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["u"] = np.maximum(0.999 * s.get("u", 0), np.abs(g) + 1e-8)
    return p - 2e-3 / (1 - 0.9**t) * s["m"] / s["u"]


def moments(s, g, t):
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    return s["m"], s["v"] / (1 - 0.999**t)


def nadam(p, s, g, t):
    mu = [0.9 * (1 - 0.5 * 0.96 ** (0.004 * i)) for i in range(1, t + 2)]
    m, v = moments(s, g, t)
    mean = mu[t] * m / (1 - math.prod(mu)) + (1 - mu[t - 1]) * g / (1 - math.prod(mu[:t]))
    return p - 2e-3 * mean / (np.sqrt(v) + 1e-8)


def radam(p, s, g, t):
    m, _ = moments(s, g, t)
    m = m / (1 - 0.9**t)
    most = 2 / (1 - 0.999) - 1
    rho = most - 2 * t * 0.999**t / (1 - 0.999**t)
    if rho <= 5:
        return p - 1e-3 * m
    r = math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
    return p - 1e-3 * m * r * math.sqrt(1 - 0.999**t) / (np.sqrt(s["v"]) + 1e-8)


def asgd(p, s, g, t):
    eta = 1e-2 / (1 + 1e-4 * 1e-2 * (t - 1)) ** 0.75
    return p * (1 - 1e-4 * eta) - eta * g


def rprop(p, s, g, t):
    size, before = s.get("size", np.full(5, 1e-2)), s.get("g", np.zeros(5))
    turn = np.sign(g * before)
    s["size"] = np.clip(
        np.where(turn > 0, size * 1.2, np.where(turn < 0, size / 2, size)), 1e-6, 50
    )
    s["g"] = np.where(turn < 0, 0, g)
    return p - np.sign(s["g"]) * s["size"]


RULES = {
    "Adadelta": adadelta,
    "Adamax": adamax,
    "NAdam": nadam,
    "RAdam": radam,
    "ASGD": asgd,
    "Rprop": rprop,
}


@pytest.mark.parametrize("name", RULES)
def test_steps_follow_the_formula(name):
    p, state = START, {}
    for t, g in enumerate(GRADIENTS, 1):
        p = RULES[name](p, state, g, t)
    np.testing.assert_allclose(run(name, {})[0], p, rtol=NEAR)


@pytest.mark.parametrize("name", [n for n in RULES if n != "Rprop"])
def test_weight_decay_is_part_of_the_gradient_and_maximize_turns_it_round(name):
    p, state = START, {}
    for t, g in enumerate(GRADIENTS, 1):
        p = RULES[name](p, state, -g + 0.1 * p, t)
    found, _ = run(name, {"weight_decay": 0.1, "maximize": True})
    np.testing.assert_allclose(found, p, rtol=NEAR)


@pytest.mark.parametrize(("name", "rate"), [("NAdam", 2e-3), ("RAdam", 1e-3)])
def test_decoupled_weight_decay_shrinks_first(name, rate):
    p, state = START, {}
    for t, g in enumerate(GRADIENTS, 1):
        p = RULES[name](p * (1 - rate * 0.1), state, g, t)
    found, _ = run(name, {"weight_decay": 0.1, "decoupled_weight_decay": True})
    np.testing.assert_allclose(found, p, rtol=NEAR)


def test_averaging_begins_after_t0_steps():
    points = [run("ASGD", {"t0": 3})[0]]
    average, p = np.zeros(5), START
    for t, g in enumerate(GRADIENTS, 1):
        p = asgd(p, {}, g, t)
        average = average + (p - average) / max(1, t - 1 - 3)
    np.testing.assert_allclose(points[0], p, rtol=NEAR)
    np.testing.assert_allclose(run("ASGD", {"t0": 3})[1]["ax"].numpy(), average, rtol=NEAR)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", RULES)
def test_compiled_steps_equal_eager_ones_and_are_recorded_once(name):
    results = []
    for wrap in (lambda f: f, lambda f: tj.compile(f, strict=True)):
        w = tj.tensor(START, requires_grad=True)
        opt = getattr(optim, name)([w], lr=0.05)

        def step(w=w, opt=opt):
            opt.zero_grad()
            loss = (w.cos() * w).sum()
            loss.backward()
            opt.step()
            return loss

        step = wrap(step)
        for _ in range(9):
            step()
        results.append(w.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-12)
    assert len(step.graphs) <= 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adadelta", {"rho": 2}),
        ("Adamax", {"betas": (1.0, 0.9)}),
        ("NAdam", {"momentum_decay": -1}),
        ("RAdam", {"lr": -1}),
        ("ASGD", {"weight_decay": -1}),
        ("Rprop", {"etas": (1.5, 2)}),
        ("LBFGS", {"lr": -1}),
    ],
)
def test_impossible_options(name, options):
    with pytest.raises(ValueError, match="Invalid"):
        getattr(optim, name)([tj.zeros(1, requires_grad=True)], **options)


def rosenbrock(w):
    return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2


def minimise(steps, **options):
    w = tj.tensor([-1.2, 1.0], dtype=tj.float64, requires_grad=True)
    opt = optim.LBFGS([w], **options)

    def closure():
        opt.zero_grad()
        loss = rosenbrock(w)
        loss.backward()
        return loss

    losses = [float(opt.step(closure)) for _ in range(steps)]
    return w.detach(), losses, opt


def test_lbfgs_with_line_search_finds_the_minimum():
    w, losses, opt = minimise(6, line_search_fn="strong_wolfe")
    assert tj.allclose(w, tj.ones(2, dtype=tj.float64), atol=1e-4)
    assert losses[0] == pytest.approx(24.2)
    assert losses == sorted(losses, reverse=True)
    assert opt.state[opt.param_groups[0]["params"][0]]["func_evals"] < 150


def test_lbfgs_respects_its_budget_and_goes_on_where_it_was():
    once, _, opt = minimise(1, line_search_fn="strong_wolfe", max_iter=12, max_eval=1000)
    often, _, _ = minimise(4, line_search_fn="strong_wolfe", max_iter=3, max_eval=1000)
    assert opt.state[opt.param_groups[0]["params"][0]]["n_iter"] == 12
    assert tj.allclose(once, often, atol=1e-8)


def test_lbfgs_goes_on_from_a_saved_state():
    def job():
        w = tj.tensor([-1.2, 1.0], dtype=tj.float64, requires_grad=True)
        opt = optim.LBFGS([w], max_iter=2, lr=0.001)

        def closure():
            opt.zero_grad()
            loss = rosenbrock(w)
            loss.backward()
            return loss

        return w, opt, lambda: [opt.step(closure).item() for _ in range(3)]

    w, opt, run = job()
    run()
    file = io.BytesIO()
    tj.save({"w": w.detach(), "opt": opt.state_dict()}, file)
    file.seek(0)
    saved = tj.load(file)
    other, other_opt, other_run = job()
    other.data.copy_(saved["w"])
    other_opt.load_state_dict(saved["opt"])
    assert run() == other_run()
    assert tj.equal(w, other)


def test_lbfgs_goes_on_after_a_first_step_that_had_no_slope():
    w = tj.tensor([1.0], requires_grad=True)
    opt = optim.LBFGS([w], tolerance_grad=0.0)
    slope = [1e-6, 0.0]

    def closure():
        opt.zero_grad()
        loss = (w * slope[0]).sum()
        loss.backward()
        return loss

    opt.step(closure)
    assert w.item() == 1.0
    slope[:] = [1.0, 1.0]
    opt.step(closure)
    assert w.item() < 1.0


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_closures_of_lbfgs_are_replayed_whatever_its_state_is_by_then(search):
    """A closure that only drops gradients does not hang on directions and steps, which change at every call."""

    def descend(compiled):
        w = tj.tensor([-1.2, 1.0], dtype=tj.float64, requires_grad=True)
        opt = optim.LBFGS([w], lr=0.01, max_iter=4, line_search_fn=search)
        counts = {"calls": 0}

        def closure():
            opt.zero_grad()
            loss = rosenbrock(w)
            loss.backward()
            counts["calls"] += 1
            return loss

        run = tj.compile(closure, strict=True) if compiled else closure
        losses = [opt.step(run).item() for _ in range(5)]
        return losses, w.tolist(), counts["calls"], run

    losses, w, calls, _ = descend(compiled=False)
    others, other, also, run = descend(compiled=True)
    assert others == pytest.approx(losses, rel=1e-9)
    assert other == pytest.approx(w, rel=1e-9)
    assert run.stats.calls == also == calls >= 20
    assert run.stats.recordings <= 3
    assert run.stats.compiled_calls >= calls - 4


def test_closures_of_lbfgs_that_read_its_state_see_it():
    def descend(compiled):
        w = tj.tensor([-1.2, 1.0], dtype=tj.float64, requires_grad=True)
        opt = optim.LBFGS([w], lr=0.01, max_iter=3)

        def closure():
            opt.zero_grad()
            loss = rosenbrock(w) + opt.state[w].get("func_evals", 0)
            loss.backward()
            return loss

        run = tj.compile(closure) if compiled else closure
        return [opt.step(run).item() for _ in range(5)], w.tolist()

    assert descend(compiled=True) == descend(compiled=False)


def test_lbfgs_needs_a_closure_and_one_group():
    w = tj.zeros(1, requires_grad=True)
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([w]).step()
    with pytest.raises(ValueError, match="parameter groups"):
        optim.LBFGS([{"params": [w]}, {"params": [tj.zeros(1, requires_grad=True)]}])


def test_averages_of_a_model():
    model = tj.nn.Linear(1, 1, bias=False)
    equal = AveragedModel(model)
    decaying = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    for value in (1.0, 2.0, 6.0):
        with tj.no_grad():
            model.weight.fill_(value)
        equal.update_parameters(model)
        decaying.update_parameters(model)
    assert equal.module.weight.item() == 3.0
    assert decaying.module.weight.item() == pytest.approx(0.5 * (0.5 * 1 + 0.5 * 2) + 0.5 * 6)
    assert int(equal.n_averaged) == 3
    assert not any(p.requires_grad and p.grad_fn for p in equal.parameters())


@pytest.mark.parametrize("decay", [None, 0.5], ids=["equal weights", "decaying"])
def test_an_averaged_model_is_updated_in_a_compiled_step(decay: float | None) -> None:
    def trained(compiling: bool) -> Any:
        tj.manual_seed(0)
        model = tj.nn.Linear(3, 2)
        optimizer = tj.optim.SGD(model.parameters(), lr=0.1)
        way = None if decay is None else get_ema_multi_avg_fn(decay)
        mean = AveragedModel(model, multi_avg_fn=way)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            mean.update_parameters(model)
            return loss.detach()

        run = tj.compile(step) if compiling else step
        losses = [run(tj.linspace(-1, call, 6).reshape(2, 3)).item() for call in range(8)]
        return losses + [x for p in mean.parameters() for x in p.flatten().tolist()], run

    expected, _ = trained(False)
    found, step = trained(True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert step.stats.compiled_calls == 6, step.explain()  # the first mean is a copy: another path


def test_running_statistics_are_those_of_the_loader():
    model = tj.nn.Sequential(tj.nn.BatchNorm1d(2)).eval()
    batches = [tj.randn(16, 2) for _ in range(3)]
    update_bn(batches, model)
    mean = tj.stack([b.mean(0) for b in batches]).mean(0)
    assert tj.allclose(model[0].running_mean, mean, atol=1e-6)
    assert not model.training
    assert model[0].momentum == 0.1


@pytest.mark.parametrize("name", ["ASGD", "NAdam"])
@pytest.mark.parametrize("times", [1, 2])
def test_carried_numbers_in_compiled_steps(name, times):
    found = []
    for compiled in (False, True):
        first, second = (tj.tensor(START, requires_grad=True) for _ in range(2))
        opt = getattr(optim, name)([first, second], lr=0.1)
        plan = optim.lr_scheduler.ExponentialLR(opt, 0.9)

        def step(g, opt=opt, first=first, second=second):
            for _ in range(times):
                first.grad, second.grad = g * 2, g
                opt.step()

        run = tj.compile(step) if compiled else step
        for index, g in enumerate(GRADIENTS):
            if index == 4:
                second.grad = None
                first.grad = tj.tensor(g)
                opt.step()  # from here on the two have made different numbers of steps
            run(tj.tensor(g))
            plan.step()
        if compiled:
            assert run.stats.compiled_calls >= 4
        values = [first, second, *opt.state[first].values(), *opt.state[second].values()]
        found.append([v.detach().numpy() for v in values])
    for mine, expected in zip(*found, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-12)
