"""Guards of deep models: one look at a counter, which every change that matters moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.optim.counters import runs_of
from tracejit.tensor_core import REBOUND


def model(layers: int) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))


def entry_of(compiled: Any) -> Any:
    (entry,) = (e for entries in compiled.entries.values() for e in entries)
    return entry


def steps(function: Callable[[], Any]) -> int:
    """How many lines and calls running ``function`` takes: a cost that no other process changes."""
    import sys

    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
    return count


def guard_steps(layers: int, optimizing: bool) -> int:
    net, x = model(layers), tj.ones(2, 3)
    optimizer = tj.optim.Adam(net.parameters())

    def train(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = tj.compile(train if optimizing else lambda x: net(x))
    for _ in range(4):
        compiled(x)
    entry = entry_of(compiled)
    assert compiled.stats.compiled_calls >= 2
    assert entry.holds()
    return steps(entry.holds)


@pytest.mark.parametrize("optimizing", [False, True])
def test_a_guard_takes_as_many_steps_for_many_layers(optimizing: bool) -> None:
    assert guard_steps(12, optimizing) == guard_steps(1, optimizing)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "requires_grad_": lambda w: w.requires_grad_(False),
    "requires_grad": lambda w: setattr(w, "requires_grad", False),
    "data of another dtype": lambda w: setattr(w, "data", w.data.double()),
    "data of another layout": lambda w: setattr(w, "data", w.data.T.contiguous().T),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("viewed", [False, True])
def test_changes_of_captured_tensors_are_seen(name: str, viewed: bool) -> None:
    w = tj.ones(3, 3, requires_grad=True)
    shown = w[1:] if viewed else w
    compiled = tj.compile(lambda x: (x * shown).sum())
    x = tj.ones(3)
    for _ in range(3):
        compiled(x).backward()
    entry = entry_of(compiled)
    CHANGES[name](w)
    if not viewed:
        assert not entry.holds()
        assert compiled(x).dtype is (x * shown).sum().dtype
        assert compiled(x).requires_grad == shown.requires_grad


def test_a_leaf_that_gets_a_history_is_seen() -> None:
    """Gradients go to where the history leads, not to the tensor that was a leaf."""
    source, found = tj.ones(3, requires_grad=True), []
    for compiling in (False, True):
        w = tj.ones(3, requires_grad=True)
        plain = lambda x, w=w: (x * w).sum()  # noqa: E731
        f = tj.compile(plain) if compiling else plain
        x = tj.ones(3)
        for _ in range(3):
            f(x).backward()
        w.requires_grad_(False)
        w.add_(source)
        source.grad = w.grad = None
        for _ in range(2):
            f(x).backward()
        found.append((source.grad.tolist(), w._grad))
    assert found == [([2.0] * 3, None)] * 2


def test_views_of_what_gets_a_history_are_seen() -> None:
    base, source = tj.zeros(4), tj.ones(4, requires_grad=True)
    view = base[1:]
    compiled = tj.compile(lambda x: (x * view).sum())
    x = tj.ones(3)
    for _ in range(3):
        compiled(x)
    assert entry_of(compiled).holds()
    base.add_(source)
    assert view.requires_grad
    assert not entry_of(compiled).holds()
    for _ in range(2):
        compiled(x).backward()
    assert source.grad.tolist() == [0.0, 2.0, 2.0, 2.0]


def test_other_tensors_move_nothing() -> None:
    before = REBOUND[0]
    x = tj.ones(3)
    x.requires_grad_()
    x.data = tj.zeros(3)
    (x * 2).add_(x)
    assert REBOUND[0] == before


# --- optimizers ---------------------------------------------------------------------------------------------------


def test_step_counts_lie_side_by_side_and_are_still_tensors_of_their_own() -> None:
    net = model(2)
    optimizer = tj.optim.Adam(net.parameters())
    net(tj.ones(2, 3)).sum().backward()
    optimizer.step()
    counters = [optimizer.state[p]["step"] for p in net.parameters()]
    assert [run.tolist() for run in runs_of(counters)] == [[1.0] * 4]
    counters[1].add_(1)
    assert [c.item() for c in counters] == [1, 2, 1, 1]
    assert [c._version for c in counters] == [1, 2, 1, 1]
    assert [
        r.tolist() for r in runs_of([counters[0], counters[2], tj.tensor(7.0), counters[3]])
    ] == [
        [1.0],
        [1.0],
        [7.0],
        [1.0],
    ]
    assert len({id(c) for c in counters}) == 4


COUNTS: dict[str, Callable[[Any], Any]] = {
    "in place": lambda c: c.add_(3),
    "data": lambda c: c.data.fill_(5.0),
    "numpy": lambda c: c.numpy().fill(6.0),
    "other memory": lambda c: setattr(c, "data", tj.tensor(9.0)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_step_count_that_differs_is_seen(name: str) -> None:
    found = []
    for compiling in (False, True):
        tj.manual_seed(0)
        net = model(2)
        optimizer = tj.optim.Adam(net.parameters(), lr=0.1)

        def train(x, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        f = tj.compile(train) if compiling else train
        for _ in range(4):
            f(tj.ones(2, 3))
        COUNTS[name](optimizer.state[net[0].bias]["step"])
        for _ in range(3):
            f(tj.ones(2, 3))
        found.append([p.detach().numpy().copy() for p in net.parameters()])
        found[-1] += [optimizer.state[p]["step"].numpy().copy() for p in net.parameters()]
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "pop": lambda params: params.pop(),
    "remove": lambda params: params.__delitem__(0),
    "replace": lambda params: params.__setitem__(0, params[1]),
    "reverse": lambda params: params.reverse(),
    "clear": lambda params: params.clear(),
    "slice": lambda params: params.__setitem__(slice(1, None), []),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_parameters_that_changes_is_seen(name: str) -> None:
    found = []
    for compiling in (False, True):
        tj.manual_seed(0)
        net = model(2)
        optimizer = tj.optim.SGD(net.parameters(), lr=0.1)

        def train(x, net=net, optimizer=optimizer):
            net.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        f = tj.compile(train) if compiling else train
        for _ in range(3):
            f(tj.ones(2, 3))
        LISTS[name](optimizer.param_groups[0]["params"])
        for _ in range(3):
            f(tj.ones(2, 3))
        found.append([p.detach().numpy().copy() for p in net.parameters()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
