"""Sums over taps: native code against the ops' meaning, on each kind of machine this one can be."""

from __future__ import annotations

import math
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.codegen.identity import features
from tracejit.codegen.products.vector_machine import Machine, vector_machine
from tracejit.dtypes import float32, float64
from tracejit.ir import verify
from tracejit.ir.builder import Builder
from tracejit.ops.taps import UNBOUNDED, tap_products, tap_weights
from tracejit.runtime import taps as steps
from tracejit.runtime.machine_code.vector_modules import address
from tracejit.runtime.plan.plan import make_plan
from tracejit.runtime.program import Program
from tracejit.types import TensorType

pytestmark = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")
MACHINES = [
    machine
    for machine, needed in (
        (Machine(64, 8, 3), {"avx512f", "avx512vl"}),
        (Machine(32, 4, 3), {"avx2", "fma"}),
        (Machine(32, 4, 1), {"avx2", "fma"}),
    )
    if needed <= features()
]
KINDS = (
    *("tap_products", "tap_weights", "few_products", "few_weights", "spread"),
    *("abreast_products", "abreast_weights", "abreast_spread"),
    *("output_products", "output_spread"),
)
#: Those with a few rows.
FEW = ("few_products", "few_weights", "spread")
DTYPES = {np.dtype(np.float32): float32, np.dtype(np.float64): float64}


@contextmanager
def on(machine):
    """Steps for another machine."""
    before, steps.vector_machine = steps.vector_machine, lambda: machine
    steps.tap_module.cache_clear()
    try:
        yield
    finally:
        steps.vector_machine = before
        steps.tap_module.cache_clear()


def computed(op, arrays, attributes, machine, threads=1):
    """What the steps of an op compute, and these steps."""
    builder = Builder("f")
    kinds = [TensorType(a.shape, DTYPES[a.dtype]) for a in arrays]
    inputs = [builder.input(f"x{n}", kind) for n, kind in enumerate(kinds)]
    graph = verify(builder.finish([builder.emit(op, tuple(inputs), attributes, None)]))
    number = tj.get_num_threads()
    tj.set_num_threads(threads)
    try:
        with on(machine):
            plan = make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])
            (block,) = Program(plan).run(*map(tj.from_numpy, arrays))
    finally:
        tj.set_num_threads(number)
    spec = graph.outputs[0].spec
    found = np.ndarray(spec.shape, arrays[0].dtype, getattr(block, "array", block)).copy()
    return found, plan.items


class Case:
    """Sizes of one op, and its operands."""

    def __init__(self, rng, name, samples, groups, channels, rows, dims, dtype, inside=False):
        """``dims`` has for each dimension positions, size, taps, low, stride and spread; taps may stay ``inside``."""
        counts, size, taps, low, stride, spread = zip(*dims, strict=True)
        self.dims = dims
        self.name, self.op = name, tap_weights if name.endswith("weights") else tap_products
        distances = tuple(tuple(int(d) for d in rng.permutation(9)[:n]) for n in taps)
        if rng.random() < 0.5:  # as those of convolutions
            step = int(rng.integers(1, 3))
            distances = tuple(tuple(range(0, step * n, step)) for n in taps)
        if inside:
            low = tuple(max(n, 0) for n in low)
            ends = zip(counts, stride, low, distances, strict=True)
            size = tuple((n - 1) * s + a + max(d) + 1 for n, s, a, d in ends)
        self.x = rng.standard_normal((samples, groups * channels, *size)).astype(dtype)
        self.w = rng.standard_normal((groups * rows, channels, *taps)).astype(dtype)
        self.y = rng.standard_normal((samples, groups * rows, math.prod(counts))).astype(dtype)
        self.bias = rng.standard_normal(groups * rows).astype(dtype)
        self.attributes = {
            "distances": distances,
            "low": low,
            "stride": stride,
            "counts": counts,
            "groups": groups,
            "around": not inside,
        }
        if self.op is tap_products:
            self.attributes |= {"spread": spread, "gaps": 0, **UNBOUNDED}

    def operands(self):
        products = self.op is tap_products
        return [self.x, self.w, self.bias] if products else [self.x, self.y]

    def run(self, machine, threads):
        """The result of the native steps, and of the op itself in double precision."""
        arrays = self.operands()
        found, _ = computed(self.op, arrays, self.attributes, machine, threads)
        expected = self.op.evaluate([a.astype(np.float64) for a in arrays], self.attributes)
        return found, np.asarray(expected).reshape(found.shape)


