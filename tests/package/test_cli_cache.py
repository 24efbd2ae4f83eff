"""``tracejit cache``: what the store holds, and emptying it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from process_tools import python


def python_m(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "tracejit", *arguments, **environment)


def test_cache_info_and_clear(tmp_path: Path):
    environment = {"TRACEJIT_CACHE_DIR": str(tmp_path)}
    compile_one = (
        "import tracejit as tj; f = tj.compile(lambda x: x * 2 + 1); f(tj.ones(3)); f(tj.ones(3))"
    )
    assert python("-c", compile_one, **environment).returncode == 0
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    stored = [p for p in files if "kernels-1" in p.parts]
    assert len(stored) > 1
    assert len(files) == len(stored) + 1, "one plan"
    info = python_m("cache", "info", **environment).stdout
    assert str(tmp_path) in info
    assert f"kernels stored  {len(stored)}, " in info
    assert "plans stored    1, " in info
    listed = python_m("cache", "list", **environment).stdout
    assert "k_mul_add" in listed
    assert "…" not in listed
    assert "tracejit_launch" in listed
    assert (
        f"and {len(stored) - 1} more"
        in python_m("cache", "list", "--limit", "1", **environment).stdout
    )
    cleared = python_m("cache", "clear", **environment)
    assert cleared.returncode == 0
    assert f"deleted {len(stored)} kernels" in cleared.stdout
    assert "deleted 1 plans" in cleared.stdout
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    assert "deleted 0 kernels" in python_m("cache", "clear", **environment).stdout


def test_cache_in_memory_only():
    assert "in memory only" in python_m("cache", "info", TRACEJIT_CACHE_DIR="off").stdout
