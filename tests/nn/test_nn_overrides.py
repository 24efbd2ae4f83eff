"""Modules that override what their parents call for all modules below: modes, conversions."""

from __future__ import annotations

from typing import Any

import tracejit as tj
from tracejit import nn


class Frozen(nn.Module):
    """A part whose batch statistics stay as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x: Any) -> Any:
        return self.norm(self.linear(x))


def test_parts_that_stay_in_a_mode() -> None:
    part = Frozen()
    model = nn.Sequential(nn.Sequential(part), nn.Dropout(0.5))
    for mode in (True, False, True):
        assert model.train(mode) is model
        assert [m.training for m in (part, part.linear, model[1])] == [mode] * 3
        assert not part.norm.training


def test_compiled_parts_that_stay_in_a_mode() -> None:
    part = Frozen()
    model = nn.Sequential(part, nn.ReLU())
    compiled = tj.compile(model)
    for mode in (True, False, True, True):
        model.train(mode)
        compiled(tj.randn(5, 3)).sum().backward()
    assert part.norm.num_batches_tracked.item() == 0
    assert compiled.stats.compiled_calls


def test_a_mode_that_merges_weights_below() -> None:
    class Merging(nn.Linear):
        merged = False

        def train(self, mode: bool = True) -> None:  # returns nothing
            nn.Linear.train(self, mode)
            self.merged = not mode

    model = nn.ModuleDict({"a": Merging(2, 2)})
    assert model.eval()["a"].merged
    assert not model.train()["a"].merged


class Tables(nn.Module):
    """It has tensors that are neither parameters nor buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(tj.ones(2))
        self.table = tj.arange(2.0)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.table = fn(self.table)
        return self

    def forward(self, x: Any) -> Any:
        return x * self.scale + self.table


def test_tensors_that_modules_convert_themselves() -> None:
    model = nn.Sequential(nn.Sequential(Tables()), nn.Linear(2, 2))
    assert model.double()(tj.ones(1, 2, dtype=tj.float64)).dtype is tj.float64
    assert model[0][0].table.dtype is tj.float64
    for convert, dtype in (
        (lambda m: m.half(), tj.float16),
        (lambda m: m.bfloat16(), tj.bfloat16),
        (lambda m: m.float(), tj.float32),
        (lambda m: m.type(tj.float64), tj.float64),
        (lambda m: m.cpu(), tj.float64),
        (lambda m: m.to("cpu", tj.float32), tj.float32),
    ):
        assert convert(model)[0][0].table.dtype is model[0][0].scale.dtype is dtype
    model.to_empty(device="meta")
    assert model[0][0].table.device == tj.device("meta")


def test_conversions_do_not_call_to() -> None:
    class Own(nn.Linear):
        def to(self, *args: Any, **kwargs: Any) -> Any:
            return self.double()

    assert Own(2, 2).to("cpu").weight.dtype is tj.float64
    assert Own(2, 2).float().cpu().weight.dtype is tj.float32
