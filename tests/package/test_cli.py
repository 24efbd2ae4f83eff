"""The command line: what each command shows, exit codes, and messages instead of tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest

import tracejit as tj
from process_tools import python
from tracejit.cli import bench, main, target, timing
from tracejit.testing.workloads import WORKLOADS, Workload, runner

SOURCE = Path(__file__).resolve().parents[2] / "src"

USER_FILE = """
import tracejit as tj

def scaled(x, factor):
    return (x * factor).tanh().sum()

def plain():
    return tj.ones(3).exp() * 2

def fails(x):
    raise ValueError("no luck today")

class Thing:
    pass

number = 3
example_inputs = {"scaled": (tj.ones(2, 3, requires_grad=True), 2.0)}
"""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: object) -> Outcome:
        code = main([str(a) for a in arguments])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def user_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file of a user; its name is unique, because imported modules are remembered."""
    path = tmp_path / f"user_{request.node.originalname}.py"
    path.write_text(USER_FILE)
    return path


def assert_mistake(outcome: Outcome, *words: str, code: int = 1) -> None:
    """The command failed with a message, not a traceback, and printed no result."""
    assert outcome.code == code
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err


def python_m(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python("-W", "error", "-m", "tracejit", *arguments, PYTHONPATH=str(SOURCE))


# -- the group -----------------------------------------------------------------------------------


def test_help_lists_every_command(cli: Cli):
    outcome = cli("--help")
    assert outcome.code == 0
    assert all(
        name in outcome.out for name in ("demo", "inspect", "profile", "bench", "info", "cache")
    )


@pytest.mark.parametrize("command", ["demo", "inspect", "profile", "bench", "info", "cache"])
def test_every_command_has_help(cli: Cli, command: str):
    outcome = cli(command, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"Usage: tracejit {command}")


def test_version(cli: Cli):
    outcome = cli("--version")
    assert outcome.code == 0
    assert outcome.out.split()[0] == "tracejit"
    assert len(outcome.out.split()) == 2


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--epochs", "0"], ["bench", "--no"]])
def test_usage_mistakes_exit_with_2(cli: Cli, arguments: list[str]):
    assert_mistake(cli(*arguments), "Usage: tracejit", code=2)


def test_python_m_runs_the_command_line():
    done = python_m("--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tracejit ")
    assert python_m("cache", "nonsense").returncode == 2


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from tracejit.cli import main; main(['--help']); "
        "print(*sorted({m.split('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    loaded = set(python("-c", code, PYTHONPATH=str(SOURCE)).stderr.split())
    assert "tracejit" in loaded
    assert not loaded & {"numba", "llvmlite", "scipy", "sklearn", "matplotlib", "rich"}


def test_interrupt(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench, "measure", Mock(side_effect=KeyboardInterrupt))
    outcome = cli("bench", "--quick")
    assert outcome.code == 130
    assert "Traceback" not in outcome.err


# -- info and cache ------------------------------------------------------------------------------


def test_info(cli: Cli):
    found = json.loads(cli("info", "--json").out)
    assert found["numpy"] == np.__version__
    assert int(found["threads"]) >= 1
    assert {"processor", "BLAS", "cache", "python"} <= set(found)
    text = cli("info").out
    assert all(name in text for name in found)


# -- inspect -------------------------------------------------------------------------------------


def test_inspect_with_arguments(cli: Cli, user_file: Path):
    outcome = cli("inspect", f"{user_file}:scaled", "--args", "f32[4,5]", "--args", "0.5")
    assert outcome.code == 0
    for heading in ("graphs", "kernels", "program", "explain"):
        assert f"\n{heading}\n" in outcome.out
    assert "graph scaled(x: f32[4, 5]" in outcome.out
    assert "tanh_f32" in outcome.out
    assert f"{user_file.name}:5" in outcome.out


def test_inspect_backward(cli: Cli, user_file: Path):
    def count(*options: str) -> int:
        arguments = ("--args", "f32[4,5]", "--args", "0.5", "--show", "graphs", *options)
        return cli("inspect", f"{user_file}:scaled", *arguments).out.count("graph scaled")

    assert (count(), count("--grad")) == (1, 2)


def test_inspect_uses_example_inputs(cli: Cli, user_file: Path):
    outcome = cli("inspect", f"{user_file}:scaled", "--show", "graphs")
    assert "f32[2, 3]" in outcome.out
    assert "\nkernels\n" not in outcome.out


def test_inspect_without_parameters(cli: Cli, user_file: Path):
    assert "exp" in cli("inspect", f"{user_file}:plain", "--show", "graphs").out


def test_inspect_a_module_by_name(cli: Cli, user_file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(user_file.parent)
    outcome = cli("inspect", f"{user_file.stem}:scaled", "--show", "explain")
    assert outcome.code == 0
    assert "f32[2, 3]" in outcome.out


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("missing", [], ["has no 'missing'", "scaled"]),
        ("Thing", [], ["is a class"]),
        ("number", [], ["int", "cannot be called"]),
        ("fails", [], ["needs arguments", "--args"]),
        ("fails", ["--args", "f32[2]"], ["ValueError: no luck today"]),
        ("fails", ["--args", "q7[2]"], ["unknown dtype", "f32"]),
        ("fails", ["--args", "f32[2,,3]"], ["shape", "f32[32,8]"]),
        ("fails", ["--args", "import os"], ["cannot read the argument"]),
    ],
)
def test_inspect_mistakes(
    cli: Cli, user_file: Path, name: str, arguments: list[str], words: list[str]
):
    assert_mistake(cli("inspect", f"{user_file}:{name}", *arguments), *words)


