"""Modules with other parameters: ``functional_call``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


def test_modules_with_other_parameters() -> None:
    layer = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    layer[2].register_buffer("scale", tj.ones(1))
    names = dict(layer.named_parameters())
    x = tj.rand(5, 3)
    other = {name: p.detach() * 2 for name, p in names.items()}
    before = layer(x)

    def mean(params: Any, x: Any) -> Any:
        return tj.func.functional_call(layer, params, (x,)).mean()

    twin = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    twin.load_state_dict(other)
    expected = twin(x).mean()
    expected.backward()
    f = tj.compile(tj.value_and_grad(mean), strict=True)
    for function in (tj.value_and_grad(mean), f, f, f):
        value, gradients = function(other, x)
        assert value.item() == pytest.approx(expected.item(), rel=1e-5)
        for name, p in twin.named_parameters():
            np.testing.assert_allclose(gradients[name].numpy(), p.grad.numpy(), rtol=1e-4)
    assert f.stats.compiled_calls == 2
    assert dict(layer.named_parameters()).items() == names.items()
    assert layer(x).tolist() == before.tolist()


def test_shared_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(tj.ones(2))
            self.b = self.a

        def forward(self) -> Any:
            return (self.a + self.b).sum()

    module, two = Tied(), tj.ones(2) * 2
    assert tj.func.functional_call(module, {"a": two}).item() == 8
    assert tj.func.functional_call(module, {"a": two}, tie_weights=False).item() == 6
    with pytest.raises(ValueError, match="different tensors"):
        tj.func.functional_call(module, {"a": two, "b": tj.ones(2)})
    with pytest.raises(RuntimeError, match="no tensor is given"):
        tj.func.functional_call(module, {}, strict=True)
    with pytest.raises(RuntimeError, match="'c'"):
        tj.func.functional_call(module, {"a": two, "c": two}, strict=True)
    with pytest.raises(AttributeError, match="part"):
        tj.func.functional_call(module, {"part.c": two})
    with pytest.raises(ValueError, match="dictionaries"):
        tj.func.functional_call(module, [1])
    with pytest.raises(TypeError, match="must be a Tensor"):
        tj.func.functional_call(module, {"a": 1.0})
    with pytest.raises(ValueError, match="more than one"):
        tj.func.functional_call(module, [{"a": two}, {"a": two}])
    assert module().item() == 4


@pytest.mark.parametrize("wrap", ["eager", "compiled"])
def test_other_names_are_attributes_for_the_time_of_the_call(wrap: str) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tj.tensor(2.0)

        def forward(self, x: Any) -> Any:
            return x * self.scale + getattr(self, "shift", 0.0)

    module, x = Scaled(), tj.ones(2)

    def call(x: Any, scale: Any) -> Any:
        return tj.func.functional_call(module, {"scale": scale, "shift": scale * 10}, x)

    f = tj.compile(call) if wrap == "compiled" else call
    for k in range(4):
        assert f(x, tj.tensor(float(k))).tolist() == [11.0 * k] * 2
        assert module(x).tolist() == [2.0, 2.0]
        assert "shift" not in vars(module)
