"""Reading at computed positions runs in kernels: take, gather, checked indices, and what is fused with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from compiled_tools import assert_same_error, host_ops, positions_among_rows, with_gradients


def penalty(w, i, x):
    return (w[i] - x).square().mean() + w.square().sum() * 0.01


def attention(w, i, x):
    rows = w[i]
    return F.softmax(rows @ x.T, -1) @ rows


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "rows": lambda w, i, x: w[i],
    "rows_and_more": lambda w, i, x: w[i] * 2 + x,
    "columns": lambda w, i, x: w[:, i % w.shape[1]] * 0.5,
    "scattered_rows": lambda w, i, x: w.T[:, i] + x.T,
    "computed_table": lambda w, i, x: (w * 2)[i] + x,
    "table_read_twice": lambda w, i, x: w[i] + w[: len(i)],
    "table_read_at_two_places": lambda w, i, x: w[i] * w[(i + 1) % len(w)],
    "negative": lambda w, i, x: w[-1 - i] + x,
    "two_dimensions": lambda w, i, x: w[tj.stack([i, i.flip(0)])].sum(0),
    "elements": lambda w, i, x: w[i, i % w.shape[1]] * 3,
    "one_row": lambda w, i, x: w[i[0]] + x,
    "sum": lambda w, i, x: w[i].sum(),
    "sum_of_rows": lambda w, i, x: (w[i] * x).sum(1),
    "sum_of_columns": lambda w, i, x: (w[i] * x).sum(0),
    "softmax": lambda w, i, x: F.softmax(w[i], -1),
    "joined": lambda w, i, x: tj.cat([w[i], x], 1),
    "constant_table": lambda w, i, x: (tj.ones(len(w), 3) * w[0, 0])[i] + x[:, :3],
    "constant_positions": lambda w, i, x: w[tj.arange(3)] + w[tj.zeros(3, dtype=tj.int64)],
    "embedding": lambda w, i, x: F.embedding(i, w).tanh() + x,
    "gather_rows": lambda w, i, x: x.gather(0, i[:, None] % len(x)),
    "gather_one": lambda w, i, x: (x * 2).gather(1, i[:, None] % x.shape[1]).squeeze(1),
    "gather_sorted": lambda w, i, x: x.gather(1, x.argsort(1)),
    "gather_part": lambda w, i, x: w.gather(1, i[:3, None].expand(3, 2) % w.shape[1]),
    "gather_inside_a_row": lambda w, i, x: F.cross_entropy(x, i % x.shape[1]),
    "small_positions": lambda w, i, x: w[(i % 100).to(tj.int32)] + x,
    "penalty": penalty,
    "attention": attention,
}
NOT_NATIVE = {"argsort", "remainder"}


@pytest.mark.sampled(16)
@pytest.mark.filterwarnings("error::tracejit.errors.CompileWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_lookups_are_native_and_agree_with_eager(name):
    function = PROGRAMS[name]
    compiled = tj.compile(function, strict=True)
    for sizes in ((7, 11, 5), (8, 9, 6), (40, 300, 33), (1, 4, 3), (5, 6, 1)):
        if name == "constant_positions" or "part" in name:
            sizes = (3, max(sizes[1], 3), max(sizes[2], 2))
        for _ in range(2):
            expected = with_gradients(function, positions_among_rows(*sizes))
            found = with_gradients(compiled, positions_among_rows(*sizes))
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, 2e-5, 2e-5)
    assert host_ops(compiled) <= NOT_NATIVE


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int16", "uint8", "bool"])
def test_tables_of_every_dtype(dtype):
    table = tj.arange(12).reshape(4, 3).to(getattr(tj, dtype))
    compiled = tj.compile(lambda t, i: (t[i], t.gather(1, i[:, None])), strict=True)
    positions = tj.tensor([2, 0, 2, 1])
    for _ in range(2):
        rows, one = compiled(table, positions)
        np.testing.assert_array_equal(rows.numpy(), table[positions].numpy())
        np.testing.assert_array_equal(one.numpy(), table.gather(1, positions[:, None]).numpy())


@pytest.mark.parametrize("bad", [4, -5, 1 << 40])
def test_a_position_out_of_range_is_the_eager_error(bad):
    def f(t, i):
        return t[i] * 2

    def g(t, i):
        return t.gather(0, i[:, None])

    for function in (f, g):
        assert_same_error(function, tj.ones(4, 3), tj.tensor([0, 3]), tj.tensor([0, bad]))
    with pytest.raises(IndexError):
        tj.compile(g)(tj.ones(4, 3), tj.tensor([-1]))


def test_no_positions_and_no_columns():
    compiled = tj.compile(lambda t, i: t[i] + 1, strict=True)
    for table, positions in (
        (tj.ones(4, 3), tj.zeros(0, dtype=tj.int64)),
        (tj.ones(4, 0), tj.tensor([1, 2])),
        (tj.ones(0, 3), tj.zeros(0, dtype=tj.int64)),
    ):
        for _ in range(2):
            assert compiled(table, positions).shape == table[positions].shape


def test_lookups_share_their_kernel():
    """Another table size or number of positions is another argument."""
    compiled = tj.compile(lambda w, i, x: w[i].tanh() * x, strict=True)
    with tj.no_grad():
        for sizes in ((3, 5, 7), (30, 50, 70), (6, 6, 6)):
            for _ in range(2):
                compiled(*positions_among_rows(*sizes))
    assert len(compiled.kernels) == 1
