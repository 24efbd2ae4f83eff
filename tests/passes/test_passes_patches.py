"""Convolutions whose windows lie side by side are plain products, and windows are read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, programs
from ir_graphs import documented
from tracejit import ir
from tracejit.passes.windows import patches as module
from tracejit.passes.windows.patches import patches
from tracejit.passes.windows.pooling import pooling
from tracejit.runtime.taps import TapStep

F = tj.nn.functional


def test_the_documented_example() -> None:
    found = patches(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stride=(8,)", "stride=(7,)"),
        ("((0, 0),)", "((0, 8),)"),
        ("dilation=(1,)", "dilation=(2,)"),
        ("x: f32", "x: f16"),
    ],
)
def test_other_convolutions_stay(old: str, new: str) -> None:
    text = str(documented(module, "Before"))
    counts = {"stride=(7,)": 3, "((0, 8),)": 4, "dilation=(2,)": 2}.get(new, 3)
    text = text.replace(old, new).replace("f32[2, 5, 3]", f"f32[2, 5, {counts}]")
    if "f16" in new:
        text = text.replace("f32", "f16")
    graph = ir.parse(text)
    assert patches(graph) is graph or patches(graph) == graph


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("size", "kernel"), [((3, 4, 4, 5), (6, 4, 4, 5)), ((2, 3, 7), (5, 3, 7))], ids=str
)
def test_one_window_is_a_product_whatever_the_stride(size: Any, kernel: Any, stride: int) -> None:
    rank = len(size) - 2
    forward, backward = (getattr(F, f"{name}{rank}d") for name in ("conv", "conv_transpose"))

    def function(x: Any, w: Any) -> Any:
        return backward(forward(x, w, stride=stride).tanh(), w, stride=stride)

    x, w = (tj.randn(*shape, dtype=tj.float64).requires_grad_() for shape in (size, kernel))
    compiled = tj.compile(function, strict=True)
    for _ in range(3):
        results = []
        for call in (function, compiled):
            out = call(x, w)
            results.append([out, *tj.autograd.grad(out.square().sum(), (x, w))])
        for want, have in zip(*results, strict=True):
            tj.testing.assert_close(have, want)
    steps = [step for program in programs(compiled) for step in program.plan.items]
    assert steps
    assert not [step for step in steps if isinstance(step, TapStep)]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [tj.float64, tj.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("size", "kernel"),
    [
        ((2, 3, 16), (5, 3, 8)),
        ((2, 3, 17, 19), (8, 3, 4, 4)),
        ((1, 16, 8, 6), (4, 16, 2, 3)),
        ((1, 2, 4, 6, 7), (3, 2, 2, 3, 2)),
        ((0, 3, 8, 8), (2, 3, 4, 4)),
    ],
    ids=str,
)
def test_as_eager(size: Any, kernel: Any, dtype: tj.dtype) -> None:
    rank = len(size) - 2
    steps = {"stride": tuple(kernel[2:])}
    forward = getattr(F, f"conv{rank}d")
    backward = getattr(F, f"conv_transpose{rank}d")

    def layer(x: Any, w: Any, b: Any) -> Any:
        return F.gelu(forward(x, w, b, **steps))

    def doubled(x: Any, w: Any, b: Any) -> Any:
        return backward(forward(x, w, b, **steps), w, **steps) * 2

    made = [tj.randn(*s).to(dtype).requires_grad_() for s in (size, kernel, kernel[:1])]
    for function in (layer, doubled):
        compiled = tj.compile(function, strict=True)
        for _ in range(3):
            results = []
            for call in (function, compiled):
                out = call(*made)
                results.append([out, *tj.autograd.grad(out.float().square().sum(), made)])
        for want, have in zip(*results, strict=True):
            assert have.dtype is dtype
            assert have.shape == want.shape
            assert have.is_contiguous() == want.is_contiguous()
            scale = float(want.abs().max()) if want.numel() else 1.0
            tolerance = scale * (1e-11 if dtype is tj.float64 else 2**-5)
            np.testing.assert_allclose(
                have.detach().double().numpy(), want.detach().double().numpy(), 0, tolerance
            )
        assert host_ops(compiled).isdisjoint({"convolution", "convolution_input"})


def frames(x: Any) -> Any:
    return (x.unfold(-1, 6, 3) * tj.arange(6.0)).square()


def columns(x: Any) -> Any:
    w = tj.arange(float(x.shape[-1] * 0 + 18)).reshape(2, 9)
    return w @ F.unfold(x[:, :1], 3, padding=1, stride=2, dilation=(1, 2))


def twice(x: Any) -> Any:
    return x.unfold(-1, 4, 1).unfold(2, 3, 2) + 1


def shown(x: Any) -> Any:
    return x.unfold(-1, 4, 2), x * 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", [frames, columns, twice, shown])
@pytest.mark.parametrize("shape", [(2, 3, 11, 12), (1, 1, 9, 9)], ids=str)
def test_windows_are_read_where_they_lie(function: Any, shape: Any) -> None:
    compiled = tj.compile(function, strict=True)
    for x in (tj.randn(*shape), tj.randn(*shape[::-1]).permute(3, 2, 1, 0)):
        x = x.detach().requires_grad_()
        for _ in range(3):
            found = []
            for call in (function, compiled):
                out = call(x)
                outs = out if isinstance(out, tuple) else (out,)
                found.append([*outs, *tj.autograd.grad(sum(o.square().sum() for o in outs), x)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-4)
    assert "unfold_windows" not in host_ops(compiled)


def test_windows_that_are_returned_show_the_argument() -> None:
    f = tj.compile(lambda x: x.unfold(0, 3, 1), strict=True)
    x = tj.arange(5.0)
    for _ in range(3):
        y = f(x)
    y[0] = 7.0
    assert y.tolist() == [[7, 7, 7], [7, 7, 3], [7, 3, 4]]
    assert x.tolist() == [7, 7, 7, 3, 4]


def test_computed_windows_that_are_returned_have_memory_of_their_own() -> None:
    f = tj.compile(lambda x: ((x + 1).unfold(0, 3, 1), x + 1), strict=True)
    x = tj.arange(5.0)
    for _ in range(3):
        y, whole = f(x)
    y[0] = 7.0
    assert y.tolist() == [[7, 7, 7], [7, 7, 4], [7, 4, 5]]
    assert whole.tolist() == [1, 2, 3, 4, 5]


def test_unfolding_is_a_view() -> None:
    graph = ir.parse("""graph f(x: f32[2, 9]) {
        %0: f32[2, 3, 4] = unfold_windows(x, kernel=(3,), stride=(2,), padding=((0, 0),), dilation=(1,))
        return %0
    }""")
    names = [v.op.name for v in ir.verify(pooling(graph)).values if v.op is not None]
    assert names == ["windows", "clone"]
