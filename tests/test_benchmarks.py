"""The benchmarks run, measure what they say, and refuse to time a wrong result."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
MODULES = ("workloads", "jax_workloads", "backends", "worker", "processes", "measure", "report")
NAMES = (
    "black_scholes",
    "black_scholes_grad",
    "softmax",
    "layer_norm",
    "tiny_mlp",
    "tiny_mlp_grad",
    "branch",
    "digits_step",
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the benchmarks, which are scripts and no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield {name: importlib.import_module(name) for name in (*MODULES, "compare")}
    for name in (*MODULES, "compare"):
        sys.modules.pop(name, None)


def run(*arguments: str, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=FOLDER.parent,
    )


def test_every_case_is_written_for_every_namespace(bench: dict[str, ModuleType]):
    assert tuple(case.name for case in bench["workloads"].CASES) == NAMES
    assert set(bench["jax_workloads"].MAKERS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_results_are_the_eager_ones(bench: dict[str, ModuleType], name: str):
    backends, case = bench["backends"], bench["workloads"].find(name)
    calls = [backends.find(b).make(case, case.small) for b in ("tracejit-eager", "tracejit")]
    for _ in range(3):
        eager, compiled = (backends.arrays(call()) for call in calls)
        assert backends.difference(compiled, eager) < 1e-5


@pytest.mark.parametrize("name", ["tiny_mlp_grad", "digits_step"])
def test_training_calls_return_a_loss_and_every_gradient_or_weight(
    bench: dict[str, ModuleType], name: str
):
    case = bench["workloads"].find(name)
    results = bench["backends"].arrays(bench["backends"].find("tracejit").make(case, case.small)())
    assert [r.ndim for r in results] == [0, 2, 1, 2, 1]
    assert all(np.any(r != 0) for r in results)


def test_differences_are_found(bench: dict[str, ModuleType]):
    difference, x = bench["backends"].difference, np.array([100.0, -1.0])
    assert difference([x], [x]) == 0.0
    assert difference([x + 1.0], [x]) == pytest.approx(0.01)
    for other in (np.array([np.nan, 0.0]), np.zeros(3)):
        assert difference([other], [x]) == np.inf
    assert difference([x, x], [x]) == np.inf


def test_missing_packages_are_a_reason(bench: dict[str, ModuleType]):
    backend = bench["backends"].Backend(
        "x", "X", "no_such_package_anywhere", lambda case, size: list
    )
    assert backend.missing() == "no_such_package_anywhere is not installed"
    settings = bench["measure"].Settings(1, 0.01, 0.0, 1, 0.0)
    case = bench["workloads"].find("branch")
    row = bench["measure"].measure(case, 8, [backend], settings, Path("unused"))
    assert [f.median for f in row.figures] == [None]
    assert bench["report"].reasons([row])[0] == "x: no_such_package_anywhere is not installed"


def test_a_wrong_result_gets_no_figure(bench: dict[str, ModuleType]):
    measure = bench["measure"]
    good, wrong = measure.Figures("good"), measure.Figures("wrong")
    samples = [[np.ones(3)], [np.full(3, 1.5)]]
    assert measure._agreeing([(good, None), (wrong, None)], samples) == [(good, None)]
    assert wrong.reason == "its results differ by 5.0e-01"


def test_worker_answers_requests(bench: dict[str, ModuleType]):
    worker = bench["worker"].Worker(bench["backends"].find("tracejit"))
    requests = [
        {"do": "load"},
        {"do": "prepare", "case": "branch", "size": 8, "warm_up": 0.0},
        {"do": "time", "seconds": 0.01},
        {"do": "prepare", "case": "nothing", "size": 8, "warm_up": 0.0},
        {"do": "quit"},
        {"do": "load"},
    ]
    answers = io.StringIO()
    bench["worker"].serve(worker, io.StringIO("\n".join(map(json.dumps, requests))), answers)
    loaded, prepared, timed, failed = map(json.loads, answers.getvalue().splitlines())
    assert loaded["import"] > 0
    assert [len(x) for x in prepared["sample"]] == [1, 8]
    assert 0 < timed["min"] <= timed["median"]
    assert timed["batches"] >= 1
    assert failed == {"error": "KeyError: 'nothing'"}


def test_comparison_from_the_command_line(tmp_path: Path):
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    done = run(
        "benchmarks/compare.py",
        "--quick",
        *("--only", "tiny_mlp_grad"),
        *("--backend", "tracejit-eager", "--backend", "tracejit"),
        *("--json", str(figures), "--plot", str(picture)),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    (row,) = found["rows"]
    assert (row["case"], row["size"]) == ("tiny_mlp_grad", 3)
    assert [f["backend"] for f in row["figures"]] == ["tracejit-eager", "tracejit"]
    assert min(f["ratio"] for f in row["figures"]) == 1.0
    assert all(0 < f["minimum"] <= f["median"] and f["first"] > 0 for f in row["figures"])
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


def test_benchmarks_pass_as_tests(tmp_path: Path):
    """Untimed: every benchmark once, on small data."""
    done = run(
        "-m",
        "pytest",
        "benchmarks",
        "-q",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(tmp_path / "t"),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
