"""Which kernels are printed: their forms, accesses and launches, and that sizes do not change the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import cuda_programs as programs
import graph_tools as tools
import numpy as np
import pytest
from ptx_text import opcodes

from tracejit.codegen.cuda.launch import Launch
from tracejit.ir import parse
from tracejit.ir.graph import Graph

Array = Any


def zeros(graph: Graph) -> list[Array]:
    """Inputs that take no memory."""
    return [
        np.lib.stride_tricks.as_strided(
            np.zeros(1, v.spec.dtype.np),
            v.spec.shape,
            tuple(s * v.spec.dtype.itemsize for s in v.spec.contiguous_strides()),
        )
        for v in graph.inputs
    ]


def printed(text: str) -> list[tuple[Launch, ...]]:
    """The steps of all kernels of a graph."""
    graph = parse(text)
    prepared = tools.prepare(graph, zeros(graph))
    schedule = prepared.schedule
    codes = [tools.device_code(prepared, g, schedule.outputs[g]) for g in schedule.groups]
    return [step for code in codes for step in code.steps]


def pointwise(shape: str, dtype: str = "f32") -> list[tuple[Launch, ...]]:
    return printed(
        f"graph f(x: {dtype}[{shape}], y: {dtype}[{shape}]) {{ %0: {dtype}[{shape}] = mul(x, y) return %0 }}"
    )


def reduced(shape: str, dims: str, result: str, dtype: str = "f32") -> list[tuple[Launch, ...]]:
    return printed(
        f"graph f(x: {dtype}[{shape}]) {{ %0: {dtype}[{shape}] = mul(x, x) "
        f"%1: {dtype}[{result}] = sum(%0, dims={dims}, keepdim=False) return %1 }}"
    )


def body(launch: Launch, architecture: str = "sm_90") -> list[str]:
    return opcodes(tools.ptx_of(launch.source, launch.name, architecture))


#: Accesses of 4, 8 or twice 16 bytes.
ACCESSES = {
    "i8": ("b32", "v4.b8"),
    "i16": ("v2.b32", "v4.b16"),
    "f16": ("v2.b32", "v4.b16"),
    "bf16": ("v2.b32", "v4.b16"),
    "f32": ("v4.b32",),
    "i64": ("v2.b64",),
    "f64": ("v2.b64",),
}


@pytest.mark.parametrize("dtype", ACCESSES)
def test_dense_operands_are_accessed_four_at_a_time(dtype: str) -> None:
    (step,) = pointwise("1000", dtype)
    vector, scalar = step
    for kind in ("ld.global.nc.", "st.global."):
        found = {re.sub(r"[fsu](\d+)$", r"b\1", opcode) for opcode in body(vector)}
        assert {kind + access for access in ACCESSES[dtype]} & found
    itemsize = {"f64": 16, "i64": 16, "f32": 16}.get(dtype, 4 if dtype == "i8" else 8)
    assert {a.multiple for a in vector.aligned} == {itemsize}
    assert len(vector.aligned) == 3
    assert not scalar.aligned
    assert not [o for o in body(scalar) if ".v" in o]


def test_reads_of_memory_that_is_only_read_go_through_the_read_only_path() -> None:
    ((vector, scalar),) = pointwise("1000")
    for launch in (vector, scalar):
        loads = [o for o in body(launch) if o.startswith("ld.global")]
        assert loads
        assert all(".nc" in o for o in loads)


def test_grids() -> None:
    assert [launch.grid for launch in pointwise("1024")[0]] == [1, 4]
    assert [launch.grid for launch in pointwise("0, 5")[0]] == [0, 0]
    assert [launch.grid for launch in pointwise("1073741824")[0]] == [8192, 8192]
    (rows,) = reduced("64, 100", "(1,)", "64")
    assert {launch.grid for launch in rows} == {8}
    (long,) = reduced("64, 5000", "(1,)", "64")
    assert {launch.grid for launch in long} == {64}
    first, second = reduced("4096, 4096", "(0, 1)", "")
    assert {launch.grid for launch in first} == {1024}
    assert [launch.grid for launch in second] == [1]


def test_rows_of_a_warp_use_no_shared_memory() -> None:
    (step,) = reduced("64, 1024", "(1,)", "64")
    for launch in step:
        found = body(launch)
        assert any(o.startswith("shfl.sync.bfly") for o in found)
        assert not any(o.startswith("bar") for o in found)
        assert ".shared" not in tools.ptx_of(launch.source, launch.name, "sm_90")


def test_rows_of_a_block_meet_once_per_reduction() -> None:
    (step,) = reduced("64, 1028", "(1,)", "64")
    for launch in step:
        found = body(launch)
        assert sum(o.startswith("shfl.sync.bfly") for o in found) == 8
        assert sum(o.startswith("bar") for o in found) == 2  # the second keeps rows apart


def test_columns_read_whole_lines() -> None:
    (step,) = reduced("64, 100", "(0,)", "100")
    (launch,) = step
    assert launch.grid == 4
    assert "column = tile * 32 + lane" in launch.source


def test_tall_columns_are_split() -> None:
    first, second = reduced("100000, 64", "(0,)", "64")
    assert first[0].grid == 1024
    assert second[0].grid == 1
    assert "split" in first[0].source
    wide = reduced("100000, 64000", "(0,)", "64000")
    assert len(wide) == 1


@pytest.mark.parametrize(
    ("shape", "dims", "result", "access"),
    [("100000, 64", "(0,)", "64", "b32"), ("64, 4096", "(1,)", "64", "v4.b32")],
    ids=["columns", "long rows"],
)
def test_reductions_ask_for_several_rounds_at_once(
    shape: str, dims: str, result: str, access: str
) -> None:
    """A thread that waits for one element after the other leaves most of the memory's bandwidth unused."""
    launch = reduced(shape, dims, result)[0][0]
    text = tools.ptx_of(launch.source, launch.name, "sm_90")
    pieces = re.split(r"^\$|\bbra\b", text, flags=re.M)
    assert max(piece.count(f"ld.global.nc.{access}") for piece in pieces) == 4


