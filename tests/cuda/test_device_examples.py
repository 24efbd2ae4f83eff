"""The example for a GPU, on one that is not there: its program trains on the stand-in."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "on_a_gpu.py"


def test_the_whole_step_runs_compiled_on_a_device(
    gpu: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLE))["main"](5)
    shown = capsys.readouterr().out
    assert "5 steps on cuda" in shown
    assert "on the CPU" not in shown
