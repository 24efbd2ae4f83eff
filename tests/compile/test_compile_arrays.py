"""Tensors that compiled functions make of NumPy's arrays and of long lists: constants, where nobody else has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

KNOWN = np.arange(4.0)
FACTOR = [2.0]


class Tables:
    """Keeps what its methods look things up in as arrays."""

    def __init__(self) -> None:
        self.rates = np.linspace(0, 1, 90)

    def shares(self, steps: Any) -> Any:
        return tj.from_numpy(self.rates)[steps].float() - tj.from_numpy(self.rates).float().mean()


TABLES = Tables()


def named(x: Any) -> Any:
    table = np.linspace(0, 1, 100)
    table[0] = 5.0
    return tj.from_numpy(table).float() * x.sum()


def in_a_loop(x: Any) -> Any:
    for i in range(6):
        x = x + tj.from_numpy(np.full(3, i, np.float32))
    return x


def until(x: Any) -> Any:
    while x.sum() < 40:
        x = x + tj.from_numpy(np.ones(3, np.float32))
    return x


def trained(x: Any) -> Any:
    weight = tj.from_numpy(np.arange(3.0)).float().requires_grad_()
    (weight * x).square().sum().backward()
    return weight.grad


FOLLOWED: dict[str, Callable[[Any], Any]] = {
    "labels": lambda x: tj.from_numpy(np.array([0] * 4)).reshape(-1).long() * x.sum(),
    "large": lambda x: tj.from_numpy(np.linspace(0, 1, 100)).float() * x.sum(),
    "a view": lambda x: tj.from_numpy(np.arange(6.0).reshape(2, 3)) * x.sum(),
    "bytes": lambda x: tj.from_numpy(np.eye(3, dtype=np.uint8)[None].repeat(2, 0)) * x.sum(),
    "complex": lambda x: tj.from_numpy(np.exp(1j * np.arange(80))) * x.sum(),
    "as a tensor": lambda x: (tj.as_tensor(np.arange(5.0)), tj.asarray(np.arange(4.0)), x + 1),
    "itself": lambda x: tj.from_numpy(np.zeros((2, 70))),
    "named": named,
    "in a loop": in_a_loop,
    "trained": trained,
    "long list": lambda x: tj.tensor([np.sin(i) * FACTOR[0] for i in range(100)]) * x.sum(),
    "long list of bools": lambda x: tj.tensor([i % 3 == 0 for i in range(100)]) * x.sum(),
    "long list of halves": lambda x: tj.tensor([i / 3 for i in range(100)], dtype=tj.bfloat16),
    "rows": lambda x: tj.Tensor([[i, j] for i in range(9) for j in range(9)]).clamp_(max=x.max()),
    "known, copied": lambda x: tj.tensor(KNOWN) * x.sum(),
    "known, read": lambda x: tj.from_numpy(KNOWN).float() * x.sum() + tj.as_tensor(KNOWN)[1],
    "known, a part": lambda x: tj.from_numpy(KNOWN[1:]) + x,
    "known, in another shape": lambda x: tj.from_numpy(np.reshape(KNOWN, [1, 4])) * x.sum(),
    "known to an object": lambda x: x * TABLES.shares(tj.tensor([1, 2, 2])),
}


def written_later(x: Any) -> Any:
    array = np.zeros(3, np.float32)
    tensor = tj.from_numpy(array)
    array[0] = 4.0
    return tensor + x


def written_to(x: Any) -> Any:
    return tj.from_numpy(np.ones(3, np.float32)).mul_(x)


class Keeps:
    """Keeps the array, a part of it, or the whole that it is a part of."""

    def __init__(self, keep: Callable[[Any], Any]) -> None:
        self.keep = keep
        self.kept: list[Any] = [None]

    def __call__(self, x: Any) -> Any:
        whole = np.zeros((2, 3), np.float32)
        tensor = tj.from_numpy(whole[0])
        self.kept[0] = self.keep(whole)
        return tensor + x


REFUSED: dict[str, Callable[[Any], Any]] = {
    "known, itself": lambda x: (tj.from_numpy(KNOWN), x + 1),
    "known, a part": lambda x: tj.from_numpy(KNOWN)[1:].detach(),
    "written later": written_later,
    "written to": written_to,
    "keeps the whole": Keeps(lambda whole: whole),
    "keeps a part": Keeps(lambda whole: whole[0, :2]),
    "keeps a buffer": Keeps(memoryview),
}


def tensors_in(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def compare(f: Callable[[Any], Any], rounds: int = 6) -> Any:
    """Compiled calls give what eager ones give, though results are overwritten and state changes."""
    KNOWN[:] = np.arange(4.0)
    FACTOR[0] = 2.0
    compiled = tj.compile(f)
    for number in range(rounds):
        if number == 4:
            KNOWN[1], FACTOR[0], TABLES.rates = 7.0, 3.0, TABLES.rates / 2
        x = tj.arange(3.0) + number
        expected = tensors_in(f(x))
        found = tensors_in(compiled(x))
        for a, b in zip(found, expected, strict=True):
            assert a.dtype is b.dtype
            assert a.stride() == b.stride()
            np.testing.assert_allclose(a.float_power(1), b.float_power(1), rtol=1e-6)
            a.zero_()
    return compiled


@pytest.mark.parametrize("name", FOLLOWED)
def test_arrays_of_the_run_are_constants(name: str) -> None:
    compiled = compare(FOLLOWED[name])
    assert compiled.stats.compiled_calls >= 2, compiled.explain()


@pytest.mark.parametrize("name", REFUSED)
def test_arrays_that_others_have_are_shared_with_them(name: str) -> None:
    compiled = compare(REFUSED[name])
    assert compiled.stats.compiled_calls == 0
    assert re.search("from_numpy.. of an array|changes Python state", str(compiled.explain()))


def known_and_changed(x: Any) -> Any:
    tensor = tj.from_numpy(KNOWN)
    KNOWN[0] += 1
    return tensor[:3] + x


@pytest.mark.parametrize("f", [known_and_changed, lambda x: tj.from_numpy(KNOWN).mul_(2)[:3] * x])
def test_known_arrays_that_the_run_writes_to(f: Callable[[Any], Any]) -> None:
    found = []
    for called in (f, tj.compile(f)):
        KNOWN[:] = np.arange(4.0)
        found.append([called(tj.ones(3)).tolist() for _ in range(4)] + [KNOWN.tolist()])
    assert found[0] == found[1]


def test_rounds_until_a_tensor_says_so() -> None:
    compare(until)


def test_lists_that_change_at_every_call_are_recorded_a_few_times() -> None:
    @tj.compile
    def scaled(x: Any, values: list[float]) -> Any:
        return tj.tensor(values) * x.sum()

    for number in range(60):
        values = [float(number + i) for i in range(100)]
        assert scaled(tj.ones(1), values).tolist() == values
    assert scaled.stats.recordings < 30
