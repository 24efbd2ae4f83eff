"""Kernels that are alike are printed once: just what printing each of them gives, and no more texts than there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.codegen.equal_groups import EqualGroups
from tracejit.codegen.kernel import Pointer


def _shown(parameter: Any) -> Any:
    if isinstance(parameter, Pointer):
        return id(parameter.value), parameter.offset, parameter.written
    return parameter


class Watched:
    """Compares every kernel with one that is printed for its group, and counts those that were not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.printed = self.asked = 0
        write, printed = EqualGroups.write, EqualGroups.printed

        def counted(known: EqualGroups, *args: Any) -> Any:
            self.printed += 1
            return printed(known, *args)

        def compared(known: EqualGroups, group: Any, outputs: Any) -> Any:
            self.asked += 1
            found, apart = write(known, group, outputs), printed(known, group, outputs)
            assert (found.name, found.group) == (apart.name, group)
            assert all(a is b for a, b in zip(found.outputs, apart.outputs, strict=True))
            for ours, theirs in zip(found.functions, apart.functions, strict=True):
                assert (ours.name, ours.source) == (theirs.name, theirs.source)
                assert (ours.extent, ours.grain) == (theirs.extent, theirs.grain)
                assert list(map(_shown, ours.parameters)) == list(map(_shown, theirs.parameters))
            return found

        monkeypatch.setattr(EqualGroups, "printed", counted)
        monkeypatch.setattr(EqualGroups, "write", compared)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """What was printed, and what for."""
    return Watched(monkeypatch)


def _step(model: nn.Module, optimizer: tj.optim.Optimizer) -> Any:
    @tj.compile
    def step(x: tj.Tensor, y: tj.Tensor) -> tj.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_an_optimizer_over_equal_tensors_is_one_kernel_text(watched: Watched) -> None:
    weights = [tj.ones(8, 6).requires_grad_() for _ in range(12)]
    for k, weight in enumerate(weights):
        weight.grad = tj.full((8, 6), float(k))
    optimizer = tj.optim.Adam(weights, lr=0.1)
    step = tj.compile(lambda: optimizer.step())
    for _ in range(3):
        step()
    assert watched.asked >= 12
    assert watched.printed == 1
    assert weights[0].tolist() == tj.ones(8, 6).tolist()
    assert all(abs(float(w[0, 0]) - 0.7) < 1e-4 for w in weights[1:])


def test_an_optimizer_over_tensors_of_other_shapes_has_a_text_for_each(watched: Watched) -> None:
    shapes = [(8, 6), (6, 8), (8,), (8, 6), (6, 8), (8,)]
    weights = [tj.ones(*shape).requires_grad_() for shape in shapes]
    for weight in weights:
        weight.grad = tj.ones(*weight.shape)
    optimizer = tj.optim.SGD(weights, lr=0.5, momentum=0.9)
    step = tj.compile(lambda: optimizer.step())
    for _ in range(4):
        step()
    assert watched.printed < watched.asked
    assert all(w.allclose(weights[0][0, 0]) for w in weights)


class Block(nn.Module):
    """A block of a transformer, with and without biases."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: tj.Tensor) -> tj.Tensor:
        """Attention, then two layers."""
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return x + self.narrow(nn.functional.gelu(self.wide(self.inner(x))))


def _net() -> nn.Module:
    return nn.Sequential(
        *[
            nn.Sequential(nn.Conv1d(8, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU())
            for _ in range(3)
        ],
        nn.Linear(5, 5),
    )


PROGRAMS = {
    "blocks": (lambda: nn.Sequential(*[Block(8) for _ in range(3)]), (2, 5, 8), (2, 5, 8)),
    "layers": (
        lambda: nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(5)]),
        (4, 6),
        (4, 6),
    ),
    "convolutions": (lambda: nn.Sequential(_net(), nn.Softmax(2)), (2, 8, 5), (2, 8, 5)),
    "recurrent": (lambda: _Last(nn.LSTM(4, 6, num_layers=2)), (5, 2, 4), (5, 2, 6)),
}


class _Last(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: tj.Tensor) -> tj.Tensor:
        result: tj.Tensor = self.inner(x)[0]
        return result


@pytest.mark.sampled(32)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("optimizer", [tj.optim.AdamW, tj.optim.SGD, tj.optim.RMSprop])
def test_kernels_of_whole_steps_are_what_they_would_be_printed_as(
    watched: Watched, name: str, optimizer: Any
) -> None:
    make, taken, given = PROGRAMS[name]
    losses: list[list[float]] = []
    for compiled in (False, True):
        tj.manual_seed(0)
        model = make()
        step = _step(model, optimizer(model.parameters(), lr=1e-2))
        if not compiled:
            step = step.__wrapped__
        tj.manual_seed(1)
        x, y = tj.randn(*taken), tj.randn(*given)
        losses.append([float(step(x, y)) for _ in range(4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert watched.asked > watched.printed > 0


def test_state_that_is_no_longer_shaped_alike_is_planned_anew() -> None:
    def total(weights: list[tj.Tensor]) -> Any:
        @tj.compile
        def function(x: tj.Tensor) -> tj.Tensor:
            return sum((w * 2 + 1).exp().sum() * x for w in weights)  # type: ignore[return-value]

        return function

    x = tj.ones(3)
    for shapes in ([(4, 5), (4, 5)], [(4, 5), (6, 5)], [(5,), (5,)], [(3, 3), (7, 3)]):
        weights = [tj.full(shape, 0.25) for shape in shapes]
        function = total(weights)
        expected = sum(np.exp(1.5) * w.numel() for w in weights)
        for _ in range(3):
            assert function(x).tolist() == pytest.approx([expected] * 3, rel=1e-5)
