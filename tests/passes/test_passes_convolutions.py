"""Convolutions written as products of windows: the same results, in kernels and products."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from tracejit.ir import parse, run, verify
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.windows import convolutions as module
from tracejit.passes.windows.convolutions import convolutions
from tracejit.passes.windows.pooling import pooling
from tracejit.runtime.plan.plan import HostCall, make_plan
from tracejit.runtime.program import Program

# input, weight, attributes, extents of the result
FORMS = {
    "plain": ("2, 3, 9", "4, 3, 2", "stride=(1,), padding=((0, 0),), dilation=(1,)", "8"),
    "one_element": ("2, 3, 9", "4, 3, 1", "stride=(1,), padding=((0, 0),), dilation=(1,)", "9"),
    "fewer_channels": ("2, 5, 9", "2, 5, 3", "stride=(1,), padding=((1, 1),), dilation=(1,)", "9"),
    "more_channels": ("2, 2, 9", "5, 2, 3", "stride=(1,), padding=((1, 1),), dilation=(1,)", "9"),
    "dilated": ("2, 2, 9", "5, 2, 3", "stride=(1,), padding=((2, 1),), dilation=(2,)", "8"),
    "far_padding": ("2, 2, 5", "3, 2, 2", "stride=(1,), padding=((3, 4),), dilation=(1,)", "11"),
    "steps": ("2, 3, 9", "4, 3, 3", "stride=(2,), padding=((1, 0),), dilation=(1,)", "4"),
    "steps_apart": ("2, 3, 11", "4, 3, 2", "stride=(3,), padding=((0, 1),), dilation=(1,)", "4"),
    "steps_of_planes": (
        "2, 3, 7, 8",
        "4, 3, 3, 3",
        "stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1)",
        "4, 4",
    ),
    "planes": (
        "2, 3, 5, 6",
        "4, 3, 3, 2",
        "stride=(1, 1), padding=((1, 1), (0, 1)), dilation=(1, 1)",
        "5, 6",
    ),
    "solid": (
        "1, 2, 3, 4, 5",
        "3, 2, 2, 2, 2",
        "stride=(1, 1, 1), padding=((0, 1), (1, 0), (0, 0)), dilation=(1, 1, 1)",
        "3, 4, 4",
    ),
}


def graph_of(form: str):
    x, weight, attributes, counts = FORMS[form]
    return parse(f"""graph f(x: f64[{x}], w: f64[{weight}]) {{
        %0: f64[{x[0]}, {weight[0]}, {counts}] = convolution(x, w, {attributes}, groups=1)
        return %0
    }}""")


def arrays_of(graph):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(v.spec.shape) for v in graph.inputs]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_the_same_numbers(form, gradients):
    graph = graph_of(form)
    if gradients:
        graph = differentiate(graph, [True, True]).graph
    found = verify(pooling(convolutions(graph)))
    kept = [v.op.name for v in found.values if v.op.name.startswith("convolution")]
    # reversed windows that would begin inside: the transposed product stays
    stays = gradients and form == "far_padding"
    assert kept == (["convolution_input"] if stays else [])
    arrays = arrays_of(graph)
    expected = run(graph, arrays)
    for a, b in zip(run(found, arrays), expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)
    plan = make_plan(found, [v.spec.contiguous_strides() for v in found.inputs])
    assert sum(isinstance(i, HostCall) for i in plan.items) == len(kept)
    blocks = Program(plan).run(*map(tj.from_numpy, arrays))
    for block, want in zip(blocks, expected, strict=True):
        array = block.array if hasattr(block, "array") else block
        native = np.ndarray(want.shape, want.dtype, array)
        np.testing.assert_allclose(native, want, 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stride=(1,), padding=((0, 0),)", "stride=(1,), padding=((-1, 1),)"),
        ("w: f64[4, 3, 2]", "w: f64[4, 3, 2]"),
    ],
)
def test_what_is_cut_off_or_too_large_stays(old, new, monkeypatch):
    if old == new:
        monkeypatch.setattr(module, "MOST_BYTES", 100)
    graph = parse(str(graph_of("plain")).replace(old, new))
    assert convolutions(graph) == graph


def test_special_values_spread_as_in_eager_execution():
    for form in ("fewer_channels", "more_channels", "far_padding"):
        graph = differentiate(graph_of(form), [True, True]).graph
        arrays = arrays_of(graph)
        arrays[1].flat[0], arrays[0].flat[2] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            pairs = zip(run(convolutions(graph), arrays), run(graph, arrays), strict=True)
            for a, b in pairs:
                assert np.array_equal(np.isnan(a), np.isnan(b))


def test_networks_at_several_sizes():
    first, second = (tj.randn(*s, requires_grad=True) for s in ((6, 2, 3, 3), (3, 6, 3, 3)))

    def f(x):
        x = F.max_pool2d(F.relu(F.conv2d(x, first, padding=1) * 0.3), 2)
        return F.conv2d(x, second, padding=1).square().mean()

    compiled = tj.compile(f, strict=True)
    for size in (6, 8, 12):
        for _ in range(2):
            results = []
            for function in (f, compiled):
                first.grad = second.grad = None
                x = (tj.arange(2 * 2 * size * size).reshape(2, 2, size, size) * 0.1).sin()
                x.requires_grad_()
                result = function(x)
                result.backward()
                grads = [t.grad.numpy().copy() for t in (x, first, second)]
                results.append([result.detach().numpy(), *grads])
            for a, b in zip(*results, strict=True):
                np.testing.assert_allclose(a, b, 1e-4, 1e-5)
    programs = [p for entry in compiled._all() for p in entry.programs()]
    called = {i.op.name for p in programs for i in p.plan.items if isinstance(i, HostCall)}
    assert not any(name.startswith("convolution") for name in called)
