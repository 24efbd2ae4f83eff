"""Steps that return what a backward pass inside went through: later passes reach what they reach in eager code."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn


class Skips(nn.Module):
    """Sums, views and joins of parameters at the end of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.shift, self.rows = nn.Parameter(tj.ones(4)), nn.Parameter(tj.ones(2, 4))

    def forward(self, x: Any) -> Any:
        """Rows of the network above those of a parameter."""
        hidden = self.first(x)
        joined = tj.cat([self.second(hidden) + hidden + self.shift, self.rows])
        return joined.t().reshape(2, -1)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(4, 3),
    "layers": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)),
    "norm": lambda: nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5)),
    "batches": lambda: nn.BatchNorm1d(4),
    "skips": Skips,
}


def later_passes(out: Any, parameters: list[Any]) -> list[Any]:
    """What passes through a returned tensor give, or the errors they end in."""
    found: list[Any] = []
    for count in (1, 2):
        for wanted in itertools.combinations(parameters, count):
            try:
                grads = tj.autograd.grad(out.sum(), wanted, retain_graph=True, allow_unused=True)
                found.append([None if g is None else g.tolist() for g in grads])
            except RuntimeError as error:
                found.append(str(error))
    with pytest.raises(RuntimeError, match="a second time"):
        out.sum().backward()
    return found


def training(make: Callable[[], nn.Module]) -> tuple[nn.Module, Callable[[Any], Any]]:
    """A module, and a step that trains it and returns what it gave."""
    tj.manual_seed(0)
    model = make()
    optimizer = tj.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        return loss, out

    return model, step


@pytest.mark.parametrize("name", MODULES)
def test_steps_that_return_their_outputs(name: str) -> None:
    found = []
    for compiled in (False, True):
        model, step = training(MODULES[name])
        run = tj.compile(step, strict=True) if compiled else step
        tj.manual_seed(1)
        for _ in range(3):
            loss, out = run(tj.randn(3, 4))
            assert out.requires_grad
            found.append(
                (compiled, loss.tolist(), out.tolist(), later_passes(out, [*model.parameters()]))
            )
        assert not compiled or run.stats.compiled_calls == 2
    half = len(found) // 2
    for (_, *eager), (_, *replayed) in zip(found[:half], found[half:], strict=True):
        assert tj.allclose(tj.tensor(eager[0]), tj.tensor(replayed[0]))
        assert tj.allclose(tj.tensor(eager[1]), tj.tensor(replayed[1]), atol=1e-6)
        assert eager[2] == replayed[2]
        assert any(isinstance(x, str) for x in eager[2])
        assert any(isinstance(x, list) for x in eager[2])


class Chosen(nn.Module):
    """Rows of which only the run tells how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.shift = nn.Linear(4, 3), nn.Parameter(tj.ones(3))

    def forward(self, x: Any) -> Any:
        """Some rows, less the first of them."""
        return (self.last(x[x[:, 0] > 0]) + self.shift)[1:]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*MODULES, "chosen"])
def test_batches_of_any_size_and_their_outputs(name: str) -> None:
    """What still can be gone through is as large as the call's own batch, and needs no recording for each size."""
    found = []
    for compiled in (False, True):
        model, step = training({**MODULES, "chosen": Chosen}[name])
        run = tj.compile(step) if compiled else step
        tj.manual_seed(1)
        for size in (12, 16, 14, 18, 12, 22, 16, 20):
            _, out = run(tj.randn(size, 4))
            weights = tj.arange(float(out.numel())).reshape(out.shape)
            found.append((out.tolist(), later_passes(out * weights, [*model.parameters()])))
        assert not compiled or run.stats.recordings <= 3, run.explain()
        assert not compiled or run.stats.compiled_calls >= 4
    half = len(found) // 2
    for (eager, passed), (replayed, later) in zip(found[:half], found[half:], strict=True):
        assert tj.allclose(tj.tensor(eager), tj.tensor(replayed), atol=1e-5)
        assert passed == later
        assert any(isinstance(x, list) for x in passed)


def test_gradients_of_gradients_go_on_as_well() -> None:
    w, b = tj.ones(3, requires_grad=True), tj.ones(3, requires_grad=True)

    @tj.compile(strict=True)
    def step(x: Any) -> Any:
        w.grad = b.grad = None
        out = x * w + b
        out.sum().backward()
        return out

    for k in range(1, 4):
        out = step(tj.full((3,), float(k)))
        (once,) = tj.autograd.grad((out * b).sum(), b, create_graph=True)
        assert once.tolist() == [k + 2.0] * 3
        (twice,) = tj.autograd.grad(once.sum(), b)
        assert twice.tolist() == [2.0] * 3
    assert step.stats.compiled_calls == 2


