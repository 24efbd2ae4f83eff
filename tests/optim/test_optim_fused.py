"""Fused optimizer steps: the numbers of the plain step, one program, written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import config
from tracejit.optim import fused as fused_module
from tracejit.optim import fused_program
from tracejit.runtime.behind import worker

CASES: list[tuple[Any, dict[str, Any]]] = [
    (tj.optim.SGD, {"lr": 0.1}),
    (tj.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (tj.optim.Adam, {"lr": 0.01}),
    (tj.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    (tj.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    (tj.optim.Adagrad, {"lr": 0.1}),
]


def train(
    kind: Any, options: dict[str, Any], fused: bool, dtype: str, steps: int = 12
) -> list[Any]:
    """Parameters after some steps whose learning rate changes on the way."""
    rng = np.random.default_rng(0)
    shapes = [(5, 3), (7,), (), (4, 0)]
    wanted = getattr(tj, dtype)
    params = [tj.tensor(rng.standard_normal(s)).to(wanted).requires_grad_() for s in shapes]
    optimizer = kind(params, fused=fused, **options)
    for step in range(steps):
        for p in params:
            p.grad = tj.tensor(rng.standard_normal(tuple(p.shape))).to(wanted)
        if step == 7:
            optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.step()
    return [p.detach().to(tj.float64).numpy() for p in params]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_fused_steps_give_the_plain_numbers(kind: Any, options: dict[str, Any], dtype: str) -> None:
    plain = train(kind, options, False, dtype)
    fused = train(kind, options, True, dtype)
    for a, b in zip(plain, fused, strict=True):
        np.testing.assert_array_equal(a, b)


def test_parameters_are_updated_in_place_by_one_program() -> None:
    fused_module._updates.clear()
    p = tj.ones(6, requires_grad=True)
    memory, version = p.data_ptr(), p._version
    optimizer = tj.optim.Adam([p], lr=0.1, fused=True)
    for _ in range(4):
        p.grad = tj.ones(6)
        optimizer.step()
    (update,) = fused_module._updates.values()
    assert update.program is not None
    assert len(update.program.plan.items) == 1
    assert all(update.in_place)
    assert p.data_ptr() == memory
    assert p._version == version + 4


ALL = [
    *((kind, options) for kind, options in CASES if kind is not tj.optim.Adagrad),
    (tj.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
    (tj.optim.Adadelta, {"lr": 0.5}),
    (tj.optim.Adamax, {"lr": 0.01}),
    (tj.optim.NAdam, {"lr": 0.01}),
    (tj.optim.RAdam, {"lr": 0.01}),
    (tj.optim.ASGD, {"lr": 0.01}),
    (tj.optim.Rprop, {"lr": 0.01}),
    (tj.optim.RMSprop, {"lr": 0.01, "momentum": 0.9, "centered": True}),
]


@pytest.fixture
def eager_to_fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are made behind the second step of a kind."""
    monkeypatch.setattr(fused_module, "WORTH", 0.0)
    monkeypatch.setattr(fused_module, "_updates", {})


def programs() -> list[Any]:
    return [u for u in fused_module._updates.values() if u.program is not None]


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("eager_to_fuse")
@pytest.mark.parametrize(("kind", "options"), ALL, ids=lambda x: getattr(x, "__name__", ""))
def test_programs_made_behind_the_steps_give_the_plain_numbers(
    monkeypatch: pytest.MonkeyPatch, kind: Any, options: dict[str, Any]
) -> None:
    def after_steps() -> list[Any]:
        rng = np.random.default_rng(0)
        params = [tj.tensor(rng.standard_normal(s)).requires_grad_() for s in ((5, 3), (7,), ())]
        optimizer = kind(params, **options)
        for step in range(14):
            for p in params:
                p.grad = tj.tensor(rng.standard_normal(tuple(p.shape)))
            if step == 9:
                optimizer.param_groups[0]["lr"] *= 0.5
            optimizer.step()
            assert worker().wait(60.0)
        return [p.detach().numpy() for p in params]

    found = after_steps()
    assert programs()
    monkeypatch.setattr(config, "disabled", True)
    plain = after_steps()
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("eager_to_fuse")
def test_no_program_where_it_is_not_wanted() -> None:
    p = tj.ones(3, requires_grad=True)
    optimizer = tj.optim.SGD([p], lr=0.1, fused=False)
    for _ in range(5):
        p.grad = tj.ones(3)
        optimizer.step()
        assert worker().wait(60.0)
    assert not fused_module._updates


@pytest.mark.usefixtures("eager_to_fuse")
def test_parameters_that_share_memory_are_changed_one_after_the_other() -> None:
    base = tj.arange(6).float()
    first, second = base[:4].requires_grad_(), base[2:].requires_grad_()
    optimizer = tj.optim.SGD([first, second], lr=1.0, weight_decay=0.5)
    expected = np.arange(6, dtype=np.float32)
    for _ in range(6):
        first.grad, second.grad = tj.ones(4), tj.ones(4)
        optimizer.step()
        assert worker().wait(60.0)
        for part in (expected[:4], expected[2:]):
            part -= 1.0 + 0.5 * part
        np.testing.assert_array_equal(base.numpy(), expected)
    assert programs()  # for others like them


@pytest.mark.usefixtures("eager_to_fuse")
def test_a_program_that_cannot_be_made_is_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no program today")

    monkeypatch.setattr(fused_program, "make_plan", fail)
    p = tj.zeros(2, requires_grad=True)
    optimizer = tj.optim.SGD([p], lr=1.0)
    for _ in range(4):
        p.grad = tj.ones(2)
        optimizer.step()
        assert worker().wait(60.0)
    assert p.tolist() == [-4.0, -4.0]
    assert sum("optimizer" in record.message for record in caplog.records) == 1


def test_read_only_parameters_are_refused() -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="writ"):
        p = tj.from_numpy(array)
    p.requires_grad_()
    optimizer = tj.optim.SGD([p], lr=0.1, fused=True)
    for _ in range(3):
        p.grad = tj.ones(3)
        with pytest.raises(RuntimeError, match="read-only"):
            optimizer.step()
    assert (array == 1).all()


def test_one_kernel_updates_many_tensors_in_place():
    """However many there are, nothing is copied together for it."""
    parameters = [tj.rand(3, 5).requires_grad_() for _ in range(40)]
    for parameter in parameters:
        parameter.grad = tj.rand(3, 5)
    optimizer = tj.optim.Adam(parameters, lr=0.1, fused=True)
    step = tj.compile(optimizer.step, strict=True)
    for _ in range(3):
        step()
    (program,) = (p for entry in step._all() for p in entry.programs())
    assert len(step.kernels) == 1
    assert len(program.plan.items) == len(parameters)
