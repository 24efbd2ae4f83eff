"""Rules that run on many parameters alike while a step is recorded: followed once, written again for the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.optim import update as update_module
from tracejit.trace.foreseen.repetition import Repetition

STEPS: list[tuple[Any, dict[str, Any]]] = [
    (tj.optim.SGD, {"lr": 0.1}),
    (tj.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (tj.optim.Adam, {"lr": 0.01}),
    (tj.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    (tj.optim.AdamW, {"lr": 0.01}),
    (tj.optim.Adagrad, {"lr": 0.1}),
    (tj.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
    (tj.optim.Adadelta, {}),
    (tj.optim.Adamax, {}),
    (tj.optim.NAdam, {}),
    (tj.optim.RAdam, {}),
    (tj.optim.ASGD, {}),
    (tj.optim.Rprop, {}),
]


def parameters(dtype: Any, shapes: list[tuple[int, ...]]) -> list[tj.Tensor]:
    """Leaves with gradients, of ``shapes`` in turn."""
    rng = np.random.default_rng(3)
    made = []
    for shape in shapes:
        p = tj.tensor(rng.standard_normal(shape)).to(dtype).requires_grad_()
        p.grad = tj.tensor(rng.standard_normal(shape)).to(dtype)
        made.append(p)
    return made


def stepped(
    kind: Any, options: dict[str, Any], params: list[tj.Tensor], compiles: bool, steps: int = 4
) -> tuple[list[np.ndarray], Any]:
    """Parameters and state after some steps, and the function that made them."""
    optimizer = kind(params, **options)

    def update() -> None:
        optimizer.step()

    step = tj.compile(update) if compiles else update
    for _ in range(steps):
        step()
    states = [x for p in params for x in optimizer.state[p].values() if isinstance(x, tj.Tensor)]
    return [x.detach().to(tj.float64).numpy() for x in (*params, *states)], step


def repeated(step: Any) -> int:
    """How many operations of the last recording were not followed one by one."""
    found = re.findall(r"; (\d+) operations came as foreseen", str(step.explain()))
    return int(found[-1]) if found else 0


SHAPES = [(4, 3), (5,), (4, 3), (4, 3), (5,), (), (1, 5), (4, 3)]


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16], ids=str)
@pytest.mark.parametrize(("kind", "options"), STEPS)
def test_the_recording_and_the_numbers_are_the_same(
    kind: Any, options: dict[str, Any], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, step = stepped(kind, options, parameters(dtype, SHAPES), True)
    eager, _ = stepped(kind, options, parameters(dtype, SHAPES), False)
    for a, b in zip(again, eager, strict=True):
        np.testing.assert_array_equal(a, b)
    assert repeated(step) > 0
    monkeypatch.setattr(Repetition, "_key", lambda *_: None)
    _, followed = stepped(kind, options, parameters(dtype, SHAPES), True)
    assert [str(g) for g in step.graphs] == [str(g) for g in followed.graphs]


def test_only_the_first_of_those_alike_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    rule = update_module._new_values
    monkeypatch.setattr(update_module, "_new_values", lambda *given: runs.append(1) or rule(*given))
    stepped(tj.optim.Adam, {}, parameters(tj.float32, [(6, 6)] * 20), True, 1)
    assert len(runs) == 1
    stepped(tj.optim.Adam, {}, parameters(tj.float32, [(6, 6), (6,)] * 10), True, 1)
    assert len(runs) == 3


def test_large_parameters_are_repeated_too() -> None:
    params = parameters(tj.float32, [(300, 300)] * 3)
    again, step = stepped(tj.optim.Adam, {}, params, True, 3)
    eager, _ = stepped(tj.optim.Adam, {}, parameters(tj.float32, [(300, 300)] * 3), False, 3)
    for a, b in zip(again, eager, strict=True):
        np.testing.assert_array_equal(a, b)
    assert repeated(step) > 0


def shared_gradient(params: list[tj.Tensor]) -> None:
    for p in params:
        p.grad = params[0].grad


def own_gradient(params: list[tj.Tensor]) -> None:
    params[2].grad = params[2].detach()


def transposed(params: list[tj.Tensor]) -> None:
    params[1].grad = tj.arange(16.0).reshape(4, 4).T


def view(params: list[tj.Tensor]) -> None:
    params[2].grad = tj.arange(32.0).reshape(2, 4, 4)[1]


def expanded(params: list[tj.Tensor]) -> None:
    params[3].grad = tj.ones(1, 4).expand(4, 4)


@pytest.mark.parametrize("change", [shared_gradient, own_gradient, transposed, view, expanded])
def test_what_is_not_alike_is_followed_by_itself(
    change: Callable[[list[tj.Tensor]], None],
) -> None:
    found = []
    for compiles in (True, False):
        params = parameters(tj.float32, [(4, 4)] * 5)
        change(params)
        found.append(stepped(tj.optim.Adam, {"lr": 0.1}, params, compiles, 3)[0])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_that_differ_have_their_own_numbers() -> None:
    """Parameters that joined later have made fewer steps: their corrections are others."""

    def run(compiles: bool) -> list[np.ndarray]:
        params = parameters(tj.float32, [(3, 3)] * 4)
        late = [params[1].grad, params[3].grad]
        params[1].grad = params[3].grad = None
        optimizer = tj.optim.Adam(params, lr=0.1)
        optimizer.step()
        params[1].grad, params[3].grad = late

        def update() -> None:
            optimizer.step()

        step = tj.compile(update) if compiles else update
        for _ in range(3):
            step()
        return [p.detach().numpy() for p in params]

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_whole_training_steps_repeat_their_rules() -> None:
    def trained(compiles: bool) -> tuple[list[np.ndarray], Any]:
        tj.manual_seed(0)
        model = tj.nn.Sequential(*[m for _ in range(5) for m in (tj.nn.Linear(8, 8), tj.nn.Tanh())])
        optimizer = tj.optim.AdamW(model.parameters(), lr=0.05)
        x = tj.linspace(-1, 1, 32).reshape(4, 8)

        def step() -> Any:
            optimizer.zero_grad()
            loss = (model(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = tj.compile(step) if compiles else step
        losses = [run().numpy() for _ in range(4)]
        return [*losses, *(p.detach().numpy() for p in model.parameters())], run

    (again, step), (eager, _) = trained(True), trained(False)
    for a, b in zip(again, eager, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert repeated(step) >= 8 * 12


def test_memory_of_new_values_is_let_go_while_a_step_is_recorded() -> None:
    """What a parameter was given is not needed once it is there: not all new values are kept until the end."""
    import tracemalloc

    params = parameters(tj.float32, [(64, 64)] * 100)
    optimizer = tj.optim.SGD(params, lr=0.1)
    step = tj.compile(lambda: optimizer.step())
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        step()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 100 * 64 * 64 * 4
