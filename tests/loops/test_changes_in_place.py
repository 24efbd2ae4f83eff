"""Rounds that change a carried tensor where it lies, and changes of parts in straight programs: what is read when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from tracejit.runtime.launcher import Loop


def fields(ex, ey, hz):
    """A field that two others change, and which changes them: each reads the others shifted, itself in place."""
    ex, ey, hz = ex.clone(), ey.clone(), hz.clone()
    for k in range(10):
        ey[0] = float(k)
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return hz, ex + ey


def shifted(ex, ey, hz):
    """What is written is computed from neighbours of the same tensor: never written over before it is read."""
    ex = ex.clone()
    for _ in range(10):
        ex[1:-1, 1:-1] = 0.25 * (ex[:-2, 1:-1] + ex[2:, 1:-1] + ex[1:-1, :-2] + ex[1:-1, 2:])
    return ex


def twice(ex, ey, hz):
    """The old values are read after some were written, and the sum of all of them before."""
    ex, ey = ex.clone(), ey.clone()
    for _ in range(8):
        total = ex.sum(1, keepdim=True)
        ex[:, 2:] = ex[:, 2:] * 0.5 + total[:, :1] * 0.01
        ey[1:] += ex[:-1] * 0.1
        ex[:, :2] = ey[:, 1:3] - ex[:, :2]
    return ex, ey


def transposed(ex, ey, hz):
    ex = ex[:6, :6].clone()
    for _ in range(8):
        ex[1:] = ex.T[1:] * 0.5 + ex[1:]
    return ex


def swapped(ex, ey, hz):
    ex, ey = ex.clone(), ey.clone()
    for _ in range(9):
        ex[1:] += 0.5 * ey[1:]
        ex, ey = ey, ex
    return ex, ey


def counted(ex, ey, hz):
    """An open loop with such changes."""
    ex = ex.clone()
    while ex[0, 0] < 20.0:
        ex[1:-1] = ex[1:-1] * 0.9 + 0.1 * hz[1:-1]
        ex[0] += 1.5
    return ex


PROGRAMS = [fields, shifted, twice, transposed, swapped, counted]


def arguments(rows=7, columns=9, seed=0):
    rng = np.random.default_rng(seed)
    return [tj.tensor(rng.standard_normal((rows, columns)).astype("f4")) for _ in range(3)]


def leaves(result):
    return [x.numpy() for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_compute_what_eager_code_does(program):
    compiled = tj.compile(program)
    for size in ((7, 9), (7, 9), (7, 9), (12, 8), (12, 8), (300, 200), (300, 200)):
        args = arguments(*size)
        for found, expected in zip(leaves(compiled(*args)), leaves(program(*args)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        for before, after in zip(arguments(*size), args, strict=True):
            np.testing.assert_array_equal(before.numpy(), after.numpy())
    assert compiled.stats.compiled_calls >= 3


def loops_of(compiled):
    programs = [program for entry in compiled._all() for program in entry.programs()]
    return [item for p in programs for item in p.plan.items if isinstance(item, Loop)]


def test_rounds_write_no_more_than_they_change():
    compiled = tj.compile(fields)
    args = arguments()
    for _ in range(2):
        compiled(*args)
    (loop,) = loops_of(compiled)
    assert len(loop.steps) <= 4  # a row, and one kernel for each field
    compiled = tj.compile(shifted)
    for _ in range(2):
        compiled(*args)
    (loop,) = loops_of(compiled)
    assert len(loop.steps) <= 2  # what was computed from neighbours, and writing it


def test_pieces_of_straight_programs_are_computed_where_they_belong():
    def program(x, y):
        z = x * 2
        z[1:3] = z[1:3] * y[1:3] + 1
        z[3:] = y[3:].exp()
        return z

    x, y = tj.randn(5, 4), tj.randn(5, 4)
    compiled = tj.compile(program)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x, y).numpy(), program(x, y).numpy(), rtol=1e-5)
    (program,) = {p for entry in compiled._all() for p in entry.programs()}
    assert len(program.plan.items) <= 3


ROWS, COLUMNS = 6, 5


def random_box(rng):
    low = [int(rng.integers(0, n)) for n in (ROWS, COLUMNS)]
    return [(a, int(rng.integers(1, n - a + 1))) for a, n in zip(low, (ROWS, COLUMNS), strict=True)]


def random_read(rng, place):
    """A tensor, and the corner of a part of it as large as ``place``: half of the time the same."""
    same = rng.random() < 0.5
    pairs = zip(place, (ROWS, COLUMNS), strict=True)
    return int(rng.integers(0, 3)), [
        a if same else int(rng.integers(0, n - c + 1)) for (a, c), n in pairs
    ]


def random_steps(rng):
    found = []
    for _ in range(int(rng.integers(1, 5))):
        place = random_box(rng)
        reads = [random_read(rng, place) for _ in range(int(rng.integers(1, 4)))]
        target, kind = int(rng.integers(0, 3)), int(rng.integers(0, 5))
        found.append((target, kind, place, reads, float(rng.uniform(-0.7, 0.7))))
    return found


def part(x, corner, place):
    (_, height), (_, width) = place
    return x[corner[0] : corner[0] + height, corner[1] : corner[1] + width]


def change(tensors, seen, step):
    """One change of a part: assigned, added, or with the mean of rows or the old tensor read beside it."""
    target, kind, place, reads, factor = step
    new = sum((part(tensors[t], c, place) for t, c in reads), start=0.0) * factor
    if kind == 0:
        new = new + tensors[target].mean(1, keepdim=True)[: new.shape[0]]
    if kind == 1:
        seen.append(tensors[target] * 0.5)
    spot = part(tensors[target], [a for a, _ in place], place)
    if kind == 2:
        spot += new
    else:
        spot.copy_(new.sin() if kind == 3 else new)


@given(st.integers(0, 10**6))
def test_random_changes_of_parts(seed):
    """Tensors that are changed part by part from parts of themselves and each other, in loops and out of them."""
    rng = np.random.default_rng(seed)
    steps, rounds, shows = random_steps(rng), 5 if rng.random() < 0.7 else 1, rng.random() < 0.5

    def program(*given):
        tensors = [x.clone() for x in given]
        seen = []
        for _ in range(rounds):
            for step in steps:
                change(tensors, seen, step)
        return (*tensors, *seen) if shows else tuple(tensors)

    args = [tj.tensor(rng.standard_normal((ROWS, COLUMNS)).astype("f4")) for _ in range(3)]
    compiled, expected = tj.compile(program), leaves(program(*args))
    for _ in range(3):
        for found, wanted in zip(leaves(compiled(*args)), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_changes_through_views_of_another_shape():
    def program(x):
        y = x * 2
        y.view(-1)[3:9] = 1.5
        shown = y[1:] * 3
        y[:1] = 0.5
        y.view(2, -1)[1, 2:4] += 1.0
        return y, shown

    x = tj.randn(4, 6)
    compiled = tj.compile(program)
    for _ in range(3):
        for found, wanted in zip(leaves(compiled(x)), leaves(program(x)), strict=True):
            np.testing.assert_array_equal(found, wanted)
