"""Positions of extremes and running results on a device: kernels of our own, against the bodies of the ops."""

from __future__ import annotations

from typing import Any

import graph_tools as tools
import numpy as np
import pytest
import simulator
from ptx_text import assert_sound

import tracejit as tj
from compiled_tools import host_ops
from tracejit.codegen.cuda.cubin import assembler
from tracejit.ir import parse

LIMITS = {"f64": 1e-12, "f32": 2e-5, "f16": 2e-2, "bf16": 1.6e-1}
FINDS = "{y} = {op}(x, dims=({dim},), keepdim={keepdim})"
GOES = "{y} = {op}(x, dim={dim})"
SO_FAR = "{y} = cumextreme_index(x, dim={dim}, largest={op})"
ARRIVES = {"argmax": FINDS, "argmin": FINDS, "cumsum": GOES, "cumprod": GOES}


def graph_of(shape: tuple[int, ...], dim: int, dtype: str, ops: Any = None) -> Any:
    """Everything that goes along one dimension."""
    whole = ", ".join(map(str, shape))
    left = ", ".join(str(n) for d, n in enumerate(shape) if d != dim)
    total = dtype if dtype in LIMITS else "i64"
    lines, wanted = [], ops or [*ARRIVES, "True", "False"]
    if dtype == "bool":
        wanted = ["cumsum", "cumprod"]
    for number, op in enumerate(wanted):
        finds = op.startswith("arg")
        kind = f"i64[{left}]" if finds else f"{total if op in ARRIVES else 'i64'}[{whole}]"
        text = ARRIVES.get(op, SO_FAR).format(y=f"%{number}: {kind}", op=op, dim=dim, keepdim=False)
        lines.append(text)
    results = ", ".join(f"%{number}" for number in range(len(lines)))
    return parse(f"graph f(x: {dtype}[{whole}]) {{ {' '.join(lines)} return {results} }}")


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Few different numbers around one, so that there are ties; special ones too."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "biu":
        return rng.integers(0, 3, shape).astype(dtype)
    x = rng.choice([1.0, 1.25, 0.75, -1.0], shape)
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0]
    return np.where(rng.random(shape) < 4 / x.size, rng.choice(special, shape), x).astype(dtype)


def check(graph: Any, x: Any, *ways: Any) -> list[Any]:
    """The ways agree to the bit, and with the bodies: in positions and integers exactly."""
    ready = tools.prepare(graph, [x])
    body = tools.Run(ready).execute(tools.on_host)
    seen: list[Any] = []
    first, *others = (tools.Run(ready).execute(tools.device_way(way, seen)) for way in ways)
    for other in others:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True))
    for value, a, b in zip(graph.outputs, first, body, strict=True):
        limit = LIMITS.get(value.spec.dtype.short, 0.0)
        wide = [np.asarray(part, np.float64) for part in (a, b)]
        np.testing.assert_allclose(*wide, limit, 40 * limit, err_msg=str(value.op))
        assert (np.signbit(wide[0]) == np.signbit(wide[1]))[wide[1] == 0].all()
    return seen


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i8", "i64", "u8", "bool"])
@pytest.mark.parametrize(("shape", "dim"), [((3, 40), 1), ((20, 17), 0)])
def test_every_dtype(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    graph = graph_of(shape, dim, dtype)
    x = numbers(shape, graph.inputs[0].spec.dtype.np)
    seen = check(graph, x, tools.simulated(), tools.as_ptx("sm_90"))
    for launch in seen:
        assert_sound(tools.ptx_of(launch.source, launch.name, "sm_90"), launch.source)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(9,), (1, 1), (57,), (2, 3, 20), (2, 9, 17)])
def test_every_layout(shape: tuple[int, ...]) -> None:
    for dim in range(len(shape)):
        graph = graph_of(shape, dim, "f32")
        x = numbers(shape, np.float32, dim)
        wide = np.zeros((*shape[:-1], 2 * shape[-1]), np.float32)[..., ::2]
        wide[...] = x
        for given in (np.asfortranarray(x), wide, x[::-1]):
            check(graph, given, tools.simulated())


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "order", [simulator.forward, simulator.shuffled(1)], ids=["forward", "shuffled"]
)
@pytest.mark.parametrize(("shape", "dim"), [((2, 2100), 1), ((2050, 16), 0)])
def test_few_rows_are_cut_into_parts(shape: tuple[int, ...], dim: int, order: Any) -> None:
    graph = graph_of(shape, dim, "f32", ["argmax", "argmin", "cumsum", "True"])
    names = [x.name for x in check(graph, numbers(shape, np.float32), tools.simulated(order))]
    assert names[:2] == ["k_argmax_parts", "k_argmax_combine"]
    assert names[4:7] == ["k_cumsum_parts", "k_cumsum_combine", "k_cumsum"]


def test_extremes_in_different_parts() -> None:
    rows = np.ones((4, 2100), np.float32)
    for row, found in enumerate([np.nan, np.inf, -np.inf, 2.0]):
        rows[row, [699, 700, 1500, 2099]] = found
    for x in (rows, np.full((1, 2100), -np.inf, np.float32)):
        check(graph_of(x.shape, 1, "f32", ["argmax", "argmin", "True"]), x, tools.simulated())


@pytest.mark.thorough
@pytest.mark.skipif(assembler() is None, reason="no assembler for GPU code is installed")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i64"])
def test_machine_code_without_local_memory(dtype: str, architecture: str) -> None:
    for shape, dim in (((3, 70), 1), ((3, 7), 1), ((70, 20), 0), ((2, 5000), 1), ((5000, 17), 0)):
        graph = graph_of(shape, dim, dtype)
        x = numbers(shape, graph.inputs[0].spec.dtype.np)
        for launch in tools.launches(tools.prepare(graph, [x])).values():
            text = tools.ptx_of(launch.source, launch.name, architecture)
            assert_sound(text, launch.source)
            taken = tools.takes(text, architecture)
            assert taken.stack_bytes == taken.spilled_bytes == 0, launch.name


def test_compiled_functions_run_them_without_python(gpu: Any) -> None:
    def f(x: Any) -> Any:
        return x.argmax(1), x.cumsum(0), x.cumprod(1).sum(), x.cummax(1)[1], x.min(0)[1]

    x = tj.from_numpy(numbers((30, 21), np.float32))
    compiled = tj.compile(f, strict=True)
    for _ in range(2):
        found = compiled(x.cuda())
    assert not host_ops(compiled)
    for a, b in zip(found, f(x), strict=True):
        assert a.is_cuda
        np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), 1e-4, 1e-4)


def test_gradients_of_running_totals(gpu: Any) -> None:
    compiled = tj.compile(lambda x: (x.cumsum(0) * x.cumsum(1)).tanh().sum(), strict=True)
    values = tj.randn(9, 21)
    grads = []
    for there in ("cpu", "cuda", "cuda"):
        x = values.detach().to(there).requires_grad_()
        compiled(x).backward()
        grads.append(x.grad.cpu().numpy())
    np.testing.assert_allclose(grads[1], grads[0], 1e-4, 1e-5)
    np.testing.assert_allclose(grads[2], grads[0], 1e-4, 1e-5)
