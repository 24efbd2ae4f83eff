"""Loops that fill tensors and go on from what they wrote: reads are forwarded, rounds become loops."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj


def filter_columns(img, y, z):
    y, z = y.clone(), z.clone()
    y[:, 0] = img[:, 0]
    for j in range(1, img.shape[1]):
        y[:, j] = 0.5 * img[:, j] + 0.25 * y[:, j - 1]
    for j in range(img.shape[1] - 2, -1, -1):
        z[:, j] = 0.5 * img[:, j + 1] + 0.25 * z[:, j + 1]
    return y + z


def sweeps(u, p, q):
    """Forward along the rows, back along the rows, then the same along columns."""
    u, p, q = u.clone(), p.clone(), q.clone()
    n = u.shape[0]
    for _ in range(2):
        for j in range(1, n - 1):
            p[1:-1, j] = 0.5 / (p[1:-1, j - 1] + 2.0)
            q[1:-1, j] = (u[j, :-2] - q[1:-1, j - 1]) * p[1:-1, j]
        for j in range(n - 2, 0, -1):
            u[1:-1, j] = p[1:-1, j] * u[1:-1, j + 1] + q[1:-1, j]
    return u


def orthogonal(a, q, r):
    a, q, r = a.clone(), q.clone(), r.clone()
    n = a.shape[1]
    for k in range(n):
        r[k, k] = (a[:, k] * a[:, k]).sum().sqrt()
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, n):
            r[k, j] = (q[:, k] * a[:, j]).sum()
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


def solve(lower, b, x):
    x = x.clone()
    for i in range(len(b)):
        x[i] = (b[i] - (lower[i, :i] * x[:i]).sum()) / lower[i, i]
    return x


def relax(a, _, __):
    a = a.clone()
    for _ in range(2):
        for i in range(1, a.shape[0] - 1):
            a[i, 1:-1] += a[i - 1, :-2] + a[i + 1, 2:] + a[i, 2:]
            a[i, 1:-1] /= 4.0
    return a


PROGRAMS = {
    filter_columns: lambda n: [(7, n), (7, n), (7, n)],
    sweeps: lambda n: [(n, n), (n, n), (n, n)],
    orthogonal: lambda n: [(n + 2, n), (n + 2, n), (n, n)],
    solve: lambda n: [(n, n), (n,), (n,)],
    relax: lambda n: [(n, n), (1,), (1,)],
}


def arguments(program, size):
    rng = np.random.default_rng(size)
    return [
        tj.tensor(rng.uniform(0.5, 1.5, shape).astype("f4")) for shape in PROGRAMS[program](size)
    ]


def leaves(result):
    return [x.numpy() for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_that_fill_tensors_compute_what_eager_code_does(program):
    compiled = tj.compile(program)
    for size in (12, 12, 12, 15, 15, 4, 4):
        args = arguments(program, size)
        for found, expected in zip(leaves(compiled(*args)), leaves(program(*args)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    assert compiled.stats.compiled_calls >= 3


def operations(program, size):
    """How many statements the plan for a size has, those of rounds apart."""
    compiled = tj.compile(program)
    args = arguments(program, size)
    compiled(*args)
    compiled(*args)
    return sum(
        int(n) for n in re.findall(r"^ +(\d+) operations", str(compiled.explain()), re.MULTILINE)
    )


@pytest.mark.parametrize("program", [filter_columns, sweeps], ids=lambda f: f.__name__)
def test_their_plans_do_not_grow_with_the_rounds(program):
    few, many = operations(program, 16), operations(program, 32)
    assert few == many
    assert few < 100


def test_plans_of_rounds_that_read_more_each_time_grow_with_the_rounds_only():
    few, many = operations(solve, 20), operations(solve, 40)
    assert many < 2.5 * few


@given(st.integers(0, 10**6))
def test_random_writes_and_reads_in_turn(seed):
    """Rounds that read and write parts of tensors here and there, and what is returned of them."""
    rng = np.random.default_rng(seed)
    size, rounds = 6, int(rng.integers(4, 8))
    steps = []
    for _ in range(int(rng.integers(1, 4))):
        moves = [int(m) for m in rng.integers(-1, 2, 4)]
        offsets = [int(o) for o in rng.integers(0, size, 4)]
        steps.append(
            (rng.random() < 0.5, moves, offsets, rng.random() < 0.3, float(rng.uniform(-1, 1)))
        )
    view, shows = rng.random() < 0.3, int(rng.integers(0, 3))

    def part(x, t, move, offset, rows):
        place = (offset + move * t) % size
        return (place, slice(1, None)) if rows else (slice(1, None), place)

    def program(a, b):
        a, b = a.clone(), b.clone()
        kept = []
        for t in range(rounds):
            for rows, moves, offsets, augmented, factor in steps:
                read = (
                    a[part(a, t, moves[0], offsets[0], rows)] * factor
                    + b[part(b, t, moves[1], offsets[1], rows)]
                )
                place = part(b, t, moves[2], offsets[2], rows)
                if augmented:
                    b[place] += read
                else:
                    b[place] = read
                a[part(a, t, moves[3], offsets[3], not rows)] = read.sin()
            if t % 3 == shows:
                kept.append(b[t % size] if view else b.sum())
        return a, b, *kept

    args = [tj.tensor(rng.standard_normal((size, size)).astype("f4")) for _ in range(2)]
    compiled, expected = tj.compile(program), leaves(program(*args))
    for _ in range(3):
        for found, wanted in zip(leaves(compiled(*args)), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