def test_blocks_of_a_fixed_number_run_all_at_once() -> None:
    """1,024 blocks on 132 multiprocessors: each has to take eight at a time, or some are left for later."""
    for launches in (
        reduced("4096, 4096", "(0, 1)", "")[0],
        reduced("100000, 64", "(0,)", "64")[0],
    ):
        for launch in launches:
            assert ".minnctapersm 8" in tools.ptx_of(launch.source, launch.name, "sm_90")


@pytest.mark.thorough
def test_nothing_is_summed_by_atomics() -> None:
    for name, graph in programs.all_graphs():
        for launch in tools.launches(tools.prepare(graph, programs.inputs_of(graph))).values():
            assert not [o for o in body(launch) if o.startswith(("atom", "red"))], name


def texts(graph: str, sizes: Sequence[dict[str, int]]) -> set[tuple[str, ...]]:
    def strip(source: str) -> str:
        return "\n".join(line.split("  #")[0] for line in source.splitlines() if "# [" not in line)

    return {
        tuple(strip(launch.source) for step in printed(graph % size) for launch in step)
        for size in sizes
    }


def test_kernels_serve_every_size() -> None:
    chain = "graph f(x: f32[%(n)d]) { %%0: f32[%(n)d] = exp(x) return %%0 }"
    assert len(texts(chain, [{"n": n} for n in (2, 3, 4, 100, 1023, 10**6)])) == 1
    bias = "graph f(x: f32[%(n)d, 7], b: f32[7]) { %%0: f32[%(n)d, 7] = add(x, b) return %%0 }"
    assert len(texts(bias, [{"n": n} for n in (2, 3, 8, 1000)])) == 1
    softmax = (
        "graph f(x: f32[%(n)d, %(m)d]) { %%0: f32[%(n)d, 1] = amax(x, dims=(1,), keepdim=True) "
        "%%1: f32[%(n)d, %(m)d] = sub(x, %%0) return %%1 }"
    )
    assert len(texts(softmax, [{"n": n, "m": 100} for n in (2, 3, 64, 10**6)])) == 1
    assert len(texts(softmax, [{"n": 5, "m": m} for m in (1100, 2000, 4096, 10**6)])) == 1


def test_float32_kernels_take_float32_numbers() -> None:
    ((vector, scalar),) = printed("graph f(x: f32[8]) { %0: f32[8] = mul(x, 0.1) return %0 }")
    for launch in (vector, scalar):
        assert 'c0: "f32"' in launch.source
        assert not [o for o in body(launch) if "f64" in o]


def test_indices_are_divided_by_multiplication() -> None:
    ((launch,),) = printed(
        "graph f(x: f32[30, 7], b: f32[7]) { %0: f32[30, 7] = add(x, b) return %0 }"
    )
    found = body(launch)
    assert not [o for o in found if o.startswith(("div", "rem"))]
    assert [o for o in found if o.startswith("mul.hi")] or [o for o in found if "mul.wide.u32" in o]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["", "1", "0", "3, 0", "0, 3", "1, 1"])
@pytest.mark.parametrize("op", ["sum", "prod", "any_true"])
def test_empty_and_single(shape: str, op: str) -> None:
    rank = len(shape.split(",")) if shape else 0
    dims = "(0,)" if rank == 1 else "(0, 1)" if rank == 2 else "()"
    last = f"({rank - 1},)"
    result = "bool" if op == "any_true" else "f32"
    kept = ", ".join(shape.split(", ")[:-1])
    lines = [f"%0: f32[{shape}] = mul(x, 2.0)"]
    outputs = ["%0"]
    if rank:
        lines.append(f"%1: {result}[] = {op}(%0, dims={dims}, keepdim=False)")
        lines.append(f"%2: {result}[{kept}] = {op}(%0, dims={last}, keepdim=False)")
        outputs += ["%1", "%2"]
    graph = parse(f"graph f(x: f32[{shape}]) {{ {' '.join(lines)} return {', '.join(outputs)} }}")
    arrays = [np.full(graph.inputs[0].spec.shape, 1.5, np.float32)]
    prepared = tools.prepare(graph, arrays)
    host = tools.Run(prepared).execute(tools.on_host)
    for way in (tools.simulated(), tools.as_ptx("sm_90")):
        found = tools.Run(prepared).execute(tools.device_way(way))
        assert [a.tolist() for a in found] == [a.tolist() for a in host]
