"""Averages of models beside PyTorch: every way to average, buffers of every kind, eager and compiled."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from parity_tools import close, torch

import tracejit as tj

WAYS: dict[str, Any] = {
    "multi_ema": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
    "multi_swa": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "ema": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.9)},
    "equal": lambda swa: {},
    "own": lambda swa: {"avg_fn": lambda a, p, n: (a * n + p) / (n + 1)},
}


def averaged(
    t: Any, way: str, use_buffers: bool, kinds: str = "all", compiled: bool = False
) -> Any:
    """The states of an averaged model after each of five updates."""
    swa = import_module(f"{t.__name__}.optim.swa_utils")
    model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2)).double()
    with t.no_grad():
        for k, p in enumerate(model.parameters()):
            p.fill_(k)
    if kinds == "all":
        model.register_buffer("steps", t.tensor(7))
        model.register_buffer("small", t.tensor([3, 100], dtype=t.int8))
    average = swa.AveragedModel(model, use_buffers=use_buffers, **WAYS[way](swa))

    def step(x: Any) -> None:
        with t.no_grad():
            model(x)
            model[0].weight.add_(1)
            if kinds == "all":
                model.steps += 3
                model.small -= 5
        average.update_parameters(model)

    run = t.compile(step) if compiled else step
    states = []
    for i in range(5):
        run(t.arange(8.0, dtype=t.float64).reshape(4, 2) * i)
        states.append({name: value.clone() for name, value in average.state_dict().items()})
    if compiled:
        assert run.stats.compiled_calls >= 2, run.explain()
    return states


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("use_buffers", [True, False], ids=["buffers", "parameters"])
@pytest.mark.parametrize("way", WAYS)
def test_averages(way: str, use_buffers: bool, compiled: bool) -> None:
    if way == "multi_swa" and use_buffers:
        for t in (torch, tj):
            with pytest.raises(RuntimeError, match="Integer division with addcdiv"):
                averaged(t, way, use_buffers)
        return
    theirs = averaged(torch, way, use_buffers)
    ours = averaged(tj, way, use_buffers, compiled=compiled)
    for a, b in zip(ours, theirs, strict=True):
        assert list(a) == list(b)
        for name in b:
            close(a[name], b[name], 1e-6, name)


def test_tensors_come_by_dtype_without_history() -> None:
    for t in (torch, tj):
        swa = import_module(f"{t.__name__}.optim.swa_utils")
        model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
        seen: list[Any] = []
        average = swa.AveragedModel(
            model, multi_avg_fn=lambda a, p, n, to=seen: to.append((a, p, n)), use_buffers=True
        )
        for _ in range(2):
            average.update_parameters(model)
        assert sorted(len(means) for means, _, _ in seen) == [1, 6]
        for means, values, count in seen:
            assert len({x.dtype for x in (*means, *values)}) == 1
            assert not any(x.requires_grad for x in (*means, *values))
            assert count == 2  # the model's own count, which goes on
