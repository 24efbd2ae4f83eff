"""Every sampler draws from one stream, whoever draws: eager, compiled, fused, backward, one thread or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F
from tracejit.runtime.threads import get_num_threads, set_num_threads

LARGE = 120_000

SAMPLERS: dict[str, Callable[[int, Any], Any]] = {
    "rand": lambda n, g: tj.rand(n, generator=g),
    "randn": lambda n, g: tj.randn(n, generator=g),
    "randint": lambda n, g: tj.randint(-3, 9, (n,), generator=g),
    "randperm": lambda n, g: tj.randperm(n, generator=g),
    "normal": lambda n, g: tj.normal(0.5, 2.0, (n,), generator=g),
    "normal of tensors": lambda n, g: tj.normal(tj.arange(float(n)), 2.0, generator=g),
    "bernoulli": lambda n, g: tj.bernoulli(tj.full((n,), 0.3), generator=g),
    "multinomial": lambda n, g: tj.multinomial(tj.arange(1.0, 9.0), 5, generator=g),
    "multinomial again": lambda n, g: tj.multinomial(tj.ones(4), n, True, generator=g),
    "uniform_": lambda n, g: tj.empty(n).uniform_(-1, 2, generator=g),
    "normal_": lambda n, g: tj.empty(n).normal_(1, 2, generator=g),
    "exponential_": lambda n, g: tj.empty(n).exponential_(0.5, generator=g),
    "random_": lambda n, g: tj.empty(n).random_(0, 10, generator=g),
    "bernoulli_": lambda n, g: tj.empty(n).bernoulli_(0.25, generator=g),
    "log_normal_": lambda n, g: tj.empty(n).log_normal_(0.0, 0.5, generator=g),
    "rand_like": lambda n, g: tj.rand_like(tj.zeros(n)),
    "randn_like": lambda n, g: tj.randn_like(tj.zeros(n, dtype=tj.float64)),
    "dropout": lambda n, g: F.dropout(tj.ones(n), 0.4),
    "alpha_dropout": lambda n, g: F.alpha_dropout(tj.ones(n), 0.4, training=True),
}


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def observe(draw: Callable[[Any], Any], own: bool, calls: int = 3) -> list[np.ndarray]:
    """Draws of some calls with eager draws between them, and the state at the end."""
    tj.manual_seed(11)
    generator = tj.Generator().manual_seed(5) if own else None
    found = []
    for _ in range(calls):
        found.append(draw(generator).detach().numpy().copy())
        found.append(tj.rand(2, generator=generator).numpy())
    states = [tj.get_rng_state()] + ([generator.get_state()] if generator is not None else [])
    return [*found, *(s.numpy() for s in states)]


#: Made of uniform draws by ``log`` and ``exp``, which kernels and NumPy may round to neighbours.
ROUNDED = ("exponential_", "log_normal_")


def same_bits(a: list[np.ndarray], b: list[np.ndarray], name: str = "") -> None:
    assert [x.dtype for x in a] == [x.dtype for x in b]
    if name in ROUNDED:
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=3e-7)
        return
    assert [x.tobytes() for x in a] == [x.tobytes() for x in b]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_alone(name: str, own: bool) -> None:
    def draw(g: Any) -> Any:
        return SAMPLERS[name](37, g)

    same_bits(observe(draw, own), observe(tj.compile(draw), own), name)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_among_other_work(name: str) -> None:
    """Fused with what uses the draws: exact arithmetic, so that the bits can be compared."""

    def draw(g: Any) -> Any:
        values = SAMPLERS[name](33, g).double()
        return (values * 2.0 - tj.rand(1, generator=g).double() * 0).abs() + values.flip(0)

    compiled = tj.compile(draw)
    same_bits(observe(draw, False, 4), observe(compiled, False, 4), name)
    assert compiled.stats.compiled_calls >= 3


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", ["rand", "randn", "dropout", "bernoulli", "randint"])
def test_many_draws_on_all_threads(name: str) -> None:
    def draw(g: Any) -> Any:
        return SAMPLERS[name](LARGE, g)

    same_bits(observe(draw, False, 2), observe(tj.compile(draw), False, 2))


def test_threads_are_no_part_of_the_stream(threads: int) -> None:
    def draw(g: Any) -> Any:
        return F.dropout(tj.ones(LARGE), 0.5) + tj.randn(LARGE)

    compiled = tj.compile(draw)
    found = observe(compiled, False)
    set_num_threads(3 - threads)
    same_bits(found, observe(compiled, False))


@pytest.mark.usefixtures("threads")
def test_masks_of_backward() -> None:
    """The gradient of dropout is the mask of forward: also later, twice, and with other draws in between."""
    found = []
    for compiling in (False, True):
        f = tj.compile(F.dropout) if compiling else F.dropout
        tj.manual_seed(2)
        masks = []
        for _ in range(3):
            x = tj.ones(LARGE, requires_grad=True)
            y = f(x, 0.3)
            tj.rand(5)
            if compiling:
                set_num_threads(3 - get_num_threads())
            y.sum().backward(retain_graph=True)
            assert x.grad is not None
            assert x.grad.numpy().tobytes() == y.detach().numpy().tobytes()
            (y * 2).sum().backward()
            masks.append(x.grad.numpy().copy())
        found.append(masks)
    same_bits(*found)


def test_streams_saved_and_put_back() -> None:
    found = []
    for compiling in (False, True):

        def draw(v: Any, g: Any) -> Any:
            return F.dropout(v, 0.5) + tj.rand(6, generator=g)

        f = tj.compile(draw) if compiling else draw
        tj.manual_seed(7)
        g = tj.Generator().manual_seed(8)
        seen: list[np.ndarray] = []
        saved: Any = None
        for step in range(10):
            if step == 3:
                saved = tj.get_rng_state(), g.get_state()
            if step == 6:
                tj.set_rng_state(saved[0])
                g.set_state(saved[1])
            if step == 8:
                tj.manual_seed(7)
                g.manual_seed(9)
            seen.append(f(tj.ones(6), g).numpy().copy())
        found.append(seen)
        for before, after in zip(seen[3:5], seen[6:8], strict=True):
            assert before.tobytes() == after.tobytes()
    same_bits(*found)


def test_draws_on_branches_and_in_loops() -> None:
    def draw(v: Any) -> Any:
        if v.sum() > 0:
            v = v + tj.rand(4)
        else:
            v = v - F.dropout(tj.ones(4), 0.5)
            v = v - tj.randn(4)
        while v.abs().sum() < 20:
            v = v * 1.5 + tj.rand(4).sign()
        for _ in range(6):
            v = F.dropout(v, 0.1)
        return v

    found = []
    for f in (draw, tj.compile(draw)):
        tj.manual_seed(1)
        values = [tj.full((4,), 0.5 * (-1) ** k) for k in range(12)]
        found.append([f(v) for v in values])
        found[-1].append(tj.get_rng_state())
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(eager.numpy(), compiled.numpy(), rtol=1e-6)


def test_an_error_after_a_draw_leaves_the_stream_where_eager_leaves_it() -> None:
    table = tj.arange(4.0)
    found = []
    for compiling in (False, True):

        def draw(i: Any) -> Any:
            return tj.rand(2).sum() + table[i].sum()

        f = tj.compile(draw) if compiling else draw
        tj.manual_seed(3)
        states = []
        for i in (0, 1, 9, 2, -7, 3):
            try:
                f(tj.tensor([i]))
            except IndexError as error:
                states.append(str(error).split("\n")[0])
            states.append(tj.get_rng_state().tolist())
        found.append(states)
    assert found[0] == found[1]
