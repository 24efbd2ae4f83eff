"""Convolutions over flat memory: native code against the ops' meaning, on each kind of machine this one can be."""

from __future__ import annotations

import ctypes
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
import tracejit.nn.functional as F
from tracejit.codegen.identity import features
from tracejit.codegen.llvm import vector_code
from tracejit.codegen.products.tap_few import (
    few_products_text,
    few_scratch,
    few_weights_text,
    strip_vectors,
)
from tracejit.codegen.products.tap_products import product_scratch, products_text
from tracejit.codegen.products.tap_weights import weight_scratch, weights_text
from tracejit.codegen.products.vector_machine import Machine, vector_machine
from tracejit.ir import parse, run, verify
from tracejit.ops.taps import tap_products, tap_weights
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.windows import taps as module
from tracejit.passes.windows.taps import taps
from tracejit.profiling.pieces import pieces_of
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.machine_code.loader import load_object
from tracejit.runtime.plan.plan import HostCall, make_plan
from tracejit.runtime.program import Program

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
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_void_p, *(ctypes.c_int64,) * 3))
TEXTS = {
    "tap_products": products_text,
    "tap_weights": weights_text,
    "few_products": few_products_text,
    "few_weights": few_weights_text,
}
_functions = {}


def native(name, dtype, machine):
    """The step's function, compiled once."""
    if (name, dtype, machine) not in _functions:
        text = TEXTS[name](dtype, machine)
        address = load_object(vector_code(text), f"tracejit_{name}")
        _functions[name, dtype, machine] = _ENTRY(address)
    return _functions[name, dtype, machine]


