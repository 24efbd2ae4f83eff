"""Kernels that run on what a convolution's step has just computed."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from tracejit import nn
from tracejit.codegen.products.vector_machine import vector_machine

pytestmark = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")

#: Channels, groups, size, outputs, kernel, stride, padding: each step there is.
SHAPES = {
    "strips": (8, 1, 9, 5, 3, 1, 0),
    "copied": (8, 1, 9, 5, 3, 1, 1),
    "points": (24, 1, 7, 40, 1, 1, 0),
    "outputs": (8, 1, 14, 40, 3, 1, 1),
    "strided": (3, 1, 30, 35, 5, 2, 2),
    "grouped": (6, 2, 12, 32, 5, 1, 2),
    "few": (6, 3, 40, 6, 3, 1, 1),
    "wide": (3, 3, 600, 3, 3, 1, 1),
    "abreast": (20, 20, 7, 20, 3, 1, 1),
    "apart": (20, 20, 13, 20, 5, 2, 2),
}


def operands(shape, samples, dtype=tj.float32):
    channels, groups, size, rows, kernel, stride, padding = SHAPES[shape]
    count = (size + 2 * padding - kernel) // stride + 1
    x = tj.randn(samples, channels, size, size, dtype=dtype)
    w = tj.randn(rows, channels // groups, kernel, kernel, dtype=dtype) / kernel
    kept = tj.randn(samples, rows, count, count, dtype=dtype)
    numbers = [tj.randn(rows, dtype=dtype) for _ in range(3)]

    def convolve(x, w):
        return F.conv2d(x, w, stride=stride, padding=padding, groups=groups)

    return convolve, (x, w, kept, *numbers, tj.rand(rows, dtype=dtype) + 0.5)


FOLLOWING = {
    "normalised": lambda y, kept, a, b, m, v: F.relu(F.batch_norm(y, m, v, a, b, False)),
    "kept": lambda y, kept, a, b, m, v: F.relu(F.batch_norm(y, m, v, a, b, False) + kept),
    "silu": lambda y, kept, a, b, m, v: F.silu(y),
    "hardswish": lambda y, kept, a, b, m, v: F.hardswish(y + b[:, None, None]),
    "two": lambda y, kept, a, b, m, v: (F.gelu(y), y * kept),
    "shown": lambda y, kept, a, b, m, v: (y, y.sigmoid()),
}


def steps(compiled, given):
    """The names of a call's steps."""
    return [piece.name for piece in compiled.profile(*given).kernels]


def compared(f, given, threads=2):
    compiled = tj.compile(f, dynamic=False)
    before = tj.get_num_threads()
    tj.set_num_threads(threads)
    try:
        for _ in range(2):
            found = compiled(*given)
    finally:
        tj.set_num_threads(before)
    expected = f(*given)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for a, b in pairs:
        tolerance = 1e-4 if a.dtype is tj.float32 else 1e-11
        np.testing.assert_allclose(a.numpy(), b.numpy(), tolerance, tolerance)
    return compiled, found


@pytest.mark.sampled(72)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("following", FOLLOWING)
def test_what_follows_runs_in_the_step(shape, following, dtype):
    convolve, given = operands(shape, 3, dtype)

    def f(x, w, kept, *numbers):
        return FOLLOWING[following](convolve(x, w), kept, *numbers)

    compiled, _ = compared(f, given)
    names = steps(compiled, given)
    assert sum(name.startswith("tap_products k_") for name in names) == 1
    assert "tap_products" not in names


