"""Columns of narrow rows are reduced several rows at a time: exact whatever the sizes, the strides and the threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from ir_graphs import assert_same_bits

ROWS = st.sampled_from([1, 2, 5, 31, 43, 128, 999, 2500])
COLUMNS = st.sampled_from([1, 2, 3, 8, 10, 31, 32, 33, 64, 130])

PROGRAMS = {
    "sum": lambda x, y: x.sum(0),
    "extremes": lambda x, y: (x.amax(0), x.amin(0), (x > 2).any(0), (x < 3).all(0)),
    "beside": lambda x, y: (x * 2, (x * 2).sum(0), (x * y).sum(0)),
    "per_column": lambda x, y: (x - y[:1]).sum(0),
    "per_row": lambda x, y: (x - y[:, :1]).sum(0) * 2,
    "counted": lambda x, y: (x + tj.arange(x.shape[-1]) % 3).sum(0),
    "batches": lambda x, y: tj.stack([x, y]).sum(1),
    "many_values": lambda x, y: ((x + 1) * (y + 2) - (x * y) + (x - y) * 3 - y * 2).sum(0),
}


def _numbers(rows, columns, short, layout):
    """Small whole numbers, so that sums are exact in every order."""
    values = np.random.default_rng(rows).integers(-3, 4, (rows * 2, columns + 3))
    x = tj.from_numpy(values).to(getattr(tj, short))
    if layout == "part":
        return x[:rows, :columns]
    if layout == "every_other":
        return x[::2, :columns].clone()[:rows]
    return x[:rows, :columns].clone()


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=20, deadline=None)
@given(
    rows=ROWS,
    columns=COLUMNS,
    short=st.sampled_from(["float32", "float64", "int32", "float16"]),
    layout=st.sampled_from(["whole", "part", "every_other"]),
    threads=st.sampled_from([1, 2]),
)
def test_exact_sums(name, rows, columns, short, layout, threads):
    function = PROGRAMS[name]
    compiled = tj.compile(function)
    x = _numbers(rows, columns, short, layout)
    y = _numbers(rows, columns, short, "whole").flip(0).clone()
    before = tj.get_num_threads()
    tj.set_num_threads(threads)
    try:
        for _ in range(2):
            found, expected = compiled(x, y), function(x, y)
        both = ((found,), (expected,)) if isinstance(found, tj.Tensor) else (found, expected)
        for a, b in zip(*both, strict=True):
            assert a.dtype is b.dtype
            np.testing.assert_array_equal(a.double().numpy(), b.double().numpy())
    finally:
        tj.set_num_threads(before)


def test_new_sizes_need_no_new_kernels():
    from tracejit.runtime.machine_code.kernels import COUNTS

    compiled = tj.compile(lambda x: (x * 2).sum(0))
    for rows, columns in ((700, 8), (60, 40), (300, 3), (1000, 17), (4, 300)):
        x = _numbers(rows, columns, "float32", "whole")
        for _ in range(2):
            np.testing.assert_array_equal(compiled(x).numpy(), (x.numpy() * 2).sum(0))
        if columns == 40:
            before = COUNTS.compiled
    assert COUNTS.compiled == before


def test_bits_do_not_depend_on_threads():
    x = tj.from_numpy(np.random.default_rng(0).standard_normal((20000, 5)).astype(np.float32))
    compiled = tj.compile(lambda x: (x.sum(0), x.var(0)))
    compiled(x)
    found, before = [], tj.get_num_threads()
    for threads in (1, 2):
        tj.set_num_threads(threads)
        found.append([y.numpy() for y in compiled(x)])
    tj.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        assert_same_bits(a, b)
    np.testing.assert_allclose(found[0][0], x.numpy().astype("f8").sum(0), 1e-3, 1e-3)


def test_not_a_number_stays_in_its_column():
    values = np.ones((500, 6), np.float32)
    values[123, 2], values[456, 4] = np.nan, np.inf
    compiled = tj.compile(lambda x: (x.sum(0), x.amax(0)))
    for _ in range(2):
        total, top = compiled(tj.from_numpy(values))
    assert np.isnan(total.numpy()).tolist() == [False, False, True, False, False, False]
    assert np.isnan(top.numpy()).tolist() == [False, False, True, False, False, False]
    assert total.numpy()[4] == top.numpy()[4] == np.inf
