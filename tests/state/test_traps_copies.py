"""Traps: tensors that no operation made, and numbers that stay behind in containers after a recording."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from collections import deque

import pytest

import tracejit as tj
from trap_tools import check


def _copied(x):
    y = copy.copy(x)
    y += 1
    return y * 2, x


def _deep(x):
    parts = copy.deepcopy({"w": x, "again": x, "k": [1]})
    parts["w"].mul_(2)
    return parts["w"] + x, parts["again"]


def _deep_leaf(x):
    leaf = x.detach().requires_grad_()
    return copy.deepcopy(leaf).detach() * x


def _pickled(x):
    return pickle.loads(pickle.dumps(x.detach())) * x


def _parameter(x):
    return tj.nn.Parameter(x.detach() * 2, requires_grad=False) + x


def _buffer(x):
    return tj.nn.Buffer(x.detach() * 2) + x


#: Functions, and why they run eagerly (None: they do not).
MAKERS = {
    _copied: None,
    _deep: None,
    _deep_leaf: None,
    _pickled: "pickling of a tensor",
    _parameter: None,
    _buffer: None,
}


@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__[1:])
def test_tensor_that_no_operation_made(make) -> None:
    def scenario(stage):
        f = stage.compile(make)
        for k in (1.0, 2.0, -3.0, 0.5):
            stage.call(f, tj.tensor([1.0, 2.0, 3.0]) * k)
            stage.call(f, tj.tensor([[1.0], [2.0]]) * k)

    check(scenario, reason=MAKERS[make])


def test_copies_are_recorded() -> None:
    for make in (_copied, _deep, _deep_leaf, _parameter, _buffer):
        f = tj.compile(make)
        for _ in range(3):
            f(tj.ones(3))
        assert f.stats.compiled_calls == 2


def test_frozen_module_copied_inside() -> None:
    def scenario(stage):
        tj.manual_seed(0)
        model = tj.nn.Linear(2, 2).requires_grad_(False)

        def f(x):
            twin = copy.deepcopy(model)
            twin.weight.mul_(2)
            return twin(x), model(x)

        compiled = stage.compile(f)
        for k in (0.0, 1.0, 2.0, 3.0):
            model.bias.add_(k)
            stage.call(compiled, tj.ones(1, 2))

    check(scenario, compiled=3, recorded=1)


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


class Slotted:
    __slots__ = ("value",)


def _kinds(value):
    """The classes of everything in a nested value."""
    if isinstance(value, dict):
        return [_kinds(x) for item in value.items() for x in item]
    if isinstance(value, (list, tuple, deque)):
        return [_kinds(x) for x in value]
    if isinstance(value, set):
        return sorted(type(x).__name__ for x in value)
    if isinstance(value, Pair):
        return [_kinds(value.first), _kinds(value.second)]
    return _kinds(value.value) if isinstance(value, Slotted) else type(value).__name__


@pytest.mark.sampled(3)
@pytest.mark.parametrize("frozen", [False, True], ids=["", "frozen"])
@pytest.mark.parametrize("use", ["number", "size", "found"])
def test_numbers_left_in_containers(use: str, frozen: bool) -> None:
    """Each container keeps what a run put there; afterwards it must hold ints, wherever they are in it."""

    def scenario(stage):
        log, memo, seen, queue = [], {}, set(), deque(maxlen=4)
        if frozen:  # which hides containers from those who ask what refers to a number
            gc.freeze()

        def f(x, n):
            if use == "found":
                n = x[x > n - 3].shape[0]
            y = x[:n] if use == "size" else x * n
            slotted = Slotted()
            slotted.value = n + 1
            log.extend([n, (n, [n]), Pair(n, (n, 2)), slotted])
            memo[n, "key"] = memo[n] = n
            seen.add(n)
            queue.append((n, (n,)))
            return y

        compiled = stage.compile(f)
        for n in (1, 1, 2, 2, 3, 4, 2, 1):
            stage.call(compiled, tj.tensor([1.0, 2.0, 3.0, 4.0]), n)
            stage.note("kinds", _kinds([log, memo, seen, queue]))
            stage.note("text", json.dumps([*memo.values()]))

    check(scenario, reason="changes Python state")


@pytest.mark.parametrize("use", ["number", "size"])
def test_numbers_as_keys_of_results(use: str) -> None:
    def scenario(stage):
        def f(x, n):
            y = x[:n] if use == "size" else x * n
            return {n: y, ("key", n): n}, [{n: n}]

        compiled = stage.compile(f)
        for n in (1, 2, 3, 4, 2, 3):
            found = compiled(tj.tensor([1.0, 2.0, 3.0, 4.0]), n)
            stage.note("result", found)
            stage.note("kinds", _kinds([[*found[0]], found[1]]))
            stage.note("text", json.dumps(found[1]))

    check(scenario, compiled=1)
