"""Results of one compiled call that were computed from one another: gradients of those in between are eager code's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

F = nn.functional
Found = list[tj.Tensor | None]


class Camera(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = (
            nn.Conv2d(
                3, 4, 3, padding=1, bias=False
            ),  # which the norm would take away but for rounding
            nn.BatchNorm2d(4),
            nn.Linear(4, 5),
        )

    def forward(self, x):
        seen = self.norm(self.first(x)).relu()
        scores = self.last(seen.mean((2, 3)))
        return seen, scores, F.cross_entropy(scores, tj.tensor([1] * x.shape[0]))


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x):
        seen = self.first(x)
        scores = self.last(F.dropout(seen, 0.5).tanh())
        return seen, (scores * scores).mean()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step, self.last = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        state, states = x[:, 0], []
        for t in range(12):
            state = tj.tanh(self.step(state) + x[:, t])
            states.append(state)
        whole = tj.stack(states, 1)
        return whole, state, (self.last(whole) ** 2).mean() + state.sum()


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)

    def forward(self, x):
        seen = self.first(x)
        scores = seen * 2 if seen.sum() > 0 else seen * 3
        return seen, scores.exp().sum()


class Squared(tj.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 * x


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)

    def forward(self, x):
        seen = Squared.apply(self.first(x))
        return seen, Squared.apply(seen).sum()


class Written(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)

    def forward(self, x):
        seen = self.first(x).relu().mul(2)
        seen.add_(1)
        return seen, (seen * seen).sum()


MODELS: dict[type[nn.Module], tuple[int, ...]] = {
    Camera: (2, 3, 6, 6),
    Dropping: (4, 6),
    Recurrent: (3, 12, 6),
    Branching: (4, 6),
    Custom: (4, 6),
    Written: (4, 6),
}


def retained(seen: tj.Tensor, loss: tj.Tensor) -> Found:
    seen.retain_grad()
    loss.backward()
    return [seen.grad]


def hooked(seen: tj.Tensor, loss: tj.Tensor) -> Found:
    seen.register_hook(lambda gradient: gradient * 3)
    loss.backward()
    return []


def asked_for(seen: tj.Tensor, loss: tj.Tensor) -> Found:
    (found,) = tj.autograd.grad(loss, seen, retain_graph=True)
    loss.backward()
    return [found]


def twice(seen: tj.Tensor, loss: tj.Tensor) -> Found:
    seen.retain_grad()
    loss.backward(retain_graph=True)
    (loss + seen.sum()).backward()
    return [seen.grad]


def shown(seen: tj.Tensor, loss: tj.Tensor) -> Found:
    part = seen[0]
    part.retain_grad()
    (loss + part.sum()).backward()
    return [part.grad]


def as_inputs(seen: tj.Tensor, loss: tj.Tensor) -> Found:
    loss.backward(inputs=[seen])
    return [seen.grad]


WAYS = (retained, hooked, asked_for, twice, shown, as_inputs)


def gradients(
    model: type[nn.Module], way: Callable[..., Found], compiled: bool, varying: bool
) -> tuple[Found, int]:
    tj.manual_seed(3)
    module = model()
    function = tj.compile(module) if compiled else module
    numbers, shape = np.random.default_rng(0), MODELS[model]
    found: Found = []
    for i in range(5):
        size = (shape[0] + (i if varying else 0), *shape[1:])
        module.zero_grad()
        tj.manual_seed(7 + i)
        results = function(tj.tensor(numbers.standard_normal(size).astype(np.float32)))
        found += way(results[0], results[-1])
        found += [p.grad for p in module.parameters()]
    return found, function.stats.compiled_calls if compiled else 0


@pytest.mark.sampled(6)
@pytest.mark.parametrize("varying", [False, True], ids=["same", "varying"])
@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("model", MODELS, ids=lambda c: c.__name__)
def test_models(model: type[nn.Module], way: Callable[..., Found], varying: bool) -> None:
    expected, _ = gradients(model, way, False, varying)
    found, served = gradients(model, way, True, varying)
    assert served >= 2 or (varying and model in (Camera, Branching, Custom))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) is (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def three(x, w):
    first = (x * w).tanh()
    second = first * first
    return first, second, (second * first).sum()


def made(compiled: bool) -> tuple[tj.Tensor, Any]:
    w = tj.full((3,), 0.5, requires_grad=True)
    return w, (tj.compile(three) if compiled else three)


def both(results: Any, w: tj.Tensor) -> Found:
    first, second, total = results
    order: list[int] = []
    first.register_hook(lambda g: (order.append(1), g * 2)[1])
    second.register_hook(lambda g: (order.append(2), g + 1)[1])
    first.retain_grad()
    (total + second.sum() + first.sum()).backward()
    assert order == [2, 1]
    return [first.grad, w.grad]


def higher(results: Any, w: tj.Tensor) -> Found:
    (gradient,) = tj.autograd.grad(results[2], results[0], create_graph=True)
    return list(tj.autograd.grad((gradient * gradient).sum(), [w, results[0]]))


def several(results: Any, w: tj.Tensor) -> Found:
    return list(tj.autograd.grad(results[2], [results[1], w, results[0]]))


def nothing_more(results: Any, w: tj.Tensor) -> Found:
    results[1].retain_grad()
    results[0].sum().backward()
    return [results[1].grad, w.grad]


@pytest.mark.parametrize("use", [both, higher, several, nothing_more], ids=lambda f: f.__name__)
def test_results_that_follow_from_one_another(use: Callable[..., Found]) -> None:
    found = {}
    for compiled in (False, True):
        w, function = made(compiled)
        for _ in range(3):
            w.grad = None
            found[compiled] = use(function(tj.ones(2, 3), w), w)
    for one, other in zip(found[True], found[False], strict=True):
        assert (one is None) is (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-5)


def test_passes_that_nobody_watches_stay_whole() -> None:
    w, function = made(True)
    for _ in range(3):
        results = function(tj.ones(2, 3), w)
        results[2].register_hook(lambda g: g * 2)
        results[2].backward()
    node = results[2].grad_fn
    assert not node.site.joint.cuts


def test_what_is_gone_or_changed_is_refused() -> None:
    w, function = made(True)
    for _ in range(3):
        first, _, total = function(tj.ones(2, 3), w)
    first.retain_grad()
    total.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        total.backward()
    first, _, total = function(tj.ones(2, 3), w)
    first.retain_grad()
    with tj.no_grad():
        first.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()
