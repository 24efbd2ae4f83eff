"""Joining, padding, slicing and writing into slices run as kernels: values, gradients, and no calls into NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from tracejit.runtime.plan.plan import HostCall


def joined_in_place(x, y):
    out = tj.zeros(x.shape[0], x.shape[1] + y.shape[1])
    out[:, : x.shape[1]] = x.exp()
    out[:, x.shape[1] :] = y * 2
    return out * 3


def overwritten(x, y):
    z = x * 2
    total = z.sum()
    z[1:3] = y[1:3] + total
    return z * z.mean()


def overwritten_after_reading(x, y):
    z = (x * 2).tanh() + 0.5
    w = z[:2] + 1
    z[:2] = z[2:4] + w
    return z + y


def rows_written_one_by_one(x, y):
    z = x.clone()
    for i in range(1, x.shape[0]):
        z[i] = z[i - 1] * 0.5 + y[i]
    return z


def read_between_writes(x, y):
    z = x * 1.5
    for i in range(x.shape[0]):
        z[i] = z.sum(0) * y[i]
    return z


def every_second(x, y):
    z = y.sin()
    z[::2] = x[::2] * 3
    z[1::2, ::2] = 1.5
    return z


def recurrent(x, y):
    h, found = y[:, 0] * 0, []
    for t in x.unbind(1):
        h = (tj.stack([t, h], 1) * 0.5).sum(1).tanh()
        found.append(h)
    return tj.stack(found, 1)


def gates(x, y):
    a, b, c = (x @ y.T).chunk(3, 1)
    return a.sigmoid() * b.tanh() + c


def growing(x, y):
    cache = x[:, :1]
    for t in range(1, x.shape[1]):
        cache = tj.cat([cache, x[:, t : t + 1] * cache.mean()], 1)
    return cache + y


def banded(x, y):
    square = x @ y.T
    twice = square * 2
    twice.diagonal()[:] = x[:, 0]
    return twice + tj.diag(y[:, 1])


def strips_and_all(x, y):
    return sum(t * (i + 1) for i, t in enumerate(x.unbind(0))) + x.mean(0) + y[0]


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "cat_rows": lambda x, y: tj.cat([x, y * 2], 0),
    "cat_columns": lambda x, y: tj.cat([x.exp(), y, x], 1),
    "cat_reductions": lambda x, y: tj.cat([x.sum(1), y.amax(1), x.mean(1, keepdim=True)[:, 0]]),
    "cat_products": lambda x, y: tj.cat([x @ y.T, x @ x.T], 1).relu(),
    "cat_of_views": lambda x, y: tj.cat([x.T.reshape(-1), y.flip(0).reshape(-1)]),
    "cat_of_cat": lambda x, y: tj.cat([tj.cat([x, y], 1), tj.cat([y * 2, x.cos()], 1)], 0),
    "cat_twice_the_same": lambda x, y: (lambda z: tj.cat([z, y, z], 1))(x * 2),
    "cat_and_used": lambda x, y: (lambda z: tj.cat([z, y], 1).sum(1) + z.reshape(-1)[: len(x)])(
        x + 1
    ),
    "cat_halves": lambda x, y: tj.cat([x.half(), y.half() * 2], 1).float(),
    "cat_integers": lambda x, y: tj.cat([(x * 9).to(tj.int32), y.to(tj.int32)], 1) * x.sum(),
    "cat_bools": lambda x, y: tj.where(tj.cat([x > 0, y > 0], 1), tj.cat([x, y], 1), 0.25),
    "stack_first": lambda x, y: tj.stack([x, y * 2, x.exp()]),
    "stack_last": lambda x, y: tj.stack([x.tanh(), y], -1).sum(1),
    "stack_of_rows": lambda x, y: tj.stack([r * 2 for r in x.unbind(0)], 1) + y.T,
    "pad_both": lambda x, y: F.pad(x * 2, (1, 2, 3, 0), value=0.5) * 2,
    "pad_and_slice": lambda x, y: F.pad(x, (1, 2))[:, 1:-2] + F.pad(y, (0, 0, 1, 1))[:1],
    "roll": lambda x, y: tj.roll(x * y, 2, 1) + tj.roll(x, (1, 1), (0, 1)),
    "chunk": lambda x, y: (lambda a, b: a * b + y[:, :2])(*x[:, :4].chunk(2, 1)),
    "split": lambda x, y: sum(t.sum(1) * i for i, t in enumerate(x[:, :5].split([1, 3, 1], 1), 1)),
    "unbind": lambda x, y: sum(t * t.sum() for t in x.unbind(1)),
    "corners": lambda x, y: x[1:3, 1:2] * x[2:4, 2:4] + x[0, 0] + y[1, :2],
    "elements": lambda x, y: x[0, 1] * x[1, 2] + x[0, 2] * x[1, 1] + y.sum(),
    "quadrants": lambda x, y: tj.cat([tj.cat([x, y], 1), tj.cat([y, x], 1)], 0) @ x[0].repeat(2),
    "block_diagonal": lambda x, y: tj.block_diag(x, y) * 2,
    "joined_in_place": joined_in_place,
    "overwritten": overwritten,
    "overwritten_after_reading": overwritten_after_reading,
    "rows_written_one_by_one": rows_written_one_by_one,
    "read_between_writes": read_between_writes,
    "every_second": every_second,
    "recurrent": recurrent,
    "gates": gates,
    "growing": growing,
    "banded": banded,
    "strips_and_all": strips_and_all,
    "repeat": lambda x, y: x.repeat(2, 3) * y.repeat(2, 3),
    "interleave": lambda x, y: tj.repeat_interleave(x * 2, 3, 1) + y[:, :1],
    "meshgrid": lambda x, y: tj.stack(tj.meshgrid(x[0], y[1], indexing="ij"), 0).prod(0),
}


def leaves(rows=6, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    return [
        tj.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32)).requires_grad_()
        for _ in range(2)
    ]


def run(function, inputs):
    """Results and gradients."""
    result = function(*inputs)
    weights = tj.arange(result.numel()).reshape(result.shape).cos()
    (result * weights).sum().backward()
    return [result.detach().numpy(), *(x.grad.numpy() for x in inputs if x.grad is not None)]


def host_calls(compiled):
    """The ops that the compiled programs of a function call on arrays, forward and backward."""
    programs = [program for entry in compiled._all() for program in entry.programs()]
    assert programs
    return [i.op.name for p in programs for i in p.plan.items if isinstance(i, HostCall)]


@pytest.mark.sampled(48)
@pytest.mark.filterwarnings("error::tracejit.errors.CompileWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_native_and_agree_with_eager(name):
    function = PROGRAMS[name]
    compiled = tj.compile(function, strict=True)
    for rows, columns in ((6, 6), (6, 8), (9, 7), (33, 40)):
        if name == "every_second" and rows % 2:
            continue
        for _ in range(2):
            expected = run(function, leaves(rows, columns))
            found = run(compiled, leaves(rows, columns))
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, 2e-5, 2e-5)
    assert host_calls(compiled) == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name", sorted(set(PROGRAMS) - {"unbind", "recurrent", "growing", "gates"})
)
def test_plans_serve_other_sizes(name):
    """What is decided about places is the same for all ordinary sizes."""
    compiled = tj.compile(PROGRAMS[name], strict=True, dynamic=False)
    square = name in ("rows_written_one_by_one", "read_between_writes", "banded", "stack_of_rows")
    for columns in (16, 20, 64):
        for _ in range(2):
            run(compiled, leaves(6 if square or "strips" in name else columns, columns))
    assert compiled.plans.made <= 2
    assert len(compiled.kernels) < 20


SPECIAL = np.array([-0.0, 0.0, np.nan, -np.inf, np.inf, -1e-45, 1.0, -0.0], np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "bool", "int8"])
def test_moves_keep_every_bit_pattern(dtype):
    kind = getattr(tj, dtype)

    def f(x, y):
        z = tj.cat([x, y.flip(0)])
        w = F.pad(z, (1, 2), value=0.0 if dtype != "bool" else False)
        w[3:7:2] = y[:2]
        return tj.stack([w, w]), z

    x, y = tj.from_numpy(SPECIAL).to(kind), tj.from_numpy(SPECIAL[::-1].copy()).to(kind)
    compiled = tj.compile(f, strict=True)
    for _ in range(2):
        for a, b in zip(compiled(x, y), f(x, y), strict=True):
            assert a.spec == b.spec
            assert_same_bits(a.numpy(), b.numpy())
    assert host_calls(compiled) == []


def assert_same_bits(a, b):
    """Equal, with the same signs of zero; NaN is NaN."""
    wide = np.int64 if a.dtype.kind in "biu" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    np.testing.assert_array_equal(a, b)
    real = ~np.isnan(a)
    assert (np.signbit(a[real]) == np.signbit(b[real])).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (2, 0, 3)])
def test_nothing_to_move(shape):
    def f(x):
        y = tj.cat([x, x * 2, tj.zeros(*shape)], 0)
        z = F.pad(y, (1, 0))
        z[..., :1] = 7.0
        return y, z, tj.stack([x, x]).sum(0)

    compiled = tj.compile(f, strict=True)
    for _ in range(2):
        for a, b in zip(compiled(tj.ones(*shape)), f(tj.ones(*shape)), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
            assert a.shape == b.shape


def test_many_steps_take_time_in_proportion():
    """The number of launches of a hand-written recurrence grows with its length, nothing else does."""
    launches = {}
    for length in (8, 16):
        compiled = tj.compile(recurrent, strict=True)
        for _ in range(2):
            run(compiled, leaves(4, length))
        programs = [p for entry in compiled._all() for p in entry.programs()]
        launches[length] = sum(p.plan.launches for p in programs)
    assert launches[16] <= 2 * launches[8] + 4
    assert math.isfinite(launches[16])
