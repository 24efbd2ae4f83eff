"""Convolutions on a device: squares of results, forward and backward, against the ops' own bodies on the host."""

from __future__ import annotations

from typing import Any

import graph_tools as tools
import numpy as np
import pytest
import simulator
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_text import assert_sound
from test_device_compiled import close, moved

import tracejit as tj
from tracejit.codegen.cuda.convolution import convolves
from tracejit.codegen.cuda.cubin import assembler
from tracejit.ir import parse
from tracejit.runtime.plan.records import HostCall

F = tj.nn.functional
LIMITS = {"f64": 1e-12, "f32": 2e-5, "f16": 1e-2, "bf16": 8e-2}
GRAPH = """graph f(x: {t}[{x}], w: {t}[{w}], y: {t}[{y}]) {{
    %0: {t}[{y}] = convolution(x, w, {rest})
    %1: {t}[{x}] = convolution_input(y, w, size={size}, {rest})
    %2: {t}[{w}] = convolution_weight(x, y, kernel={kernel}, {rest})
    return %0, %1, %2
}}"""


def graph_of(
    samples: int,
    channels: tuple[int, int],
    axes: list[tuple[int, int, int, tuple[int, int], int]],
    groups: int = 1,
    dtype: str = "f32",
) -> Any:
    """All three forms; an axis is an extent, a kernel, a stride, padding and a dilation. None: no window fits."""
    size, kernel, stride, padding, dilation = (tuple(part) for part in zip(*axes, strict=True))
    counts = tuple((n + sum(p) - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)
    if min(counts) < 1:
        return None
    shapes = {
        "x": (samples, groups * channels[0], *size),
        "w": (groups * channels[1], channels[0], *kernel),
        "y": (samples, groups * channels[1], *counts),
    }
    rest = f"stride={stride}, padding={padding}, dilation={dilation}, groups={groups}"
    names = {name: ", ".join(map(str, shape)) for name, shape in shapes.items()}
    return parse(GRAPH.format(t=dtype, rest=rest, size=size, kernel=kernel, **names))


def prepared(graph: Any, lay: Any = np.copy) -> Any:
    rng = np.random.default_rng(1)
    found = [rng.standard_normal(v.spec.shape).astype(v.spec.dtype.np) for v in graph.inputs]
    return tools.prepare(graph, [lay(x) for x in found])


def check(graph: Any, *ways: Any, lay: Any = np.copy) -> None:
    """The ways agree to the bit, and with the bodies."""
    ready = prepared(graph, lay)
    body = tools.Run(ready).execute(tools.on_host)
    first, *others = (tools.Run(ready).execute(tools.device_way(way)) for way in ways)
    for other in others:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True))
    for value, a, b in zip(graph.outputs, first, body, strict=True):
        limit = LIMITS[value.spec.dtype.short]
        wide = [np.asarray(part, np.float64) for part in (a, b)]
        np.testing.assert_allclose(*wide, rtol=limit, atol=limit * max(1.0, abs(wide[1]).max()))


AXIS = st.tuples(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.tuples(st.integers(-1, 3), st.integers(-1, 3)),
    st.integers(1, 3),
)


@pytest.mark.thorough
@settings(max_examples=10, deadline=None)
@given(
    samples=st.integers(1, 5),
    channels=st.tuples(st.integers(1, 19), st.integers(1, 19)),
    axes=st.lists(AXIS, min_size=1, max_size=3),
    groups=st.integers(1, 3),
    dtype=st.sampled_from(sorted(LIMITS)),
)
def test_any_convolution(samples: int, channels: Any, axes: Any, groups: int, dtype: str) -> None:
    graph = graph_of(samples, channels, axes, groups, dtype)
    if graph is not None:
        assert all(map(convolves, graph.outputs))
        check(graph, tools.as_ptx("sm_90"))


LARGE = [
    graph_of(3, (70, 65), [(6, 3, 1, (1, 1), 1), (5, 3, 1, (1, 1), 1)]),
    graph_of(13, (3, 5), [(13, 5, 2, (2, 1), 1), (11, 3, 1, (0, 0), 2)]),
]


@pytest.mark.thorough
@pytest.mark.parametrize("graph", LARGE, ids=["channels", "parts"])
def test_several_squares_and_parts(graph: Any) -> None:
    check(graph, tools.as_ptx("sm_90"))
    names = {launch.name for launch in tools.launches(prepared(graph)).values()}
    assert ("k_convolution_weight_combine" in names) == (graph is LARGE[1])


def test_operands_may_lie_anyhow() -> None:
    graph = graph_of(2, (4, 3), [(5, 3, 1, (1, 1), 1), (4, 2, 1, (0, 0), 1)])
    for lay in (np.asfortranarray, lambda x: np.flip(np.asfortranarray(x), (1, -1))):
        check(graph, tools.as_ptx("sm_90"), lay=lay)


