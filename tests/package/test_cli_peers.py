"""``tracejit bench --peers`` from the command line."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from tracejit.cli import main, peers


def test_bench_hands_the_comparison_its_arguments(monkeypatch: pytest.MonkeyPatch):
    """Everything but the flag; the exit code comes back."""
    called = Mock(return_value=Mock(returncode=1))
    monkeypatch.setattr(peers.subprocess, "run", called)
    assert main(["bench", "--quick", "--peers", "--only", "nbody"]) == 1
    (command,) = called.call_args.args
    assert command[1:] == [str(peers.SCRIPT), "--quick", "--only", "nbody"]


def test_bench_without_the_benchmarks_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(peers, "SCRIPT", tmp_path / "peers.py")
    assert main(["bench", "--peers"]) == 1
    assert "checkout" in capsys.readouterr().err