@st.composite
def cases(draw, name):
    """Any op of a kind."""
    few = name in FEW
    sizes = [draw(st.integers(1, most)) for most in (3, 2, 5, 3 if few else 21)]
    if not few:
        sizes[3] += 3
    rank = draw(st.integers(1, 3))
    widest = [(1, 2), (1, 3, 7, 21), (1, 2, 5, 16, 17, 50, 600)]
    if name.startswith("abreast"):
        sizes = [sizes[0], draw(st.integers(8, 40)), 1, 1]
        rank, widest = min(rank, 2), [(1, 2), (1, 3, 7, 14), (1, 2, 5, 7, 8, 17, 24)]
    if name.startswith("output"):
        sizes[3] += 11
        rank, widest = min(rank, 2), [(1, 2), (1, 3, 7, 14), (4, 5, 8, 14, 17, 31, 250)]
    dims = []
    for extents in widest[3 - rank :]:
        spread = draw(st.integers(1, 3)) if name.endswith("spread") else 1
        stride = 1 if spread > 1 else draw(st.integers(1, 4))
        size = draw(st.sampled_from(extents))
        count = draw(st.integers(max(1, size // 3), size + 3))
        taps, low = draw(st.integers(1, 4)), draw(st.integers(-4, 3))
        if name == "output_spread":  # there is nothing else for them
            stride, taps, count = 1, max(taps, 2), max(count, 4 * spread)
        dims.append((count, size, taps, low, stride, spread))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    inside = not name.endswith("spread") and draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return Case(rng, name, *sizes, dims, dtype, inside)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_steps_do_what_the_ops_say(name, machine, data):
    case = data.draw(cases(name))
    found, expected = case.run(machine, 1)
    scale = math.sqrt(case.y.size * case.w.size)
    tolerance = scale * (1e-6 if case.x.dtype == np.float32 else 1e-14)
    np.testing.assert_allclose(found, expected, 0, tolerance)
    for threads in (2, 5):  # bit by bit, however the work is divided
        np.testing.assert_array_equal(case.run(machine, threads)[0], found)


def rows_of(name):
    """How many rows make a case of that kind."""
    return 3 if name in FEW else 21 if name.startswith("output") else 5


def plain(name, rows, dtype=np.float32, samples=2, channels=3, groups=1):
    """A case of two dimensions, with something around."""
    spread = 2 if name.endswith("spread") else 1
    if name.startswith("abreast"):
        rows, channels, groups = 1, 1, 21
    dims = [(5 * spread, 5, 3, -1, 1, spread), (21 * spread, 21, 3, -1, 1, spread)]
    return Case(np.random.default_rng(1), name, samples, groups, channels, rows, dims, dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("name", KINDS)
def test_what_is_no_number_stays_where_it_belongs(name, machine):
    case = plain(name, rows_of(name))
    case.x[1, 0, 3, 3], case.x[0, 2, 0, 20] = np.nan, np.inf
    if name == "abreast_weights":  # what came out beside the end
        case.y[1, 20, 0] = np.inf
    found, expected = case.run(machine, 1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found[~np.isnan(found)], expected[~np.isnan(expected)], 1e-4, 1e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gaps", [0, 1])
@pytest.mark.parametrize(
    ("name", "rows", "row"),
    [
        *(("tap_products", 13, 7), ("few_products", 3, 4), ("spread", 3, 4)),
        *(("abreast_products", 1, 4), ("abreast_spread", 1, 4)),
        *(("output_products", 21, 17), ("output_spread", 21, 17)),
    ],
)
def test_gaps_add_nothing(machine, dtype, gaps, name, rows, row):
    case = plain(name, rows, dtype, groups=2)
    case.attributes["gaps"] = gaps
    case.x[...] = np.where(np.random.default_rng(2).random(case.x.shape) < 0.5, -0.0, case.x)
    case.w[0, 0, 0, 1], case.w[row, -1, 0, 0], case.w[-1, -1, 2, 2] = np.nan, np.inf, -np.inf
    for threads in (1, 3):
        found, expected = case.run(machine, threads)
        assert 0 < np.isnan(expected).sum() < expected.size
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("name", [name for name in KINDS if not name.endswith("weights")])
def test_results_stay_between_bounds(machine, name):
    case = plain(name, rows_of(name), channels=700)
    case.x *= 10
    case.x[1, 0, 3, 3] = np.nan
    case.attributes |= {"floor": -0.1, "ceiling": 20.0}
    found, expected = case.run(machine, 1)
    inside = ~np.isnan(expected)
    assert found[inside].min() == np.float32(-0.1)
    assert found[inside].max() == 20
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found[inside], expected[inside], 1e-3, 1e-3)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("name", ["products", "weights"])
def test_channels_of_small_planes_are_lanes(machine, name):
    case = plain(f"abreast_{name}", 1)
    with on(machine):
        made = steps.tap_module(f"abreast_{name}", "f32")
    _, found = computed(case.op, case.operands(), case.attributes, machine)
    assert [step.fn_address for step in found] == [address(made)]
    many = Case(np.random.default_rng(1), f"few_{name}", 2, 4, 1, 1, case.dims, np.float32)
    _, found = computed(many.op, many.operands(), many.attributes, machine)
    assert address(made) not in [step.fn_address for step in found]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stride", [1, 2])
def test_many_outputs_are_lanes_where_something_is_around(dtype, stride):
    machine = vector_machine()
    dims = [(6, 6 * stride, 3, -1, stride, 1), (17, 17 * stride, 3, -1, stride, 1)]
    made = address(steps.tap_module("output_products", DTYPES[np.dtype(dtype)].short))
    for rows, is_used in ((21, True), (5, False)):
        case = Case(np.random.default_rng(1), "output_products", 2, 1, 9, rows, dims, dtype)
        _, found = computed(case.op, case.operands(), case.attributes, machine)
        assert ([step.fn_address for step in found] == [made]) == is_used


@pytest.mark.parametrize("reach", [1, 3, 9])
@pytest.mark.parametrize("size", [4, 11, 29])
def test_ends_of_lines_are_left_out(reach, size):
    """However far taps look past them, which several positions of a block may do."""
    dims = [(5, 5, 3, -reach, 1, 1), (size, size, 3, -reach, 1, 1)]
    case = Case(np.random.default_rng(1), "output_products", 1, 1, 7, 40, dims, np.float32)
    case.attributes["distances"] = ((0, reach, 2 * reach),) * 2
    found, expected = case.run(vector_machine(), 1)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
    case.w[3, 0, 0, 0] = np.inf  # seen by some, times zero by others
    found, expected = case.run(vector_machine(), 1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    there = ~np.isnan(expected)
    np.testing.assert_allclose(found[there], expected[there], 1e-4, 1e-4)
