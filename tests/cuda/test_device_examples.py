"""The example and the command for a GPU, on one that is not there: their programs train on the stand-in."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import tracejit as tj
from tracejit.cli import main
from tracejit.cuda import arrays

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "on_a_gpu.py"


def test_the_whole_step_runs_compiled_on_a_device(
    gpu: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLE))["main"](5)
    shown = capsys.readouterr().out
    assert "5 steps on cuda" in shown
    assert "on the CPU" not in shown


DEMO = ["demo", "--device", "cuda", "--epochs", "1", "--no-plot", "--json"]


def test_the_demo_trains_on_a_device(
    gpu: Any, library: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*DEMO, "--hidden", "8", "--batch", "500"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["device"] == "cuda"
    assert found["loss_difference"] < 1e-3
    assert library.launched


def test_without_cupy_the_demo_says_what_to_install(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays.MODULES.clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(DEMO) == 1
    said = capsys.readouterr().err
    assert 'pip install "tracejit[cuda13]"' in said
    assert "demo.py" not in said


@pytest.mark.skipif(tj.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_demo_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(DEMO) == 1
    said = capsys.readouterr().err
    assert "no GPU can be used: " in said
    assert "nvidia-smi" in said
