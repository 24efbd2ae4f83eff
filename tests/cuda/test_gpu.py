"""What only a GPU can show; and that the command which runs it all works, on the stand-in where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tracejit as tj
from tracejit.testing import gpu as command
from tracejit.testing.gpu_checks import checks

needs_gpu = pytest.mark.skipif(not tj.cuda.is_available(), reason=tj.cuda.why_unavailable() or "-")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", [name for name, _ in checks()])
def test_on_a_gpu(name: str) -> None:
    assert dict(checks())[name]() is None  # it raises what is wrong


SOME = [
    "loops",
    "memory",
    "interop",
    "random",
    "refused",
    "op ad",
    "op sum",
    "program tiny",
    "training",
]


@pytest.mark.parametrize("only", SOME)
def test_checks_pass_on_the_stand_in(only: str, gpu: Any) -> None:
    found = [check for name, check in checks() if name.startswith(only)]
    assert found
    for check in found:
        check()


def test_checks_fail_where_numbers_are_wrong(gpu: Any, library: Any) -> None:
    def lazy(*arguments: Any) -> None:
        return None

    library._launch = lazy  # kernels that do nothing leave what was in memory
    with pytest.raises(AssertionError):
        dict(checks())["program softmax"]()


def test_the_command_writes_one_report(gpu: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    options = ["--report", str(path), "--elements", "4096", "--quick", "--only", "interop"]
    assert command.main([*options, "--seconds", "4"]) == 0
    found = json.loads(path.read_text())
    assert list(found) == [
        "versions",
        "seconds",
        "numerics",
        "launch cost",
        "bandwidth",
        "attention",
        "programs",
    ]
    assert found["numerics"] == [{"passed": 1}]
    assert {row["device"] for row in found["versions"] if "device" in row} == {
        "stand-in 0",
        "stand-in 1",
    }
    assert not [row for rows in found.values() for row in rows if "error" in row]
    assert found["bandwidth"][0]["what"] == "copy"


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