OTHERS = {
    "turned": lambda y, x: y.transpose(2, 3) * 2,
    "swapped": lambda y, x: y.permute(1, 0, 2, 3).contiguous().exp(),
    "summed": lambda y, x: F.silu(y).mean((2, 3)),
    "columns": lambda y, x: F.softmax(y, 1),
    "windows": lambda y, x: F.max_pool2d(F.silu(y), 2),
    "itself": lambda y, x: F.silu(y + x),
    "along": lambda y, x: y * x[:, :1],
    "lines": lambda y, x: y * x[0, 0, 0] + x[0, 0, :, :1],
    "parts": lambda y, x: tj.cat([F.silu(y), x], 1),
    "shuffled": lambda y, x: F.pixel_shuffle(F.silu(y), 2),
    "picked": lambda y, x: F.silu(y)[:, :, 1:],
    "again": lambda y, x: (F.silu(y) + 1, y.mean()),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("groups", [1, 24])
@pytest.mark.parametrize("reader", OTHERS)
def test_any_reader_is_right(reader, groups):
    x, w = tj.randn(2, 24, 14, 14), tj.randn(24, 24 // groups, 3, 3)
    compared(lambda x, w: OTHERS[reader](F.conv2d(x, w, padding=1, groups=groups), x), (x, w))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_the_same_for_any_number_of_threads(shape):
    convolve, given = operands(shape, 2)

    def f(x, w, kept, *numbers):
        return FOLLOWING["kept"](convolve(x, w), kept, *numbers)

    _, found = compared(f, given, 1)
    for threads in (2, 5):
        np.testing.assert_array_equal(compared(f, given, threads)[1].numpy(), found.numpy())


def test_two_convolutions_that_are_added():
    x, one, other = tj.randn(2, 16, 14, 14), tj.randn(32, 16, 3, 3), tj.randn(32, 16, 1, 1)
    scale = tj.randn(32)

    def f(x, one, other, scale):
        y = F.conv2d(x, one, padding=1) * scale[:, None, None]
        return F.relu(y + F.conv2d(x, other))

    compiled, _ = compared(f, (x, one, other, scale))
    names = steps(compiled, (x, one, other, scale))
    assert sum(name.startswith("tap_products k_") for name in names) == 1


def test_what_is_joined_takes_no_memory():
    x, w = tj.randn(8, 16, 56, 56), tj.randn(64, 16, 1, 1)
    compiled, _ = compared(lambda x, w: F.silu(F.conv2d(x, w)), (x, w))
    nbytes = 4 * 8 * 64 * 56 * 56
    found = compiled.profile(x, w)
    assert nbytes <= found.allocated / found.calls[0].calls < 1.5 * nbytes


def test_networks_of_joined_steps():
    """Each layer reads what the one before it has written over."""
    tj.manual_seed(0)
    layers = []
    for groups in (1, 32, 1, 32):
        conv = tj.nn.Conv2d(32, 32, 3, padding=1, groups=groups, bias=False)
        layers += [conv, tj.nn.BatchNorm2d(32), tj.nn.SiLU()]
    model = tj.nn.Sequential(*layers).eval()
    x = tj.randn(2, 32, 14, 14)
    with tj.no_grad():
        compared(lambda x: model(model(x) + x), (x,))


@pytest.mark.parametrize("groups", [1, 24])
def test_what_a_convolution_reads_is_written_before_its_kernel(groups):
    """The kernel needs what was written over the convolution's operand, or over a part of it."""
    w = tj.randn(24, 24 // groups, 3, 3)

    def f(x, w):
        x = x * 2
        y = F.conv2d(x, w, padding=1, groups=groups)
        x[:, :, 2:5] = 1.0
        x.mul_(3)
        return F.silu(y * x.mean()), x

    compared(f, (tj.randn(2, 24, 14, 14), w))


def test_an_operand_that_the_program_may_write_over():
    w, scale = tj.randn(24, 24, 3, 3), tj.randn(24)

    def f(x, w):
        y = F.conv2d(x, w, padding=1)
        x.mul_(0.5)
        return F.relu(y * x.sum() + scale[:, None, None])

    compiled = tj.compile(f)
    for _ in range(3):
        x = tj.randn(2, 24, 14, 14)
        other = x.clone()
        found, expected = compiled(x, w), f(other, w)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-3)
        np.testing.assert_array_equal(x.numpy(), other.numpy())


@pytest.mark.parametrize("activation", [nn.Tanh, nn.Sigmoid, nn.GELU])
def test_results_shown_in_another_shape_are_kept_as_long_as_they_are_read(activation):
    model = nn.Sequential(
        nn.Unflatten(1, (1, 4)),
        nn.Conv1d(1, 2, 3, padding=1),
        activation(),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    twin = copy.deepcopy(model)

    def training(net):
        optimizer = tj.optim.SGD(net.parameters(), lr=0.1)

        def step(x):
            loss = (net(x) - 0.5 * x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return step

    eager, compiled = training(model), tj.compile(training(twin))
    for _ in range(4):
        x = tj.randn(3, 4)
        np.testing.assert_allclose(compiled(x).item(), eager(x).item(), rtol=1e-5)
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-4, atol=1e-6)
