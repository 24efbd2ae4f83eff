"""Printed kernels: one text run as plain Python, through Numba and as machine code; how many, and how they compile."""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import compiled as machine_code
from tracejit.codegen import llvm
from tracejit.codegen.kernel import Function, Number, Pointer
from tracejit.ir.graph import Value
from tracejit.nn import functional as F
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.plan.plan import Plan
from tracejit.runtime.threads import get_num_threads, set_num_threads

STORAGE = {"u8": np.uint8, "u16": np.uint16}


def chain(x: Any) -> Any:
    return tj.tanh(x * 2 + 0.5) - x.relu()


def mean_loss(x: Any) -> Any:
    return ((x * 2 - 1) ** 2).mean()


def layer_norm(x: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],))


def columns(x: Any) -> Any:
    return (x * 2).sum(0) + 1


def masked(x: Any) -> Any:
    return tj.where(x > 0.25, x, -x).to(tj.float16)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "chain": chain,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": layer_norm,
    "mean_loss": mean_loss,
    "columns": columns,
    "masked": masked,
    "transposed": lambda x: x.T * 2 + x.T.exp(),
    "row_extremes": lambda x: x.amax(-1) - x.amin(-1),
    "bfloat16": lambda x: x.to(tj.bfloat16) * 3 + 1,
    "integers": lambda x: (x * 10).to(tj.int32) * 3 - 1,
}


def values(*shape: int) -> np.ndarray:
    """Sixteenths of small integers: their sums are exact in any order."""
    return (np.random.default_rng(0).integers(-40, 40, shape) / 16).astype(np.float32)


def plan_of(function: Callable[..., Any], *tensors: Any) -> Plan:
    compiled = tj.compile(function, strict=True)
    compiled(*tensors)
    compiled(*tensors)
    (entries,) = compiled.entries.values()
    (program,) = entries[0].programs()
    return program.plan


def functions(plan: Plan) -> list[Function]:
    return [f for kernel in plan.kernels for f in kernel.code.functions]


