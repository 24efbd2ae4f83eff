"""compile(): arrays that ``numpy.random`` draws are drawn in every call, as in eager code."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.autograd import Variable

X = tj.arange(15.0).reshape(5, 3) / 7 - 1
CALLS = 6


def results(f: Callable[..., Any], given: Any = X, calls: int = CALLS) -> list[list[Any]]:
    """What calls return from generators in a known state, and in which state they leave these."""
    np.random.seed(3)
    random.seed(3)
    found = []
    for _ in range(calls):
        out = f(given)
        found.append([plain(x) for x in (out if isinstance(out, tuple) else (out,))])
    return [*found, [np.random.random()]]


def plain(value: Any) -> Any:
    if isinstance(value, tj.Tensor):
        return value.dtype, value.tolist()
    return type(value), value.tolist() if isinstance(value, np.ndarray) else value


def mixed(x):
    share, order = np.random.beta(1.0, 1.0), tj.from_numpy(np.random.permutation(5))
    return share * x + (1 - share) * x[order]


def in_a_dict(x):
    batch = {"a": np.random.randn(5, 3), "b": np.random.uniform(-1, 1, size=(5, 3))}
    batch = {name: tj.as_tensor(y, dtype=tj.float32) for name, y in batch.items()}
    return x + batch["a"] - batch["b"]


def indexed(x):
    y = x.clone()
    y[np.random.randint(0, 5, 2)] = 0
    return y[np.random.permutation(5)][:, np.random.choice(3, 2, replace=False)]


def computed(x):
    z, w = np.random.rand(5, 3), np.random.standard_normal((5, 3))
    return x * tj.from_numpy(z * 2 - 1) + tj.tensor((-w / 2 + z**2).astype(np.float32))


def beside(x):
    return x * np.random.rand(3) - np.random.rand(5, 1) / (x.abs() + 1)


def masked(x):
    return x[tj.from_numpy(np.random.rand(5) < 2)] * tj.tensor(np.random.rand(3) > 0.5)


def rounds(x):
    for _ in range(4):
        x = x + tj.from_numpy(np.random.randn(15).reshape(5, 3)).float() / 10
    return x


def shown(x):
    z = tj.from_numpy(np.random.randn(5, 3))
    z.mul_(2)
    return x + z, z


def asked(x):
    z = np.random.randn(3)
    assert isinstance(z, np.ndarray)
    assert (z.shape, len(z), z.size, z.ndim, z.dtype) == ((3,), 3, 3, 1, np.float64)
    assert not hasattr(z, "requires_grad")
    return x + tj.FloatTensor(z)


def copied(x):
    z = np.random.rand(3)
    return (
        x
        + tj.from_numpy(copy.deepcopy(z)).mul_(2)
        + tj.from_numpy(z.copy())
        - tj.tensor(copy.copy(z))
    )


def empty(x):
    return x + tj.tensor(np.random.randn(0, 3)).sum() + tj.tensor(np.random.randn(1))


def an_element(x):
    share = np.random.rand(1)[0]
    return share * x * np.random.normal(0, 1, 3)[-1] if np.random.rand(2)[1] < 2 else x


COMPILED = [
    mixed,
    an_element,
    in_a_dict,
    indexed,
    computed,
    beside,
    masked,
    rounds,
    shown,
    asked,
    copied,
    empty,
]


@pytest.mark.parametrize("function", COMPILED)
def test_arrays_are_drawn_anew_by_compiled_calls(function) -> None:
    compiled = tj.compile(function)
    assert results(compiled) == results(function)
    assert compiled.stats.compiled_calls == CALLS - 1


KEPT: list[Any] = []


def returned(x):
    z = np.random.randn(3)
    return x + tj.tensor(z), z


def kept(x):
    KEPT.append(np.random.randn(3))
    return x + tj.tensor(KEPT[-1])


def known_by_two_names(x):
    z = np.random.rand(5, 3)
    y = z
    z *= 2
    return x + tj.tensor(y), x - tj.tensor(z)


def written(x):
    z = np.random.rand(3)
    z[0] = 5
    return x + tj.tensor(z)


def shown_twice(x):
    z = np.random.rand(3)
    a, b = tj.from_numpy(z), tj.from_numpy(z)
    a.mul_(2)
    return b + x, a


def shown_and_computed_with(x):
    z = np.random.rand(3)
    tj.from_numpy(z.reshape(3, 1)).mul_(2)
    return x + tj.tensor(z + 1)


def looked_at(x):
    z = np.random.rand(3)
    return (x * 2 if z.max() > 0.5 else x) * z.mean() + tj.tensor(np.sqrt(z))


def outside(x):
    with pytest.raises(IndexError):
        np.random.rand(3)[3]
    return x * float(np.random.rand(2, 2)[0, 1]) * np.random.rand(3)[:2].sum()


def stacked(x):
    return x + tj.tensor(np.stack([np.random.randn(3) for _ in range(5)])), f"{np.random.rand(2)}"


def not_hashed(x):
    z = np.random.randn(3)
    with pytest.raises(TypeError):
        hash(z)
    return x + tj.tensor(z) @ tj.tensor(np.eye(3) @ z)


def copied_and_written(x):
    z = np.random.rand(3)
    other = copy.deepcopy(z)
    other[0] = 2
    return x + tj.tensor(z) * tj.tensor(other)


def filled(x):
    z, w = np.random.rand(3), np.random.rand(3)
    np.copyto(z, [1.0, 2.0, 3.0])
    np.add(w, z, out=w)
    np.add.at(w, [0, 0], 1)
    return x + tj.tensor(w)


def shuffled(x):
    z = np.random.permutation(3)
    np.random.shuffle(z)
    return x + tj.tensor(z)


def as_memory(x):
    return x * len(bytes(np.random.randint(0, 9, 3))) + np.frombuffer(np.random.rand(3))[0]


class Elsewhere(partial):
    """Is called by code in C, of which nobody knows what it takes."""


MEMORY = Elsewhere(memoryview)


def as_memory_elsewhere(x):
    return x + MEMORY(np.random.rand(3))[1]


EAGER = [
    copied_and_written,
    filled,
    shuffled,
    as_memory,
    as_memory_elsewhere,
    returned,
    kept,
    known_by_two_names,
    written,
    shown_twice,
    shown_and_computed_with,
    looked_at,
    outside,
    stacked,
    not_hashed,
]


@pytest.mark.parametrize("function", EAGER)
def test_what_else_is_done_with_them_happens_in_eager_code(function) -> None:
    KEPT.clear()
    compiled = tj.compile(function)
    assert results(compiled) == results(function)
    assert compiled.stats.compiled_calls == 0
    assert all(type(x) is np.ndarray for x in KEPT)


def test_a_step_of_a_gan_draws_its_noise() -> None:
    losses = []
    for compiling in (lambda f: f, tj.compile):
        tj.manual_seed(0)
        make = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        judge = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
        steps = [tj.optim.SGD(m.parameters(), lr=0.1) for m in (make, judge)]

        def step(real, make=make, judge=judge, steps=steps):
            valid = Variable(tj.FloatTensor(real.size(0), 1).fill_(1.0), requires_grad=False)
            noise = Variable(tj.FloatTensor(np.random.normal(0, 1, (real.shape[0], 4))))
            steps[0].zero_grad()
            fake = make(noise)
            made = nn.functional.binary_cross_entropy(judge(fake), valid)
            made.backward()
            steps[0].step()
            share = tj.FloatTensor(np.random.random((real.size(0), 1)))
            between = (share * real + (1 - share) * fake.detach()).requires_grad_(True)
            (slope,) = tj.autograd.grad(judge(between).sum(), between, create_graph=True)
            steps[1].zero_grad()
            judged = judge(fake.detach()).mean() - judge(real).mean()
            (judged + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()).backward()
            steps[1].step()
            return made.detach(), judged.detach()

        f = compiling(step)
        losses.append(results(f))
    for a, b in zip(*[found[:-1] for found in losses], strict=True):
        assert [x[1] for x in b] == pytest.approx([x[1] for x in a], rel=1e-4)
    assert f.stats.compiled_calls >= CALLS - 2


def test_bounds_and_scales_vary() -> None:
    class Buffer:
        filled = 1

    def f(x, scale):
        rows = tj.LongTensor(np.random.randint(0, Buffer.filled, size=6))
        return x[rows] + tj.from_numpy(np.random.normal(0.0, scale, (6, 3)))

    compiled = tj.compile(f)
    for n in (1, 2, 3, 4, 5, 4, 3, 2):
        Buffer.filled = n
        found = [results(lambda x: g(x, n / 4), calls=1) for g in (compiled, f)]  # noqa: B023
        assert found[0] == found[1]
    assert compiled.stats.recordings <= 3


def test_what_decides_the_shape_is_a_constant() -> None:
    def f(x, n):
        return (
            x[:n]
            + tj.Tensor(np.random.normal(0, 1, (n, x.size(1))))
            + tj.Tensor(np.random.randn(n, 1))
        )

    compiled = tj.compile(f)
    for n in (2, 3, 4, 5, 4, 3, 5, 2, 4):
        found = [results(lambda x: g(x, n), calls=1) for g in (compiled, f)]  # noqa: B023
        assert found[0] == found[1]
    assert compiled.stats.compiled_calls >= 3


def test_a_generator_in_an_object() -> None:
    class Noise:
        def __init__(self) -> None:
            self.random = np.random.default_rng(1)

        def added(self, x):
            return x + tj.from_numpy(self.random.normal(0, 0.1, x.shape)).to(x.dtype)

    one, other = Noise(), Noise()
    compiled = tj.compile(other.added)
    for _ in range(4):
        assert compiled(X).tolist() == one.added(X).tolist()
    assert compiled.stats.compiled_calls == 3


@pytest.mark.parametrize(
    "draw",
    ["np.random.rand()", "tj.tensor(np.random.rand(3))", "random.random()", "random.gauss(0, 1)"],
)
def test_a_generator_that_is_seeded_at_every_call_is_left_to_eager_code(draw: str) -> None:
    space: dict[str, Any] = {"np": np, "tj": tj, "random": random}
    exec(f"def f(x):\n    np.random.seed(5), random.seed(5)\n    return x + {draw}", space)
    compiled = tj.compile(space["f"])
    first = compiled(X)
    for _ in range(4):
        np.random.rand(), random.random()
        assert tj.equal(compiled(X), first)
