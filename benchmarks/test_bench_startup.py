"""Recording, compiling, loading and importing: what is paid once, per shape, per structure or per process."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import backends
import pytest
from cases import Case, Size, Space
from workloads import CASES

import tracejit as tj
from tracejit.codegen.llvm import compile_source

#: Of every kind of program one; their first extent can be any number.
NAMES = ("black_scholes_grad", "norm_softmax", "branch", "tiny_mlp_grad", "digits_adam")
CASE = pytest.mark.parametrize("case", [c for c in CASES if c.name in NAMES], ids=lambda c: c.name)
SCRIPT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import backends, workloads
case = workloads.find(sys.argv[1])
call = backends.find("tracejit").make(case)(case.main if sys.argv[2] == "main" else case.small)
call(), call()
from tracejit.codegen.llvm import COMPILATIONS
print(COMPILATIONS.count)
"""


@pytest.fixture
def extents(measuring: bool) -> Iterator[int]:
    """First extents that no call has seen."""
    return itertools.count(100 if measuring else 5)


def next_size(case: Case, extents: Iterator[int]) -> Size:
    """A size that no call has seen."""
    return (next(extents), *case.small[1:])


def functions_of(case: Case) -> list[Any]:
    """Every kernel function a case compiles."""
    wrapped: list[Any] = []

    def wrap(function: Any) -> Any:
        wrapped.append(tj.compile(function, strict=True))
        return wrapped[-1]

    call = case.make(Space(tj, wrap, fused=True))(case.small)
    for _ in range(3):
        call()
    return [f for c in wrapped for kernel in c.kernels for f in kernel.code.functions]


def run_once(
    benchmark: Any, action: Callable[..., Any], setup: Callable[[], Any], rounds: int
) -> Any:
    return benchmark.pedantic(action, setup=setup, rounds=rounds, iterations=1)


@pytest.mark.benchmark(group="record a new shape")
@CASE
def test_record(benchmark: Any, case: Case, extents: Iterator[int], measuring: bool) -> None:
    """The first call of a new shape: an eager run that is recorded."""

    def setup() -> Any:
        return (backends.find("tracejit").make(case)(next_size(case, extents)),), {}

    assert run_once(benchmark, lambda call: call(), setup, 15 if measuring else 1)


@pytest.mark.benchmark(group="compile a new shape of known structure")
@CASE
def test_known_kernels(benchmark: Any, case: Case, extents: Iterator[int], measuring: bool) -> None:
    """The second call of a new shape: passes and planning; its kernels exist."""
    functions_of(case)

    def setup() -> Any:
        call = backends.find("tracejit").make(case)(next_size(case, extents))
        call()
        return (call,), {}

    assert run_once(benchmark, lambda call: call(), setup, 15 if measuring else 1)


@pytest.mark.benchmark(group="machine code of all kernels of a case")
@CASE
def test_machine_code(benchmark: Any, case: Case, measuring: bool) -> None:
    """Kernel source to object code, nothing cached."""
    functions = functions_of(case)

    def build() -> int:
        return sum(len(compile_source(f.source, f.name)) for f in functions)

    assert benchmark.pedantic(build, rounds=3 if measuring else 1, iterations=1) > 0


def child(store: str, code: str, *arguments: str) -> str:
    """Run Python code in a fresh process with a kernel store of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "TRACEJIT_CACHE_DIR": store},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.benchmark(group="a whole process: two calls of the training step")
@pytest.mark.parametrize("store", ["cold", "warm"])
def test_process(benchmark: Any, store: str, tmp_path: Path, measuring: bool) -> None:
    """Start, import, record, compile or load, run; with an empty store and with a filled one."""
    size = "main" if measuring else "small"
    child(str(tmp_path), SCRIPT, "digits_adam", size)

    def setup() -> Any:
        place = str(tmp_path) if store == "warm" else tempfile.mkdtemp(dir=tmp_path)
        return (place, SCRIPT, "digits_adam", size), {}

    compiled = int(run_once(benchmark, child, setup, 5 if measuring else 1))
    assert (compiled == 0) == (store == "warm")


@pytest.mark.benchmark(group="import")
@pytest.mark.parametrize("code", ["pass", "import numpy", "import tracejit"])
def test_import(benchmark: Any, code: str, tmp_path: Path, measuring: bool) -> None:
    """A fresh interpreter that imports and ends."""
    rounds = 10 if measuring else 1
    arguments = (str(tmp_path), code)
    assert benchmark.pedantic(child, args=arguments, rounds=rounds, iterations=1) == ""