def execute(
    plan: Plan, make: Callable[[str, str], Any], arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Run a plan's kernels in order with functions made by ``make``; returns the outputs."""
    memory: dict[Value, np.ndarray] = dict(zip(plan.graph.inputs, arrays, strict=True))
    for kernel in plan.kernels:
        scratch: dict[str, np.ndarray] = {}
        for function in kernel.code.functions:
            arguments = _arguments(function, memory, scratch)
            assert make(function.source, function.name)(*arguments, 0, function.extent, 0) == 0
    return [memory[v] for v in plan.graph.outputs]


def _arguments(
    function: Function, memory: dict[Value, np.ndarray], scratch: dict[str, np.ndarray]
) -> list[Any]:
    found: list[Any] = []
    for parameter, kind in zip(function.parameters, _kinds(function), strict=False):
        if isinstance(parameter, Number):
            wide = struct.unpack(
                "<d" if kind == "f64" else "<q", struct.pack("<q", parameter.bits)
            )[0]
            found.append(np.float64(wide) if kind == "f64" else int(wide))
        elif isinstance(parameter, Pointer):
            value = parameter.value
            if value not in memory:
                memory[value] = np.zeros(value.spec.shape, value.spec.dtype.np)
            found.append(
                _elements(memory[value], kind)[parameter.offset // value.spec.dtype.itemsize :]
            )
        else:
            default = np.zeros(parameter.count, parameter.dtype.np)
            found.append(_elements(scratch.setdefault(parameter.key, default), kind))
    return found


def _kinds(function: Function) -> list[str]:
    (definition,) = ast.parse(function.source).body
    assert isinstance(definition, ast.FunctionDef)
    return [
        ast.literal_eval(a.annotation).rstrip("*") for a in definition.args.args if a.annotation
    ]


def _elements(array: np.ndarray, kind: str) -> np.ndarray:
    flat = array.reshape(-1)
    return flat.view(STORAGE[kind]) if kind in STORAGE else flat


WAYS: Mapping[str, Callable[[str, str], Any]] = {
    "python": llvm.as_python,
    "numba": llvm.compile_with_numba,
    "machine": machine_code,
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_run_three_ways(name: str) -> None:
    x = values(5, 24)
    plan = plan_of(PROGRAMS[name], tj.from_numpy(x))
    results = {way: execute(plan, make, [x.copy()]) for way, make in WAYS.items()}
    eager = PROGRAMS[name](tj.from_numpy(x)).numpy()
    for way, (found,) in results.items():
        assert found.dtype == eager.dtype, way
        exact = name in (
            "chain",
            "columns",
            "masked",
            "transposed",
            "row_extremes",
            "bfloat16",
            "integers",
            "mean_loss",
        )
        np.testing.assert_allclose(
            found.astype(np.float64),
            results["python"][0].astype(np.float64),
            rtol=0 if exact else 3e-6,
            atol=0 if exact else 1e-6,
        )
        np.testing.assert_allclose(
            found.astype(np.float64), eager.astype(np.float64), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize(
    "name", ["chain", "softmax", "log_softmax", "layer_norm", "mean_loss", "columns", "masked"]
)
def test_one_kernel_each(name: str) -> None:
    plan = plan_of(PROGRAMS[name], tj.from_numpy(values(6, 20)))
    assert len(plan.kernels) == 1
    assert plan.hosts == 0
    assert plan.launches == (2 if name in ("mean_loss", "columns") else 1)


def test_cross_entropy_is_one_kernel() -> None:
    target = tj.tensor([1, 0, 3, 2, 2, 1])
    plan = plan_of(lambda x, t: F.cross_entropy(x, t), tj.from_numpy(values(6, 20)), target)
    assert len(plan.kernels) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_vectorised_and_call_nothing(name: str) -> None:
    """Packed arithmetic in the loop, and no function of the C library."""
    for function in functions(plan_of(PROGRAMS[name], tj.from_numpy(values(8, 64)))):
        text = llvm.assembly(function.source, function.name)
        called = set(re.findall(r"call\w*\s+\*?(\S+)", text)) - {f"{function.name}.body"}
        assert not {c for c in called if not c.startswith((function.name, "mem"))}, called
        if not function.name.endswith("_combine"):
            assert re.search(
                r"v?(add|mul|sub|max|min|cvt|pack|and)\w*(ps|pd|phx?|dq|d|w)\b.*[xyz]mm", text
            ), text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_do_not_depend_on_threads(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((700, 300)).astype(np.float32)
    before = get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            compiled = tj.compile(PROGRAMS[name], strict=True, dynamic=False)
            compiled(tj.from_numpy(x))
            results.append(compiled(tj.from_numpy(x)).numpy().tobytes())
    finally:
        set_num_threads(before)
    assert results[0] == results[1] == results[2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_serve_every_size(name: str) -> None:
    """Twenty batch sizes from one to 4096: the second and later sizes make no machine code."""
    compiled = tj.compile(PROGRAMS[name], strict=True, dynamic=False)
    sizes = [3, 1, 2, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 128, 255, 256, 512, 1000, 2048, 4096]
    if name == "columns":
        sizes.remove(1)  # a sum of one element is no sum, and has a kernel of its own
    made = None
    for size in sizes:
        x = tj.from_numpy(values(size, 12))
        compiled(x)
        result = compiled(x)
        np.testing.assert_allclose(
            result.numpy().astype(np.float64),
            PROGRAMS[name](x).numpy().astype(np.float64),
            rtol=1e-5,
            atol=1e-5,
        )
        if made is None:
            made = kernels.COUNTS.compiled + kernels.COUNTS.loaded
    assert kernels.COUNTS.compiled + kernels.COUNTS.loaded == made
    assert compiled.stats.compiled_calls == len(sizes)
