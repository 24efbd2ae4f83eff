"""Fused optimizer steps: the numbers of the plain step, one program, written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.optim import fused as fused_module

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