def with_odd_numbers(x: np.ndarray) -> np.ndarray:
    """The same with a few infinities and one nan."""
    odd = x.copy()
    flat = odd.reshape(-1)
    flat[:: max(1, flat.size // 3)] = np.inf
    flat[flat.size // 2] = np.nan
    return odd


@pytest.mark.thorough
@settings(max_examples=8, deadline=None)
@given(
    samples=st.integers(1, 3),
    channels=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    axes=st.lists(AXIS, min_size=1, max_size=2),
    groups=st.integers(1, 2),
    dtype=st.sampled_from(["f32", "bf16"]),
    odd=st.sampled_from(["w", "y"]),
)
def test_numbers_stay_where_windows_are(
    samples: int, channels: Any, axes: Any, groups: int, dtype: str, odd: str
) -> None:
    """A gradient of an input has no products where no element of the kernel lies."""
    graph = graph_of(samples, channels, axes, groups, dtype)
    if graph is None:
        return
    rng = np.random.default_rng(2)
    given = {
        v.name: rng.standard_normal(v.spec.shape).astype(v.spec.dtype.np) for v in graph.inputs
    }
    given[odd] = with_odd_numbers(given[odd])
    ready = tools.prepare(graph, [*given.values()])
    ways = (tools.on_host, tools.device_way(tools.as_ptx("sm_90")))
    body, found = (np.asarray(tools.Run(ready).execute(way)[1], np.float64) for way in ways)
    limit = LIMITS[dtype]
    size = np.abs(body[np.isfinite(body)]).max(initial=1.0)
    np.testing.assert_allclose(found, body, rtol=limit, atol=limit * size)


@pytest.mark.thorough
def test_kernels_are_legal_in_any_order_of_warps() -> None:
    """Bounds, barriers and races, by the simulator; its numbers are those of PTX."""
    graph = graph_of(1, (2, 3), [(5, 2, 1, (1, 0), 1)])
    orders = [tools.simulated(), tools.simulated(simulator.shuffled(1))]
    check(graph, *orders, tools.as_ptx("sm_90"))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(LARGE)))
def test_larger_kernels_are_legal(number: int) -> None:
    axes = [[(3, 2, 1, (1, 0), 1), (2, 2, 2, (0, 1), 1)], [(520, 1, 1, (0, 0), 1)]][number]
    graph = graph_of(1, ((17, 2), (1, 1))[number], axes)
    check(graph, tools.simulated(simulator.shuffled(2)), tools.as_ptx("sm_90"))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("dtype", sorted(LIMITS))
@pytest.mark.parametrize("channels", [3, 32])
def test_kernels_are_sound(channels: int, dtype: str) -> None:
    graph = graph_of(16, (channels, 32), [(9, 3, 1, (1, 1), 1)] * 2, dtype=dtype)
    for source, launch in tools.launches(prepared(graph)).items():
        for architecture in ("sm_75", "sm_80", "sm_90"):
            text = tools.ptx_of(source, launch.name, architecture)
            assert_sound(text, source)
            vectors = "ld.shared.v2" if dtype == "f64" else "ld.shared.v4"
            assert vectors in text or launch.name.endswith(("combine", "gaps"))
            if assembler() is not None:
                found = tools.takes(text, architecture)
                assert found.stack_bytes == found.spilled_bytes == 0, (launch.name, found)


# --- whole programs ---------------------------------------------------------------------------------------------------


class Net(tj.nn.Module):
    """Convolutions of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.first = tj.nn.Conv2d(1, 4, 3, padding=1)
        self.grouped = tj.nn.Conv2d(4, 6, 3, stride=2, groups=2)
        self.single = tj.nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.up = tj.nn.ConvTranspose2d(6, 2, 3, stride=2)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.single(F.relu(self.grouped(F.relu(self.first(x))))))
        return self.up(x).square().mean()


def step(net: Any, x: Any) -> list[Any]:
    net.zero_grad()
    loss = net(x)
    loss.backward()
    return [loss, *(p.grad for p in net.parameters())]


@pytest.mark.thorough
def test_a_network_of_convolutions(gpu: Any, library: Any) -> None:
    tj.manual_seed(0)
    host, x = Net(), tj.randn(2, 1, 7, 7)
    expected = step(host, x)
    net = Net()
    net.load_state_dict(host.state_dict())
    net.to("cuda")
    compiled = tj.compile(net, strict=True)
    for _ in range(3):
        for a, b in zip(step(compiled, moved(x, "cuda")), expected, strict=True):
            close(a, b, 2e-5)
    assert compiled.compiled.stats.compiled_calls == 2
    names = {name for name, _ in library.launched}
    assert {"k_convolution", "k_convolution_input", "k_convolution_weight"} <= names
    items = [i for e in compiled.compiled._all() for p in e.programs() for i in p.plan.items]
    assert not any(isinstance(item, HostCall) for item in items)


def test_convolutions_run_in_cuda_graphs_and_at_other_sizes(gpu: Any) -> None:
    weight = tj.randn(3, 2, 3)
    f = tj.compile(lambda x, w: F.conv1d(x, w, padding=1).relu(), mode="reduce-overhead")
    for length in (5, 5, 5, 5, 5, 5, 8, 70, 70, 9):
        x = tj.randn(2, 2, length)
        close(f(x.cuda(), weight.cuda()), F.conv1d(x, weight, padding=1).relu(), 2e-5)


def test_convolutions_in_loops_are_native(gpu: Any) -> None:
    def rounds(x: Any, w: Any) -> Any:
        for _ in range(12):
            x = F.conv1d(x, w, padding=1).tanh()
        return x

    f = tj.compile(rounds, strict=True)
    x, w = tj.randn(1, 2, 6), tj.randn(2, 2, 3)
    for _ in range(3):
        close(f(x.cuda(), w.cuda()), rounds(x, w), 2e-5)
    items = [i for e in f._all() for p in e.programs() for i in p.plan.items]
    assert items
    assert not any(isinstance(item, HostCall) for item in items)


def test_nothing_to_compute(gpu: Any) -> None:
    f = tj.compile(lambda x, w: F.conv1d(x, w), strict=True)
    for shape in ((0, 2, 5), (2, 2, 5)):
        x, w = tj.randn(*shape), tj.randn(3, 2, 3)
        for _ in range(2):
            close(f(x.cuda(), w.cuda()), F.conv1d(x, w), 2e-5)
