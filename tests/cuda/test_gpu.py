"""What only a GPU can show; and that the command which runs it all works, on the stand-in where there is none."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tracejit as tj
from tracejit.cuda import arrays
from tracejit.testing import gpu as report
from tracejit.testing import gpu_peers, gpu_process, gpu_timing
from tracejit.testing.gpu_checks import checks
from tracejit.testing.gpu_process import Task, run_units
from tracejit.testing.gpu_sections import SECTIONS, Options, units_of
from tracejit.testing.workloads import WORKLOADS

needs_gpu = pytest.mark.skipif(not tj.cuda.is_available(), reason=tj.cuda.why_unavailable() or "-")


def _kind(name: str) -> str:
    """Checks of an op are one test for all dtypes."""
    return " ".join(name.split()[:2])


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", dict.fromkeys(_kind(name) for name, _ in checks()))
def test_on_a_gpu(kind: str) -> None:
    for name, check in checks():
        if _kind(name) == kind:
            check()  # it raises what is wrong


def _dry(name: str) -> Any:
    """A check without a GPU: some take long there, and ops are looked at in one dtype."""
    long = name in ("attention", "convolutions", "sizes") or (
        name.startswith("op ") and not name.endswith(" float32")
    )
    return pytest.param(name, marks=pytest.mark.thorough) if long else name


@pytest.mark.sampled(36)
@pytest.mark.parametrize("name", [_dry(name) for name, _ in checks()])
def test_checks_pass_on_the_stand_in(name: str, gpu: Any) -> None:
    found = [check for other, check in checks() if other == name]
    assert len(found) == 1
    found[0]()


def test_checks_fail_where_numbers_are_wrong(gpu: Any, library: Any) -> None:
    def lazy(*arguments: Any) -> None:
        return None

    library._launch = lazy  # kernels that do nothing leave what was in memory
    with pytest.raises(AssertionError):
        dict(checks())["program softmax"]()


# --- the command, in processes whose GPU is the stand-in -------------------------------------------------------------


@pytest.fixture
def dry(monkeypatch: pytest.MonkeyPatch) -> Options:
    """Options of a report without a GPU."""
    here = Path(__file__).parent
    source = Path(tj.__file__).parent.parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (source, here, here.parent))))
    return Options(first="dry_gpu", quick=True, elements=2048)


@pytest.mark.thorough
def test_the_command_writes_one_report(dry: Options, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    options = ["--report", str(path), "--elements", "2048", "--quick", "--only", "interop"]
    command = [sys.executable, "-m", "tracejit.testing.gpu", *options, "--first", "dry_gpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(path.read_text())
    rows = {section: rows for section, rows in found.items() if section != "seconds"}
    assert set(rows) == {*SECTIONS, "ratios"} == set(found["seconds"])
    named = [
        name for name, _ in checks() if "interop" in name
    ]  # with PyTorch, too, where that is installed
    assert rows["numerics"] == [{"passed": len(named)}]
    assert {row["device"] for row in rows["versions"] if "device" in row} == {
        "stand-in 0",
        "stand-in 1",
    }
    assert [row["what"] for row in rows["bandwidth"]][::5] == ["copy", "column sums"]
    assert len(rows["launch cost"]) == 5
    assert len(rows["attention"]) == 4
    ours = [row["program"] for row in rows["programs by tracejit"]]
    assert sorted(set(ours)) == ["adam_many", "branch", "reduce_axis1", "tiny_mlp_grad"]
    assert len(ours) == 11  # as functions and graphs, and all but a reduction as whole steps
    assert "not run" not in done.stdout


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # what other libraries say about themselves
@pytest.mark.parametrize("library", gpu_peers.COLUMNS)
def test_the_programs_of_the_benchmarks_run_by_whoever_is_installed(library: str) -> None:
    module = {"PyTorch": "torch", "torch.compile": "torch", "JAX": "jax"}.get(library)
    if module is not None:  # a build for GPUs whose libraries are missing cannot be imported
        pytest.importorskip(module, exc_type=ImportError)
    for name, unit in gpu_peers.units(library, quick=True, seconds=0.01, device="cpu"):
        for row in unit():
            (title,) = set(row) - {"program", "size"}
            assert (row["program"], title in gpu_peers.COLUMNS[library].values()) == (name, True)
            assert row[title] > 0


def test_without_the_benchmarks_the_package_has_programs_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_peers, "folder", lambda: None)
    for library in gpu_peers.COLUMNS:
        found = units_of(f"programs by {library}", Options(quick=True))
        assert [name for name, _ in found] == [w.name for w in WORKLOADS]


def test_processes_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(gpu_timing.TURN, str(tmp_path / "turn"))
    inside: list[int] = []

    def measure(number: int) -> None:
        with gpu_timing.alone():
            inside.append(number)
            time.sleep(0.02)
            inside.append(-number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(measure, range(1, 5)))
    assert all(a == -b for a, b in zip(inside[::2], inside[1::2], strict=True))


@pytest.mark.thorough
def test_what_goes_wrong_costs_its_own_row(dry: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRY_GPU_WRONG", "1")
    monkeypatch.setattr(gpu_process, "PATIENCE", 8.0)
    found: list[dict[str, Any]] = []
    names = ["memory", "interop", "loops", "random numbers", "op add float32"]
    task = Task("numerics", names, time.monotonic() + 200, dry, found.append)
    run_units(task)
    assert [row.get("unit", "passed") for row in found] == [*names[:3], "passed", "passed"]
    assert found[0]["error"] == "the process ended with code 7"
    assert "illegal memory access" in found[1]["error"]
    assert found[2]["error"] == "no answer within 8 s"


@pytest.mark.slow
def test_what_there_was_no_time_for_is_listed(dry: Options) -> None:
    found: list[dict[str, Any]] = []
    run_units(Task("numerics", ["interop", "loops"], time.monotonic() + 0.05, dry, found.append))
    assert found[-1]["not run"] == ["interop", "loops"]


@pytest.mark.slow
def test_a_library_that_cannot_be_imported_is_a_row(dry: Options) -> None:
    found: list[dict[str, Any]] = []
    options = dataclasses.replace(dry, first="no_such_module")
    run_units(Task("versions", ["numpy"], time.monotonic() + 100, options, found.append))
    assert len(found) == 1
    assert "no_such_module" in found[0]["said"]


class _Driver:
    """A process that ended, is at work for ever, or is not let go of by the driver."""

    def __init__(self, returncode: int | None = None) -> None:
        self.returncode, self.pid = returncode, 0

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        """It has no effect."""

    def wait(self, timeout: float | None = None) -> None:
        assert timeout is not None, "would wait for ever"
        raise subprocess.TimeoutExpired("it", timeout)


def test_a_process_that_is_done_and_does_not_end_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_group(*_: Any) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(gpu_process, "END", 0.05)
    monkeypatch.setattr(os, "killpg", no_group)
    events = tmp_path / "events"
    lines = [{"begin": "loops"}, {"row": {"passed": True}}, {"end": "loops"}]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found: list[dict[str, Any]] = []
    task = Task("numerics", ["loops"], time.monotonic() + 60, Options(), found.append)
    process: Any = _Driver()
    started = time.monotonic()
    watch = gpu_process._Watch(task, ["loops"], process, events, tmp_path / "said")
    assert (watch.run(), found) == ([], [{"passed": True}])
    gpu_process._end(process)
    assert time.monotonic() - started < 30


def test_a_section_that_cannot_be_begun_leaves_the_others(
    dry: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def units(section: str, options: Options) -> list[Any]:
        if section == "bandwidth":
            raise ImportError("a module of the benchmarks")
        return []

    monkeypatch.setattr(report, "units_of", units)
    path = tmp_path / "of" / "its own" / "report.json"
    found = report.run(path, dry)
    assert set(found) == {*SECTIONS, "ratios", "seconds"}
    assert found["bandwidth"][0]["error"] == "ImportError: a module of the benchmarks"
    assert json.loads(path.read_text()) == json.loads(json.dumps(found))
    assert "a module of the benchmarks" in report.summary(found)


def test_a_report_that_cannot_be_written_is_an_error_at_once(dry: Options, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        report.run(tmp_path / "file" / "report.json", dry)


def test_what_was_not_run_is_no_success(gpu: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert report.main(["--seconds", "0", "--quick", "--report", str(path)]) == 3
    found = json.loads(path.read_text())
    assert all("devices" in row["not run"] for row in found["versions"])
    found["numerics"] = [{"unit": "memory", "error": "it is wrong"}]
    assert report._code(found) == 1
    assert report._code({"numerics": [{"passed": 3}], "seconds": {}}) == 0


def test_without_cupy_the_command_says_what_to_install(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arrays.MODULES.clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert report.main(["--report", str(tmp_path / "report.json")]) == 2
    assert 'pip install "tracejit[cuda13]"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(tj.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_command_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tracejit.testing.gpu"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "no GPU can be used: " in done.stderr
    assert "nvidia-smi" in done.stderr
