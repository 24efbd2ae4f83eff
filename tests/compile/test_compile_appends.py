"""compile(): what a function appends to lists that others read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

seen: list[Any] = []
others: list[Any] = []


def values(found: Any) -> Any:
    """What was appended, to be compared."""
    if isinstance(found, tj.Tensor):
        return found.detach().numpy().round(4).tolist(), found.requires_grad, tuple(found.shape)
    if isinstance(found, (list, tuple)):
        return type(found), [*map(values, found)]
    if isinstance(found, dict):
        return {k: values(x) for k, x in found.items()}
    return round(found, 4) if isinstance(found, float) else found


class Holder:
    """An object with lists."""

    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.steps: list[Any] = []
        self.count = 0


class Layer(nn.Module):
    """A layer that keeps what it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.kept: list[Any] = []

    def forward(self, x: Any) -> Any:
        x = self.inner(x).tanh()
        self.kept.append(x.detach())
        return x


def tensors() -> tuple[Callable[[Any], Any], list[Any]]:
    def function(x):
        y = x * 2
        seen.append(y)
        seen.append((x, y.sum()))
        return y

    return function, seen


def numbers() -> tuple[Callable[[Any], Any], list[Any]]:
    holder = Holder()

    def function(x):
        loss = x.square().mean()
        holder.count += 1
        holder.losses.append(loss.item())
        holder.steps.append({"step": holder.count, "shape": tuple(x.shape)})
        return loss * holder.count

    return function, [holder.losses, holder.steps]


def hooks() -> tuple[Callable[[Any], Any], list[Any]]:
    kept: list[Any] = []
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    for layer in model:
        layer.register_forward_hook(lambda module, inputs, output: kept.append(output))
    return lambda x: model(x).sum(), kept


def modules() -> tuple[Callable[[Any], Any], list[Any]]:
    model = nn.Sequential(Layer(), Layer())
    return lambda x: model(x).sum(), [layer.kept for layer in model]


def loops() -> tuple[Callable[[Any], Any], list[Any]]:
    def function(x):
        for step in range(20):
            x = (x * 0.9).sin()
            seen.append((step, x.sum()))
        return x

    return function, seen


def branches() -> tuple[Callable[[Any], Any], list[Any]]:
    def function(x):
        seen.append("begin")
        if x.sum() > 0:
            seen.extend([x.max(), "above"])
            return x * 2
        others.append(x.min())
        return x * 3

    return function, [seen, others]


def while_loops() -> tuple[Callable[[Any], Any], list[Any]]:
    def function(x):
        while x.abs().sum() > 0.5:
            x = x * 0.5
            seen.append(x.abs().sum())
        return x

    return function, seen


def shared() -> tuple[Callable[[Any], Any], list[Any]]:
    def function(x):
        row = [x * 2]
        seen.append(row)
        row.append(row[0] + 1)
        others.append(row[1])
        return row

    return function, [seen, others]


def views() -> tuple[Callable[[Any], Any], list[Any]]:
    def function(x):
        y = x * 2
        seen.append(y[0])
        y += 1
        seen.append(y)
        return y.T

    return function, seen


def closures() -> tuple[Callable[[Any], Any], list[Any]]:
    kept: list[Any] = []

    def note(what):
        kept.append(what)
        return what

    return lambda x: note(x + 1) * note(x - 1), kept


def training() -> tuple[Callable[[Any], Any], list[Any]]:
    model, losses = nn.Linear(4, 2), list[Any]()
    optimizer = tj.optim.Adam(model.parameters(), lr=0.05)

    def function(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        return loss.detach()

    return function, losses


FUNCTIONS: dict[str, Any] = {
    f.__name__: f
    for f in (
        *(tensors, numbers, hooks, modules, loops, branches),
        *(while_loops, shared, views, closures, training),
    )
}


def run(name: str, calls: int, gradient: bool = False, **options: Any) -> tuple[Any, Any]:
    """Everything that was returned and appended, and the function."""
    seen.clear()
    others.clear()
    tj.manual_seed(0)
    function, lists = FUNCTIONS[name]()
    if options:
        function = tj.compile(function, **{k: v for k, v in options.items() if v is not None})
    rng = np.random.default_rng(0)
    found = []
    for k in range(calls):
        x = tj.tensor(rng.standard_normal((3, 4)).astype(np.float32) + (k % 3 - 1))
        x.requires_grad_(gradient)
        result = function(x)
        found.append(values(result))
        if gradient and isinstance(result, tj.Tensor) and result.requires_grad:
            last = lists[-1] if lists and isinstance(lists[-1], tj.Tensor) else result
            (result.sum() + (last.sum() if last.requires_grad else 0)).backward()
            found.append(values(x.grad))
    return (found, values(lists)), function


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_hold_what_eager_execution_appends(name: str) -> None:
    expected, _ = run(name, 9)
    found, function = run(name, 9, verify=None)
    assert found == expected
    assert function.stats.compiled_calls >= 3, function.explain()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("training", "views")])
def test_with_gradients(name: str) -> None:
    expected, _ = run(name, 9, gradient=True)
    found, function = run(name, 9, gradient=True, verify=None)
    assert found == expected
    assert function.stats.compiled_calls >= 3, function.explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_beside_an_eager_run(name: str) -> None:
    """Appended once, and compared."""
    expected, _ = run(name, 8)
    found, _ = run(name, 8, verify=True)
    assert found == expected


def test_what_was_returned_is_what_was_appended() -> None:
    kept: list[Any] = []

    @tj.compile
    def function(x: Any) -> Any:
        y = x * 2
        kept.append(y)
        return y

    for _ in range(4):
        assert function(tj.ones(3)) is kept[-1]
    assert function.stats.compiled_calls == 3


def test_lists_that_others_empty_or_replace_are_the_ones_there_are() -> None:
    holder = Holder()

    @tj.compile
    def function(x: Any) -> Any:
        holder.losses.append(x.sum())
        return x * 2

    kept = []
    for k in range(12):
        if k % 4 == 2:
            holder.losses = []
            kept.append(holder.losses)
        elif k % 4 == 0:
            holder.losses.clear()
        function(tj.ones(3) * k)
    assert [[x.item() for x in losses] for losses in kept] == [[12, 15], [24, 27], [30, 33]]
    assert function.stats.recordings == 1