def test_what_remains_with_a_place_in_it() -> None:
    w, b = tj.ones(3, requires_grad=True), tj.ones(3, requires_grad=True)

    @tj.compile
    def step(x: Any, first: int) -> Any:
        w.grad = b.grad = None
        out = x * w + b
        out.sum().backward()
        return out[first:]

    for k in (0, 1, 2, 1, 0, 2, 0):
        out = step(tj.ones(3), k)
        (found,) = tj.autograd.grad(out.sum(), b)
        assert found.tolist() == [0.0] * k + [1.0] * (3 - k)
    assert step.stats.compiled_calls >= 4, step.explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[:, :2],
        lambda x: x[0],
        lambda x: x.chunk(2, dim=1)[1],
        lambda x: x.flip(0),
        lambda x: x.roll(1, 1),
        lambda x: nn.functional.pad(x, (1, 2), value=0.5),
        lambda x: tj.stack([x[2], x[0] + x[1]]),
    ],
    ids=["slice", "select", "chunk", "flip", "roll", "pad", "stack"],
)
def test_what_remains_are_parts(part: Any) -> None:
    """Results that are cropped last, as those of networks on images are, leave a step compiled."""
    w, b = tj.ones(4, requires_grad=True), tj.ones(4, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = b.grad = None
        out = part(x * w + b)
        out.square().sum().backward()
        return out

    run = tj.compile(step, strict=True)
    for _ in range(4):
        x = tj.randn(3, 4)
        weights = tj.randn(*step(x).shape)
        passed = [
            (out.tolist(), later_passes((out * weights).sum(), [w, b])) for out in (step(x), run(x))
        ]
        assert passed[0] == passed[1]
        assert isinstance(passed[0][1][0], str)
        assert isinstance(passed[0][1][1], list)
    assert run.stats.compiled_calls == 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("last", "dtype"),
    [
        (lambda x, v: nn.functional.pad(x, (1, 2, 0, 1), value=v), tj.float32),
        (lambda x, v: nn.functional.pad(x, (1, 2), value=v), tj.float16),
        (lambda x, v: nn.functional.pad(x, (0, 0), value=v), tj.float32),
        (
            lambda x, v: nn.functional.pad(x.to(tj.complex64), (0, 1), value=v).real + v,
            tj.float32,
        ),
        (lambda x, v: v - x, tj.float32),
        (lambda x, v: (x + v)[:, 1:] - 2 * v, tj.float32),
    ],
    ids=["pad", "pad halves", "pad by nothing", "pad complex", "subtract", "add"],
)
def test_what_remains_with_a_number_that_varies(last: Any, dtype: Any) -> None:
    """Steps made of it keep as little as they do with a constant."""
    w, b = tj.ones(4, dtype=dtype, requires_grad=True), tj.ones(4, dtype=dtype, requires_grad=True)

    def step(x: Any, value: float) -> Any:
        w.grad = b.grad = None
        out = last(x * w + b, value)
        out.float().square().sum().backward()
        return out

    run = tj.compile(step, strict=True)
    for value in (0.5, 1.5, -2.0, 0.0, 3.0):
        x = tj.randn(3, 4, dtype=dtype)
        weights = tj.randn(*step(x, value).shape)
        passed = []
        for out in (step(x, value), run(x, value)):
            assert out is not x
            passed.append((out.tolist(), later_passes((out * weights).sum(), [w, b])))
        assert passed[0] == passed[1]
        assert isinstance(passed[0][1][0], str)
        assert isinstance(passed[0][1][1], list)
    assert run.stats.compiled_calls >= 2  # halves are asked whether they hold the number


def test_arguments_that_are_still_reached() -> None:
    w = tj.ones(3, requires_grad=True)

    @tj.compile(strict=True)
    def step(x: Any, y: Any) -> Any:
        w.grad = None
        out = x * w + y
        out.sum().backward()
        return out

    for k in range(1, 4):
        x = tj.full((3,), float(k), requires_grad=True)
        y = tj.full((3,), 2.0, requires_grad=True)
        out = step(x, y)
        assert out.tolist() == [k + 2.0] * 3
        assert tj.autograd.grad(out.sum(), y)[0].tolist() == [1.0] * 3
        with pytest.raises(RuntimeError, match="a second time"):
            tj.autograd.grad(out.sum(), x)
    assert step.stats.compiled_calls == 2
