"""The benchmarks run, measure what they say, and refuse to time a wrong result."""

from __future__ import annotations

import ast
import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from process_tools import python
from tracejit.generated import parse
from tracejit.profiling.floor import SIZES, Floor, asked

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = (
    *("cases", "pointwise", "networks", "transformer", "workloads", "backends", "worker"),
    *("processes", "measure", "report", "charts", "markdown", "peers", "branch"),
)
NAMES = (
    *("black_scholes", "black_scholes_grad", "branch", "norm_softmax", "norm_softmax_grad"),
    *("reduce_axis0", "reduce_axis1", "reduce_axis2", "cross_entropy_grad", "leapfrog", "ode"),
    *("nbody", "mandelbrot", "heat", "tiny_mlp", "tiny_mlp_grad", "mlp_sgd", "mlp_adam"),
    *("digits_adam", "conv_net", "lstm", "lstm_lengths", "adam_many", "deep_mlp_grad"),
    *("gpt_128", "gpt_384"),
)
#: Those whose plans take seconds to make.
LARGEST = {"gpt_384", "lstm_lengths"}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the benchmarks, which are scripts and no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        sys.modules.pop(name, None)


def run(*arguments: str, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    return python(*arguments, timeout=timeout, cwd=FOLDER.parent)


def jax_names() -> set[str]:
    """The keys of the tables of JAX's cases, read without importing JAX."""
    trees = [parse((FOLDER / f"jax_{m}.py").read_text()) for m in ("pointwise", "networks")]
    tables = [
        node.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "MAKERS"
    ]
    assert len(tables) == 2
    return {ast.literal_eval(key) for table in tables for key in table.keys}


def test_every_case_is_written_for_every_namespace(bench: dict[str, ModuleType]):
    assert tuple(case.name for case in bench["workloads"].CASES) == NAMES
    assert jax_names() == set(NAMES)


def marked(name: str) -> Any:
    """The largest ones take long; their smaller sisters run by default."""
    return pytest.param(name, marks=[pytest.mark.thorough] if name in LARGEST else [])


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", [marked(name) for name in NAMES])
def test_every_form_computes_what_double_precision_does(bench: dict[str, ModuleType], name: str):
    """In the third call, the first that is sure to run compiled; ``strict`` refuses eager ones."""
    backends, case = bench["backends"], bench["workloads"].find(name)
    names = ("tracejit-eager", "tracejit", *(("tracejit-step",) if case.step else ()))
    results = []
    for backend in ("reference", *names):
        call = backends.find(backend).make(case)(case.small)
        call(), call()
        results.append(backends.arrays(call()))
    for found in results[1:]:
        assert backends.difference(found, results[0]) <= case.precision
    assert case.traffic(case.main) > 0
    assert case.flops(case.main) > 0
    assert case.new != case.main


@pytest.mark.parametrize("name", ["tiny_mlp_grad", "digits_adam"])
@pytest.mark.parametrize("form", ["tracejit", "tracejit-step"])
def test_training_calls_return_a_loss_and_every_gradient_or_weight(
    bench: dict[str, ModuleType], name: str, form: str
):
    case = bench["workloads"].find(name)
    results = bench["backends"].arrays(bench["backends"].find(form).make(case)(case.small)())
    assert [r.ndim for r in results] == [0, 2, 1, 2, 1]
    assert all(np.any(r != 0) for r in results)


def test_differences_are_found(bench: dict[str, ModuleType]):
    difference, x = bench["backends"].difference, np.array([100.0, -1.0])
    assert difference([x], [x]) == 0.0
    assert difference([x + 1.0], [x]) == pytest.approx(0.01)
    for other in (np.array([np.nan, 0.0]), np.zeros(3)):
        assert difference([other], [x]) == np.inf
    assert difference([x, x], [x]) == np.inf


@pytest.fixture
def job(bench: dict[str, ModuleType]) -> Any:
    case = bench["workloads"].find("branch")
    return bench["measure"].Job(case, case.small, 1, False)


@pytest.fixture
def floor() -> Any:
    return Floor(1, (4e10, 3e10, 2e10, 1e10), 1e11, 5e10)


def test_missing_packages_are_a_reason(
    bench: dict[str, ModuleType], job: Any, floor: Any, tmp_path: Path, monkeypatch: Any
):
    """The process that lacks a package says so."""
    backends = bench["backends"]
    lacking = backends.Backend("jax", "X", "jax", lambda case: list)
    code = "import sys; sys.modules['jax'] = None; import runpy; sys.argv = sys.argv[1:]; "
    code += "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    python.chmod(0o755)
    settings = bench["measure"].Settings(1, 0.01, 0.0, 0.0, peer_python=str(python))
    known = {("branch", job.size): [np.zeros(())]}
    row = bench["measure"].measure(job, [lacking], settings, tmp_path, floor, known)
    assert [f.median for f in row.figures] == [None]
    assert bench["report"].reasons([row])[0] == "jax: jax is not installed"


def test_a_wrong_result_gets_no_figure(
    bench: dict[str, ModuleType], job: Any, floor: Any, tmp_path: Path
):
    settings = bench["measure"].Settings(1, 0.01, 0.0, 0.0)
    chosen = [bench["backends"].find("tracejit-eager")]
    known = {("branch", job.size): [np.full((1,), 1e3), np.zeros(8)]}
    row = bench["measure"].measure(job, chosen, settings, tmp_path, floor, known)
    assert row.figures[0].median is None
    assert "results differ by" in row.figures[0].reason


def test_the_floor_is_the_larger_of_traffic_and_work(floor: Any):
    assert floor.seconds(1e9, 0.0) == pytest.approx(0.1)
    assert floor.seconds(1000.0, 0.0) == pytest.approx(1000 / 4e10)
    assert floor.seconds(1000.0, 1e11) == pytest.approx(1.0)
    assert floor.seconds(1000.0, 1e11, double=True) == pytest.approx(2.0)


def test_the_floor_is_measured():
    found = asked(1, {**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert found.threads == 1
    assert len(found.bandwidths) == len(SIZES)
    assert min(*found.bandwidths, found.matmul32, found.matmul64) > 1e7


def test_steady_calls_are_found(bench: dict[str, ModuleType]):
    settled = bench["measure"]._settled
    assert settled([5.0, 2.0, 1.2, 1.0], 1.0) == pytest.approx(8.2)
    assert settled([5.0, 2.0], 1.0) is None


def test_steady_is_what_calls_just_after_the_first_ones_take(bench: dict[str, ModuleType]):
    measure = bench["measure"]
    starts = [5.0, 2.0, 0.9, 0.9]
    slower = measure.Figures("slower", starts=starts, rounds=[0.5], following=0.9)
    faster = measure.Figures("faster", starts=starts, rounds=[0.5, 0.8, 0.9], following=0.5)
    unmeasured = measure.Figures("unmeasured", starts=starts, rounds=[0.5])
    row = measure.Row("case", (1,), 2, True, False, None, 0.0)
    row.figures = [slower, faster, unmeasured]
    measure._conclude(row, set())
    assert [f.settled for f in row.figures] == [pytest.approx(7.9), pytest.approx(7.9), None]
    assert [f.median for f in row.figures] == [0.5, 0.8, 0.5]


def test_tables_of_a_run_in_markdown(bench: dict[str, ModuleType], tmp_path: Path, capsys: Any):
    measure = bench["measure"]
    rows = [measure.Row("branch", (8,), threads, True, True, None, 2e-6) for threads in (1, 2)]
    for row in rows:
        row.figures = [
            measure.Figures("tracejit", median=4e-6 * row.threads, starts=[0.5, 1.0], settled=1.5),
            measure.Figures("tracejit-step", median=3e-6, resident=1 << 20, peak=3 << 20),
            measure.Figures("torch-eager", median=9e-6),
            measure.Figures("jax", reason="jax is not installed"),
        ]
    settings = measure.Settings(1, 0.01, 0.0, 0.0)
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(bench["report"].as_json(rows, settings)))
    assert bench["markdown"].main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| `branch` 8 | 8.00 us | 3.00 us | 9.00 us | - | - | 3.00 | 1.5 |"
    starts = "500 ms | 1.50 s | - | - | - | - | - | - | - | - | 2 | - | -"
    assert lines[6] == f"| `branch` 8 | {starts} |"
    assert len(lines) == 7


def test_the_branch_is_timed_on_both_sides(bench: dict[str, ModuleType]):
    branch = bench["branch"]
    timed = branch.like_pytorch(tj, tj.compile(branch.branch), "tracejit compiled")
    ahead, behind = [[2.0, 4.0, 6.0], [2.0] * 3], [[-3.0, -4.0, -5.0], [1.0] * 3]
    assert [call().tolist() for call in timed.values()] == [*ahead, *behind]
    found = branch.medians(timed, 1, 2)
    assert set(found) == set(timed)
    assert min(found.values()) > 0


def test_a_run_ends_within_its_limit(bench: dict[str, ModuleType], capsys: Any):
    assert bench["peers"].main(["--quick", "--only", "branch", "--time-limit", "0.01"]) == 0
    assert "not reached within the time limit: branch 8" in capsys.readouterr().out


def test_the_programme_begins_with_what_tells_most(bench: dict[str, ModuleType]):
    peers = bench["peers"]
    options = peers.parser().parse_args(
        ["--sweep", "--threads", "2", "--threads", "1", "--only", "branch", "--only", "lstm"]
    )
    jobs = [(j.case.name, j.size, j.threads, j.full) for j in peers.programme(options)]
    assert jobs[:2] == [("branch", (8,), 2, True), ("lstm", (50,), 2, True)]
    assert ("branch", (1_000_000,), 2, False) in jobs[2:-2]
    assert jobs[-2:] == [("branch", (8,), 1, False), ("lstm", (50,), 1, False)]


def test_worker_answers_requests(bench: dict[str, ModuleType]):
    worker = bench["worker"].Worker(bench["backends"].find("tracejit"))
    requests = [
        {"do": "load"},
        {"do": "prepare", "case": "branch", "size": [8]},
        {"do": "settle", "seconds": 0.0},
        {"do": "time", "seconds": 0.01},
        {"do": "peak"},
        {"do": "resize", "size": [9]},
        {"do": "prepare", "case": "nothing", "size": [8]},
        {"do": "quit"},
        {"do": "load"},
    ]
    answers = io.StringIO()
    bench["worker"].serve(worker, io.StringIO("\n".join(map(json.dumps, requests))), answers)
    found = list(map(json.loads, answers.getvalue().splitlines()))
    loaded, prepared, settled, timed, peak, resized, failed = found
    assert loaded["import"] > 0
    assert [len(x) for x in prepared["sample"]] == [1, 8]
    assert len(prepared["starts"]) >= 3
    assert settled["batch"] >= 1
    assert settled["median"] > 0
    assert 0 < timed["min"] <= timed["median"]
    assert timed["batches"] >= 1
    assert peak["peak"] is None or peak["peak"] > 1 << 20
    assert [len(x) for x in resized["sample"]] == [1, 9]
    assert resized["kernels"] == 0
    assert failed == {"error": "KeyError: 'nothing'"}


@pytest.mark.thorough
def test_comparison_from_the_command_line(tmp_path: Path):
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    done = run(
        "benchmarks/peers.py",
        *("--quick", "--only", "tiny_mlp_grad", "--threads", "1"),
        *("--backend", "tracejit-eager", "--backend", "tracejit"),
        *("--json", str(figures), "--plot", str(picture)),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    (row,) = found["rows"]
    assert (row["case"], row["size"], row["threads"]) == ("tiny_mlp_grad", [3], 1)
    assert [f["backend"] for f in row["figures"]] == ["tracejit-eager", "tracejit"]
    assert all(0 < f["minimum"] <= f["median"] and f["starts"][0] > 0 for f in row["figures"])
    assert all(f["difference"] < 1e-5 for f in row["figures"])
    assert found["floors"][0]["matmul32"] > 0
    assert "steady state" in done.stdout
    assert "tiny_mlp_grad 3" in done.stdout
    assert picture.stat().st_size > 1000


def test_a_worker_that_dies_is_a_reason(bench: dict[str, ModuleType], tmp_path: Path):
    processes = bench["processes"]
    with (
        processes.Process("no-such-backend", {}, tmp_path / "log") as process,
        pytest.raises(processes.WorkerError, match="KeyError"),
    ):
        process.ask("load", 30.0)


@pytest.mark.thorough
def test_lengths_are_timed():
    done = run("benchmarks/lengths.py", "--calls", "5", "--backend", "tracejit")
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout.count("| tracejit |") == 5


@pytest.mark.thorough
def test_benchmarks_pass_as_tests(tmp_path: Path):
    """Untimed: every benchmark once, on small data."""
    done = run(
        "-m",
        "pytest",
        "benchmarks",
        "-q",
        "-k",
        "not test_steady_state or branch",  # what the others compute is tested above
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(tmp_path / "t"),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