def test_inspect_targets_that_are_not_there(cli: Cli, tmp_path: Path):
    assert_mistake(cli("inspect", "no_colon"), "MODULE:FUNCTION")
    assert_mistake(cli("inspect", f"{tmp_path / 'none.py'}:f"), "there is no file")
    assert_mistake(cli("inspect", "no.such.module:f"), "cannot import")
    broken = tmp_path / "user_broken.py"
    broken.write_text("1 / 0")
    assert_mistake(cli("inspect", f"{broken}:f"), "ZeroDivisionError")
    broken.write_text("import sys; sys.exit(3)")
    assert_mistake(cli("inspect", f"{broken}:f"), "sys.exit(3)")


def test_argument_specifications():
    specs = ["f64[2, 3]", "i64[]", "bool[0]", "bf16[2]", "-3", "(1, 2)", "True"]
    *tensors, number, pair, flag = target.parse_arguments(specs, grad=True)
    assert [str(t.dtype).rpartition(".")[2] for t in tensors] == [
        "float64",
        "int64",
        "bool",
        "bfloat16",
    ]
    assert [tuple(t.shape) for t in tensors] == [(2, 3), (), (0,), (2,)]
    assert [t.requires_grad for t in tensors] == [True, False, False, True]
    assert (number, pair, flag) == (-3, (1, 2), True)


# -- bench ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_workload_gives_the_same_eager_and_compiled(workload: Workload):
    size = min(workload.quick, 64)

    def results(wrap: Any) -> list[np.ndarray]:
        function, args = workload.make(tj, size)
        call = runner(workload, tj, wrap(function), args)
        tensors = [*(call() for _ in range(3)), *(a.grad for a in args if a.grad is not None)]
        return [t.detach().numpy() for t in tensors]

    made: list[Any] = []

    def compiled(function: Any) -> Any:
        made.append(tj.compile(function, strict=True))
        return made[0]

    for want, have in zip(results(lambda f: f), results(compiled), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    assert made[0].stats.compiled_calls == 2


def test_workloads_take_gradients_as_their_mode_says():
    for workload in WORKLOADS:
        function, args = workload.make(tj, 4)
        result = runner(workload, tj, function, args)()
        graded = [a for a in args if a.grad is not None]
        assert (workload.mode == "forward") == (not graded) == (not result.requires_grad)


def test_bench_writes_its_figures(cli: Cli, tmp_path: Path):
    pytest.importorskip("matplotlib")
    figures, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    options = ("--only", "branch", "--only", "tiny_mlp_grad", "--json", figures, "--plot", picture)
    outcome = cli("bench", "--quick", *options)
    assert outcome.code == 0
    assert "branch" in outcome.out
    assert "softmax" not in outcome.out
    content = json.loads(figures.read_text())
    assert [row["workload"] for row in content["rows"]] == ["tiny_mlp_grad", "branch"]
    for row in content["rows"]:
        assert row["ratio"] == pytest.approx(row["eager"] / row["compiled"])
        assert row["compiled_calls"] >= 5
        assert row["kernels"] >= 1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_bench_refuses_wrong_results(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """A compiler that is wrong must not get a time."""

    class Wrong:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __call__(self, *args: Any) -> Any:
            return self.function(*args) * 1.001

    monkeypatch.setattr(tj, "compile", Wrong)
    assert_mistake(cli("bench", "--quick", "--only", "branch"), "differ")


@pytest.mark.parametrize(("load", "told"), [(0.0, False), (1e6, True)])
def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch, load: float, told: bool):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load), raising=False)
    assert ("not reliable" in (timing.busy() or "")) == told


def test_bench_with_an_unwritable_file(cli: Cli, tmp_path: Path):
    outcome = cli("bench", "--quick", "--only", "tiny_mlp", "--json", tmp_path / "no" / "x.json")
    assert outcome.code == 1
    assert "cannot write" in outcome.err


# -- demo ----------------------------------------------------------------------------------------


def test_demo_trains_and_agrees(cli: Cli, tmp_path: Path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "demo.png"
    outcome = cli("demo", "--epochs", "6", "--hidden", "32", "--plot", picture, "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["steps"] == 6 * 23
    assert min(found["accuracy"].values()) > 0.9
    assert found["loss_difference"] < 1e-4
    assert found["ratio"] > 0
    assert "matmul" in found["graph"]
    assert "erf" in found["graph"]
    assert "def " in found["kernel"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_shows_everything(cli: Cli):
    pytest.importorskip("sklearn")
    outcome = cli("demo", "--epochs", "1", "--hidden", "8", "--no-plot")
    assert outcome.code == 0
    for words in ("test accuracy", "time per step", "loss difference", "first compiled call"):
        assert words in outcome.out
    assert "graph objective(" in outcome.out


def test_demo_is_reproducible(cli: Cli):
    pytest.importorskip("sklearn")

    def accuracies(seed: int) -> dict[str, float]:
        text = cli("demo", "--epochs", 1, "--seed", seed, "--no-plot", "--json").out
        return json.loads(text)["accuracy"]

    assert accuracies(3) == accuracies(3)


@pytest.mark.parametrize(
    ("package", "distribution"), [("sklearn", "scikit-learn"), ("matplotlib", "matplotlib")]
)
def test_demo_says_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, package: str, distribution: str
):
    for name in [n for n in sys.modules if n.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Missing(package), *sys.meta_path])
    assert_mistake(cli("demo", "--epochs", "1"), f"pip install {distribution}")


class _Missing:
    """A finder for which one package is not installed."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
