"""States of random generators that a compiled function reads and puts back: the stream goes on as in eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit.nn import functional as F

OWN = tj.Generator()


def put_back(x: Any) -> Any:
    state = tj.get_rng_state()
    first = F.dropout(x, 0.5)
    tj.set_rng_state(state)
    return first, F.dropout(x, 0.5), tj.rand(2)


def read_on_the_way(x: Any) -> Any:
    before, drawn = tj.get_rng_state(), tj.rand(3)
    between, more = OWN.get_state(), tj.rand(2, generator=OWN)
    return before, drawn, between, more, tj.get_rng_state(), OWN.get_state(), x + 1


def forward_and_back(x: Any) -> Any:
    first = tj.get_rng_state()
    a = tj.rand(3)
    second = tj.get_rng_state()
    b = tj.rand(3)
    tj.set_rng_state(first)
    c = tj.rand(3)
    tj.set_rng_state(second)
    return a, b, c, x * 2


def forked(x: Any) -> Any:
    with tj.random.fork_rng():
        a = F.dropout(x, 0.5)
    return a, tj.rand(2)


def in_a_loop(x: Any) -> Any:
    for _ in range(6):
        state = tj.get_rng_state()
        noise = tj.rand(4)
        tj.set_rng_state(state)
        x = x * 0.5 + noise + tj.rand(4)
    return x


def decided(x: Any) -> Any:
    state = tj.get_rng_state()
    a = tj.rand(4)
    if a.sum() > 2:
        tj.set_rng_state(state)
    return a, tj.rand(4) + x


def trained(x: Any) -> Any:
    w = tj.ones(4, requires_grad=True)
    state = tj.get_rng_state()
    y = F.dropout(w * x, 0.5)
    tj.set_rng_state(state)
    (y * F.dropout(w, 0.5)).sum().backward()
    return w.grad


FOLLOWED: dict[str, Callable[[Any], Any]] = {
    "put back": put_back,
    "read": read_on_the_way,
    "forward and back": forward_and_back,
    "forked": forked,
    "in a loop": in_a_loop,
    "decided": decided,
    "trained": trained,
}


def changed_in_place(x: Any) -> Any:
    state = tj.get_rng_state()
    a = tj.rand(2)
    state[1] += 5
    tj.set_rng_state(state)
    return a, tj.rand(2) + x.sum()


def of_another(x: Any) -> Any:
    state = OWN.get_state()
    tj.set_rng_state(state)
    return tj.rand(2) + x.sum()


def seeded(x: Any) -> Any:
    state = tj.get_rng_state()
    tj.manual_seed(5)
    a = tj.rand(2)
    tj.set_rng_state(state)
    return a, tj.rand(2) + x.sum()


def computed(x: Any) -> Any:
    tj.set_rng_state(tj.get_rng_state() + 1)
    return tj.rand(2) + x.sum()


KEPT = tj.tensor([7, 3])


def from_outside(x: Any) -> Any:
    tj.set_rng_state(KEPT)
    return tj.rand(2) + x.sum()


REFUSED = [changed_in_place, of_another, seeded, computed, from_outside]


def runs(function: Callable[[Any], Any], count: int = 8) -> list[Any]:
    """What calls give, and where the streams stand after each, with draws in between."""
    tj.manual_seed(3)
    OWN.manual_seed(4)
    found: list[Any] = []
    for i in range(count):
        result = function(tj.ones(4) * i)
        parts = result if isinstance(result, tuple) else (result,)
        found += [[round(v, 5) for v in x.reshape(-1).tolist()] for x in parts]
        found += [tj.get_rng_state().tolist(), OWN.get_state().tolist(), tj.rand(1).tolist()]
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FOLLOWED)
def test_states_that_the_call_has_read_are_put_back(name: str) -> None:
    compiled = tj.compile(FOLLOWED[name])
    assert runs(compiled) == runs(FOLLOWED[name])
    recordings = 2 if name == "decided" else 1
    assert compiled.stats.recordings == recordings, compiled.explain()
    assert compiled.stats.compiled_calls == 8 - recordings, compiled.explain()


@pytest.mark.parametrize("function", REFUSED)
def test_other_states_are_a_reason_to_run_eagerly(function: Callable[[Any], Any]) -> None:
    compiled = tj.compile(function)
    assert runs(compiled) == runs(function)
    assert compiled.stats.compiled_calls == 0
    assert "state" in str(compiled.explain()) or "manual_seed" in str(compiled.explain())


def test_states_are_those_of_the_call() -> None:
    """A state that a call returns is put back later by the program."""
    compiled = tj.compile(lambda x: (tj.get_rng_state(), x * tj.rand(3)))
    tj.manual_seed(1)
    given = [compiled(tj.ones(3)) for _ in range(4)]
    assert [state.view(tj.int64).tolist() for state, _ in given] == [[1, i] for i in range(4)]
    for state, drawn in reversed(given):
        tj.set_rng_state(state)
        assert tj.rand(3).tolist() == drawn.tolist()
        tj.set_rng_state(state)
        assert compiled(tj.ones(3))[1].tolist() == drawn.tolist()


@pytest.mark.parametrize("seed", [0, 5, 2**40 + 3, -7, 2**64 - 1])
def test_states_are_bytes(seed: int) -> None:
    def f(x: tj.Tensor) -> tuple[tj.Tensor, ...]:
        drawn = tj.rand(3)
        return tj.get_rng_state(), x * drawn, tj.get_rng_state()

    compiled, x = tj.compile(f), tj.ones(3)
    for _ in range(3):
        tj.manual_seed(seed)
        expected = f(x)
        tj.manual_seed(seed)
        found = compiled(x)
        assert [t.tolist() for t in found] == [t.tolist() for t in expected]
        assert found[0].dtype is expected[0].dtype is tj.uint8
    before = tj.rand(2, generator=tj.Generator().manual_seed(seed))
    generator = tj.Generator().manual_seed(seed)
    state = generator.get_state()
    for kept in (state, state.cpu().byte(), state.view(tj.int64), tj.tensor(state.tolist()).byte()):
        tj.set_rng_state(kept)
        assert tj.equal(tj.rand(2), before)
    with pytest.raises(RuntimeError, match="wrong size: expected 16 bytes"):
        tj.set_rng_state(state[:7])
