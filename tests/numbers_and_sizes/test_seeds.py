"""Numbers that vary from call to call as seeds of generators, and where code in C refuses what stands in for them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tracejit as tj


def python_seeded(x, n):
    random.seed(n)
    return x * random.random()


def python_made(x, n):
    return x * random.Random(n).random()


def numpy_seeded(x, n):
    np.random.seed([abs(n) % 1000 + 1, 7])
    return x * np.random.rand()


def sequence_made(x, n):
    return x * float(np.random.SeedSequence(entropy=abs(n)).generate_state(1)[0])


def generator_made(x, n):
    generator = np.random.default_rng(abs(n))
    assert isinstance(generator, np.random.Generator)
    return x * float(generator.random())


def old_made(x, n):
    generator = np.random.RandomState(seed=abs(n) % 1000)
    return x * float(generator.rand()) if isinstance(generator, np.random.RandomState) else x


def drawn_seed(x, n):
    seed = np.random.randint(0, 2**31 - 1)
    return x * float(np.random.SeedSequence(seed).generate_state(1)[0] % 1000)


ALL = [
    python_seeded,
    python_made,
    numpy_seeded,
    sequence_made,
    generator_made,
    old_made,
    drawn_seed,
]


@pytest.mark.parametrize("function", ALL)
def test_seeds_are_the_numbers_they_stand_for(function) -> None:
    compiled = tj.compile(function)
    for n in (0, -3, 2**70, -5, -6, 3, -8):
        found = []
        for f in (compiled, function):
            np.random.seed(abs(n) % 1000)
            random.seed(n)
            found.append(f(tj.ones(2), n).tolist())
        assert found[0] == found[1]


def test_a_size_that_code_in_c_refuses_becomes_a_constant() -> None:
    def f(x, n):
        if x.sum() > 0:
            return x[:n] * 2
        return x * int.bit_length(n)

    compiled = tj.compile(f)
    for n in (1, 2, 3, 5, -3, -2, 4, -9):
        x = tj.full((12,), float(np.sign(n)))
        assert compiled(x, abs(n)).tolist() == f(x, abs(n)).tolist()
    assert any("bit_length" in reason for reason in compiled.explain().constants)


MADE = {"bits": lambda: np.random.PCG64(3), "spawning": lambda: np.random.SeedSequence(5)}


@pytest.mark.parametrize(
    "read",
    [
        "np.random.default_rng(bits).normal()",
        "np.random.RandomState(bits).normal()",
        "np.random.default_rng(spawning.spawn(1)[0]).normal()",
        "spawning.spawn(1)[0].generate_state(1)[0]",
        "np.random.default_rng(np.random.default_rng(bits)).normal()",
    ],
)
def test_seeds_that_change_with_every_call_are_no_constants(read: str) -> None:
    found = []
    for compiling in (tj.compile, lambda f: f):
        space = {"np": np, **{name: make() for name, make in MADE.items()}}
        exec(f"def f(x): return x * float({read})", space)
        f = compiling(space["f"])
        found.append([f(tj.ones(2)).tolist() for _ in range(4)])
    assert found[0] == found[1]
    assert len({first for first, _ in found[0]}) == 4


@pytest.mark.parametrize(
    "read",
    [
        "np.random.default_rng(None).normal()",
        "np.random.Generator(np.random.PCG64()).normal()",
        "np.random.SeedSequence().generate_state(1)[0]",
        "random.Random(None).random()",
    ],
)
def test_what_the_system_seeds_is_no_constant(read: str) -> None:
    space = {"np": np, "random": random}
    exec(f"def f(x): return x * float({read})", space)
    f = tj.compile(space["f"])
    assert len({f(tj.ones((), dtype=tj.float64)).item() for _ in range(4)}) == 4