class Case:
    """Sizes of one convolution over flat memory, and its operands."""

    def __init__(self, rng, samples, groups, channels, rows, counts, taps, dtype):
        self.samples, self.groups, self.channels, self.rows = samples, groups, channels, rows
        self.counts = counts
        gaps = rng.integers(0, 3, 2)
        x1 = int(counts[2] + gaps[0])
        self.steps = (int(counts[1] * x1 + gaps[1]), x1, 1)
        reach = sum((n - 1) * s for n, s in zip(counts, self.steps, strict=True)) + 1
        self.offsets = tuple(int(i) for i in rng.integers(0, 7, taps))
        memory = reach + 7
        self.positions = math.prod(counts)
        self.x = rng.standard_normal((samples, groups * channels, memory)).astype(dtype)
        self.w = rng.standard_normal((groups * rows, channels, taps)).astype(dtype)
        self.y = rng.standard_normal((samples, groups * rows, self.positions)).astype(dtype)
        self.gaps = 0
        self.short = {"float32": "f32", "float64": "f64"}[np.dtype(dtype).name]

    def attributes(self):
        return {
            "offsets": self.offsets,
            "counts": self.counts,
            "steps": self.steps,
            "groups": self.groups,
        }

    def units(self, machine):
        strip = machine.vectors * machine.vector // self.x.itemsize
        strips = self.groups * -(-self.samples * self.positions // strip)
        return strips * -(-self.rows // machine.rows)

    def units_of_few(self, machine):
        p2, p1, p0 = self.counts
        vectors = -(-p0 // (machine.vector // self.x.itemsize))
        strips = -(-(vectors if p1 == 1 else p1) // strip_vectors(machine))
        return self.samples * self.groups * p2 * strips

    def run(self, name, machine, parts):
        """The result of the native step, its range cut into so many parts, and of the op itself."""
        x, count = self.x, self.channels * len(self.offsets)
        products, few = name.endswith("products"), name.startswith("few")
        other = self.w if products else self.y
        sizes = [self.samples, self.groups, self.channels, self.rows, *self.counts]
        strides = [x.shape[1] * x.shape[2], x.shape[2], *self.steps[:2]]
        strides += [s // other.itemsize for s in other.strides[:2]]
        if products:
            out = np.full((self.samples, self.groups * self.rows, self.positions), 7, x.dtype)
            strides += [out.shape[1] * out.shape[2], out.shape[2], self.gaps]
            after = [*self.offsets, *range(len(self.offsets))]
            scratch = few_scratch(count) if few else product_scratch(machine, x.itemsize, count)
            units = self.units_of_few(machine) if few else self.units(machine)
            meaning = tap_products
        else:
            out = np.full((self.groups * count, self.rows), 7, x.dtype)
            after = self.offsets
            scratch = few_scratch(count) if few else weight_scratch(machine, count)
            units = self.groups * -(-count // machine.rows)
            meaning = tap_weights
        memory = np.full(scratch, 255, np.uint8)  # what it finds there must not matter: nan
        addresses = [a.ctypes.data for a in (x, other, out, memory)]
        words = [*addresses, scratch, *sizes, *strides, len(self.offsets), *after]
        block = (ctypes.c_int64 * len(words))(*words)
        edges = [units * i // parts for i in range(parts + 1)]
        for lo, hi in itertools.pairwise(edges):
            assert native(name, self.short, machine)(ctypes.addressof(block), lo, hi, 0) == 0
        attributes = self.attributes()
        if products:
            attributes["gaps"] = self.gaps
        expected = meaning.evaluate([x, other], attributes)
        return out, np.asarray(expected).reshape(out.shape)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_steps_do_what_the_ops_say(name, machine, data):
    draw = data.draw
    few = name.startswith("few")
    sizes = [draw(st.integers(1, most)) for most in (3, 2, 5, 3 if few else 21)]
    extents = ((1, 2), (1, 3, 7), (1, 2, 5, 16, 17, 50))
    if name == "few_products":  # more than one strip
        extents = ((1, 2), (1, 3, 21), (2, 17, 50, 290))
    counts = tuple(draw(st.sampled_from(e)) for e in extents)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    case = Case(rng, *sizes, counts, draw(st.integers(1, 9)), dtype)
    found, expected = case.run(name, machine, 1)
    scale = math.sqrt(case.positions * case.samples * case.channels * 9)
    tolerance = scale * (1e-6 if dtype is np.float32 else 1e-14)
    np.testing.assert_allclose(found, expected, 0, tolerance)
    for parts in (2, 5):  # bit by bit, however the work is divided
        np.testing.assert_array_equal(case.run(name, machine, parts)[0], found)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_number_stays_where_it_belongs(name, machine):
    rows = 3 if name.startswith("few") else 5
    case = Case(np.random.default_rng(0), 2, 1, 3, rows, (1, 3, 5), 4, np.float32)
    case.x[1, 0, 3], case.x[0, 2, 0] = np.nan, np.inf
    found, expected = case.run(name, machine, 1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found[~np.isnan(found)], expected[~np.isnan(expected)], 1e-5, 1e-5)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}x{m.vectors}")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gaps", [0, 1])
@pytest.mark.parametrize(("name", "rows", "row"), [("tap_products", 13, 7), ("few_products", 3, 4)])
def test_gaps_add_nothing(machine, dtype, gaps, name, rows, row):
    case = Case(np.random.default_rng(1), 2, 2, 3, rows, (2, 3, 21), 5, dtype)
    case.gaps = gaps
    rng = np.random.default_rng(2)
    case.x[...] = np.where(rng.random(case.x.shape) < 0.3, 0, case.x)
    case.x[...] = np.where(rng.random(case.x.shape) < 0.8, -0.0, case.x)
    case.w[0, 0, 1], case.w[row, 2, 0], case.w[-1, 1, 3] = np.nan, np.inf, -np.inf
    for parts in (1, 3):
        found, expected = case.run(name, machine, parts)
        assert 0 < np.isnan(expected).sum() < expected.size / (1 + gaps)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@st.composite
def convolutions(draw):
    """A graph of one convolution, as text."""
    rank = draw(st.integers(1, 3))
    groups, channels, rows = (draw(st.integers(1, most)) for most in (3, 4, 4))
    each = st.tuples(*(st.integers(1, 3) for _ in range(4)), st.integers(0, 3), st.integers(0, 3))
    dims = [draw(each) for _ in range(rank)]
    kernel, stride, dilation, extra = ([d[i] for d in dims] for i in range(4))
    padding = [d[4:] for d in dims]
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [max(s - a - b, 0) + e for s, e, (a, b) in zip(spans, extra, padding, strict=True)]
    numbers = zip(size, padding, spans, stride, strict=True)
    counts = [(n + a + b - span) // s + 1 for n, (a, b), span, s in numbers]

    def told(numbers):
        return f"({', '.join(str(tuple(n) if isinstance(n, tuple) else n) for n in numbers)},)"

    samples = draw(st.integers(1, 3))
    x = ", ".join(map(str, (samples, groups * channels, *size)))
    w = ", ".join(map(str, (groups * rows, channels, *kernel)))
    y = ", ".join(map(str, (samples, groups * rows, *counts)))
    given_ = f"stride={told(stride)}, padding={told(padding)}, dilation={told(dilation)}"
    return f"""graph f(x: f64[{x}], w: f64[{w}]) {{
        %0: f64[{y}] = convolution(x, w, {given_}, groups={groups})
        return %0
    }}"""


@settings(max_examples=60, deadline=None)
@given(text=convolutions(), seed=st.integers(0, 1000))
def test_convolutions_and_their_gradients(text, seed):
    graph = differentiate(parse(text), [True, True]).graph
    found = verify(taps(graph))
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(v.spec.shape) for v in found.inputs]
    expected = run(graph, arrays)
    for a, b in zip(run(found, arrays), expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-10)
    plan = make_plan(found, [v.spec.contiguous_strides() for v in found.inputs])
    blocks = Program(plan).run(*map(tj.from_numpy, arrays))
    for block, want in zip(blocks, expected, strict=True):
        array = block.array if hasattr(block, "array") else block
        seen = np.ndarray(want.shape, want.dtype, array)
        np.testing.assert_allclose(seen, want, 1e-10, 1e-10)


def test_common_convolutions_have_no_library_calls():
    text = """graph f(x: f32[2, 4, 8, 8], w: f32[6, 2, 3, 3]) {
        %0: f32[2, 6, 4, 4] = convolution(x, w, stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=2)
        return %0
    }"""
    found = taps(differentiate(parse(text), [True, True]).graph)
    plan = make_plan(found, [v.spec.contiguous_strides() for v in found.inputs])
    assert not any(isinstance(item, HostCall) for item in plan.items)


def test_profiles_name_the_steps():
    text = """graph f(x: f32[2, 4, 8, 8], w: f32[6, 4, 3, 3]) {
        %0: f32[2, 6, 6, 6] = convolution(x, w, stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), groups=1)
        return %0
    }"""
    found = taps(parse(text))
    plan = make_plan(found, [v.spec.contiguous_strides() for v in found.inputs])
    (piece,) = pieces_of(Program(plan))
    assert (piece.name, piece.kind) == ("tap_products", "product")
    assert piece.flops == 2 * 2 * 6 * 36 * 4 * 9
    assert piece.bytes == 4 * (2 * 4 * 64 + 6 * 4 * 9 + 2 * 6 * 36)


def test_other_machines_keep_convolutions(monkeypatch):
    monkeypatch.setattr(module, "vector_machine", lambda: None)
    text = """graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
        %0: f32[2, 4, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
        return %0
    }"""
    graph = parse(text)
    assert taps(graph) is graph


@pytest.mark.parametrize("lie", ["transposed", "strided", "expanded", "channels_last"])
def test_operands_lie_anyhow(lie):
    x, w = tj.randn(3, 4, 9, 10), tj.randn(5, 4, 3, 3)
    shown = {
        "transposed": lambda: (x.transpose(2, 3), w.transpose(0, 1)[:, :3].transpose(0, 1)),
        "strided": lambda: (x[:, ::2, :, 1:], w[:, 1:3]),
        "expanded": lambda: (x[:1].expand(3, -1, -1, -1), w[:1].expand(5, -1, -1, -1)),
        "channels_last": lambda: (x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2), w),
    }
    a, b = shown[lie]()
    a = a[:, : b.shape[1]]

    def f(a, b):
        return F.conv2d(a, b, padding=1).relu()

    compiled = tj.compile(f)
    for _ in range(2):
        found = compiled(a, b)
    np.testing.assert_allclose(found.numpy(), f(a, b).numpy(), 1e-4, 1e-5)


def test_a_result_is_written_where_it_belongs():
    w, v = tj.randn(5, 3, 3, 3), tj.randn(2, 3, 1, 1)

    def f(x):
        return tj.cat([F.conv2d(x, w, padding=1), x, F.conv2d(x, v)], 1)

    compiled, x = tj.compile(f), tj.randn(2, 3, 6, 7)
    compiled(x)
    np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy(), 1e-5, 1e-5)


def test_new_sizes_compile_nothing():
    model = tj.nn.Sequential(
        tj.nn.Conv2d(3, 8, 3, padding=1), tj.nn.ReLU(), tj.nn.Conv2d(8, 4, 3, 2, padding=1)
    )
    compiled = tj.compile(lambda x: model(x).square().mean(), dynamic=False)

    def step(n, h, w):
        model.zero_grad()
        x = tj.randn(n, 3, h, w)
        compiled(x).backward()
        found = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).square().mean().backward()
        for a, b in zip(found, [p.grad for p in model.parameters()], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-3, 1e-5)

    for sizes in ((2, 8, 10), (3, 12, 16), (4, 14, 18)):
        step(*sizes)
    before = kernels.COUNTS.compiled + kernels.COUNTS.loaded
    for sizes in ((5, 20, 22), (9, 6, 8), (2, 30, 40)):
        step(*sizes)
    assert kernels.COUNTS.compiled + kernels.COUNTS.loaded == before


@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_half_precision_rounds_once(dtype, groups):
    x = tj.randn(2, 4, 9, 8).to(dtype).requires_grad_()
    w = (tj.randn(8 if groups == 2 else 4, 4 // groups, 3, 3) * 0.2).to(dtype).requires_grad_()

    def f(x, w):
        return F.conv2d(x, w, stride=2, padding=1, groups=groups)

    compiled = tj.compile(f)
    for _ in range(2):
        x.grad = w.grad = None
        y = compiled(x, w)
        y.float().square().sum().backward()
    found = [t.float().detach().numpy() for t in (y, x.grad, w.grad)]
    x.grad = w.grad = None
    y = f(x, w)
    y.float().square().sum().backward()
    expected = [t.float().detach().numpy() for t in (y, x.grad, w.grad)]
    epsilon = tj.finfo(dtype).eps
    for a, b in zip(found, expected, strict=True):  # sums of other order may round the other way
        np.testing.assert_allclose(a, b, epsilon, epsilon * np.abs(b).max() / 8)
        assert np.mean(a == b) > 0.9


def test_odd_and_even_sizes_share_kernels():
    conv = tj.nn.Conv2d(3, 4, 3, 2, padding=1)
    compiled = tj.compile(lambda x: conv(x).square().mean())

    def step(n, h, w):
        x = tj.randn(n, 3, h, w, requires_grad=True)
        compiled(x).backward()
        found, x.grad = x.grad, None
        conv(x).square().mean().backward()
        np.testing.assert_allclose(found.numpy(), x.grad.numpy(), 1e-3, 1e-5)

    for sizes in ((2, 8, 10), (3, 12, 16), (4, 13, 17), (2, 15, 19)):
        step(*sizes)
    before = kernels.COUNTS.compiled + kernels.COUNTS.loaded
    for sizes in ((5, 20, 22), (9, 7, 9), (2, 31, 41), (3, 30, 43), (3, 33, 44)):
        step(*sizes)
    assert kernels.COUNTS.compiled + kernels.COUNTS.loaded == before


def test_an_empty_batch():
    w = tj.randn(4, 3, 3, 3)
    compiled = tj.compile(lambda x: F.conv2d(x, w, padding=1))
    for n in (2, 0, 3, 0):
        assert compiled(tj.randn(n, 3, 5, 5)).shape == (n, 4, 5, 5)


def test_rounds_of_a_loop():
    w = tj.randn(3, 3, 3, 3) * 0.2

    def f(x):
        for _ in range(12):
            x = tj.tanh(F.conv2d(x, w, padding=1))
        return x

    compiled, x = tj.compile(f), tj.randn(2, 3, 9, 9)
    compiled(x)
    np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy(), 1e-4, 1e-5)
