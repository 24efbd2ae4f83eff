"""Convolutions as sums over taps: what they compute, and in how many steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
import tracejit.nn.functional as F
from tracejit.codegen.products.vector_machine import vector_machine
from tracejit.ir import parse, run, verify
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.windows import taps as module
from tracejit.passes.windows.epilogues import epilogues
from tracejit.passes.windows.taps import taps
from tracejit.profiling.pieces import pieces_of
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.plan.plan import HostCall, make_plan
from tracejit.runtime.program import Program

pytestmark = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")


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


def names(text):
    """The steps of a graph after the passes that are about convolutions."""
    graph = epilogues(taps(parse(text)))
    plan = make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])
    return [piece.name for piece in pieces_of(Program(plan))]


@pytest.mark.parametrize(
    ("operation", "kernel"),
    [
        ("relu(%1)", ""),
        ("clamp_inside(%1, 0.0, 6.0)", ""),
        ("clamp_min(%1, -1.0)", ""),
        ("tanh(%1)", "k_tanh"),
    ],
)
@pytest.mark.parametrize(
    ("groups", "stride", "padding", "before"),
    [
        (8, 1, 1, ["tap_products"]),
        (8, 2, 1, ["tap_products"]),
        (1, 1, 0, ["tap_products"]),
        (1, 1, 1, ["tap_memory", "tap_products"]),
        (1, 2, 1, ["tap_memory", "tap_products"]),
    ],
)
def test_a_convolution_with_what_follows_is_one_step(
    groups, stride, padding, before, operation, kernel
):
    n = (9 + 2 * padding - 3) // stride + 1
    pairs, counts = f"(({padding}, {padding}), ({padding}, {padding}))", f"f32[2, 8, {n}, {n}]"
    given_ = f"stride=({stride}, {stride}), padding={pairs}, dilation=(1, 1), groups={groups}"
    text = f"""graph f(x: f32[2, 8, 9, 9], w: f32[8, {8 // groups}, 3, 3], b: f32[8]) {{
        %0: {counts} = convolution(x, w, {given_})
        %7: f32[1, 8, 1, 1] = reshape(b, shape=(1, 8, 1, 1))
        %1: {counts} = add(%0, %7)
        %2: {counts} = {operation}
        return %2
    }}"""
    assert names(text) == [*before[:-1], f"tap_products {kernel}".strip()]


def test_what_others_read_is_written():
    text = """graph f(x: f32[2, 8, 9], w: f32[8, 8, 1], b: f32[8]) {
        %0: f32[2, 8, 9] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
        %7: f32[1, 8, 1] = reshape(b, shape=(1, 8, 1))
        %1: f32[2, 8, 9] = add(%0, %7)
        return %0, %1
    }"""
    assert names(text) == ["tap_products k_add"]


@pytest.mark.parametrize("bound", [F.relu, F.relu6, lambda y: y.clamp(-0.5, 0.25), F.silu])
@pytest.mark.parametrize("groups", [1, 8])
def test_training_steps_with_biases_and_bounds(bound, groups):
    x = tj.randn(2, 8, 9, 10, requires_grad=True)
    conv = tj.nn.Conv2d(8, 8, 3, 2, padding=1, groups=groups)

    def f(x):
        y = bound(conv(x))
        return (y, *tj.autograd.grad((y * y).sum(), (x, conv.weight, conv.bias)))

    compiled = tj.compile(f)
    for _ in range(2):
        found = compiled(x)
    for a, b in zip(found, f(x), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-4, 1e-4)


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_depthwise_convolutions_are_two_steps(stride):
    """Neither padding nor gradients are kernels of their own; one turns the gradient of the weight, which is small."""
    n = (9 - 1) // stride + 1
    given_ = f"stride=({stride}, {stride}), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=8"
    graph = parse(f"""graph f(x: f32[2, 8, 9, 9], w: f32[8, 1, 3, 3]) {{
        %0: f32[2, 8, {n}, {n}] = convolution(x, w, {given_})
        return %0
    }}""")
    graph = epilogues(taps(differentiate(graph, [True, True]).graph))
    plan = make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])
    found = [piece.name for piece in pieces_of(Program(plan))]
    assert sorted(found) == ["k_clone", "tap_products", "tap_weights"]


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
