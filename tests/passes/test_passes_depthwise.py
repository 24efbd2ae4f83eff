"""Depthwise convolutions written out: the same results, in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from ir_graphs import assert_same_bits
from tracejit.ir import parse, run, verify
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.windows.depthwise import depthwise
from tracejit.runtime.plan.plan import HostCall, make_plan
from tracejit.runtime.program import Program

FORMS = {
    "plain": ("2, 3, 9", "2", "stride=(1,), padding=((0, 0),), dilation=(1,)", "8"),
    "padded": ("2, 3, 9", "3", "stride=(1,), padding=((1, 1),), dilation=(1,)", "9"),
    "one_side": ("2, 3, 9", "3", "stride=(1,), padding=((2, 0),), dilation=(1,)", "9"),
    "dilated": ("2, 3, 9", "3", "stride=(1,), padding=((2, 2),), dilation=(2,)", "9"),
    "steps": ("2, 3, 9", "3", "stride=(2,), padding=((1, 0),), dilation=(1,)", "4"),
    "planes": (
        "2, 3, 5, 6",
        "3, 2",
        "stride=(1, 1), padding=((1, 1), (0, 1)), dilation=(1, 1)",
        "5, 6",
    ),
    "wide_padding": ("2, 3, 5", "2", "stride=(1,), padding=((3, 3),), dilation=(1,)", "10"),
}


def graph_of(form: str):
    x, kernel, attributes, counts = FORMS[form]
    return parse(f"""graph f(x: f32[{x}], w: f32[3, 1, {kernel}]) {{
        %0: f32[2, 3, {counts}] = convolution(x, w, {attributes}, groups=3)
        return %0
    }}""")


def arrays_of(graph, special=False):
    rng = np.random.default_rng(0)
    found = [rng.standard_normal(v.spec.shape).astype(np.float32) for v in graph.inputs]
    if special:
        found[0].flat[3], found[1].flat[1], found[1].flat[-1] = np.nan, np.inf, -0.0
    return found


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_products_are_added_in_the_order_of_eager_execution(form, special):
    graph = graph_of(form)
    found = verify(depthwise(graph))
    assert not any(v.op.name.startswith("convolution") for v in found.values)
    arrays = arrays_of(graph, special)
    with np.errstate(invalid="ignore"):
        (a,), (b,) = run(found, arrays), run(graph, arrays)
        assert_same_bits(a, b)
    plan = make_plan(found, [v.spec.contiguous_strides() for v in found.inputs])
    assert not any(isinstance(i, HostCall) for i in plan.items)
    (block,) = Program(plan).run(*map(tj.from_numpy, arrays))
    native = np.ndarray(a.shape, a.dtype, block.array)
    np.testing.assert_allclose(native, a, 1e-6, 1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form):
    gradient = differentiate(graph_of(form), [True, True]).graph
    found = verify(depthwise(gradient))
    kept = [v.op.name for v in found.values if v.op.name.startswith("convolution")]
    # far apart windows, or more padding than a window: the transposed product stays
    assert kept == (["convolution_input"] if form in ("steps", "wide_padding") else [])
    arrays = arrays_of(gradient)
    for a, b in zip(run(found, arrays), run(gradient, arrays), strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 2e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("groups=3", "groups=1"),
        ("x: f32[2, 3, 9], w: f32[3, 1, 2]", "x: f16[2, 3, 9], w: f16[3, 1, 2]"),
        ("((0, 0),)", "((-1, 1),)"),
    ],
)
def test_other_convolutions_stay(old, new):
    text = str(graph_of("plain")).replace(old, new)
    if "f16" in new:
        text = text.replace("%0: f32", "%0: f16")
    if "groups=1" in new:
        text = text.replace("w: f32[3, 1, 2]", "w: f32[3, 3, 2]")
    graph = parse(text)
    assert depthwise(graph) == graph


def test_compiled_at_several_sizes():
    w = tj.randn(6, 1, 3, 3, requires_grad=True)

    def f(x):
        return F.relu(F.conv2d(F.gelu(x), w, padding=1, groups=6) + 0.5).mean()

    compiled = tj.compile(f, strict=True)
    for size in (5, 8, 12):
        for _ in range(2):
            results = []
            for function in (f, compiled):
                w.grad = None
                x = (tj.arange(2 * 6 * size * size).reshape(2, 6, size, size) * 0.1).sin()
                x.requires_grad_()
                result = function(x)
                result.backward()
                results.append([result.detach().numpy(), x.grad.numpy(), w.grad.numpy().copy()])
            for a, b in zip(*results, strict=True):
                np.testing.assert_allclose(a, b, 1e-4, 1e-6)
    programs = [p for entry in compiled._all() for p in entry.programs()]
    assert not any(isinstance(i, HostCall) for p in programs for i in p.plan.items)
