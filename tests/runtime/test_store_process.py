"""The kernel store between processes: warm starts, and directories that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

from process_tools import python

SCRIPT = """
import json, logging, sys, warnings
warnings.simplefilter("error")
logging.basicConfig(level=logging.WARNING)
import tracejit as tj

tj.manual_seed(0)
model = tj.nn.Sequential(tj.nn.Linear(8, 16), tj.nn.ReLU(), tj.nn.Linear(16, 3))
f = tj.compile(lambda x, y: tj.nn.functional.cross_entropy(model(x), y))
x, y = tj.rand(5, 8), tj.tensor([0, 1, 2, 1, 0])
for _ in range(3):
    loss = f(x, y)
    loss.backward()
from tracejit.runtime.machine_code import kernels

llvm = sys.modules.get("tracejit.codegen.llvm")
print(json.dumps({
    "compiled": kernels.COUNTS.compiled,
    "loaded": kernels.COUNTS.loaded,
    "llvm": llvm.COMPILATIONS.count if llvm else 0,
    "numba": "numba" in sys.modules,
    "compiled_calls": f.stats.compiled_calls,
    "reasons": f.reasons,
    "loss": loss.item(),
}))
"""


def run(cache: Path | str) -> tuple[dict, str]:
    """What the script reports in a process of its own, and its error output."""
    found = python("-c", SCRIPT, TRACEJIT_CACHE_DIR=str(cache))
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1]), found.stderr


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    cold, _ = run(tmp_path / "store")
    warm, _ = run(tmp_path / "store")
    assert cold["compiled"] > 0
    assert (warm["compiled"], warm["llvm"], warm["numba"]) == (0, 0, False)
    assert warm["loaded"] == cold["compiled"]
    assert warm["loss"] == cold["loss"]
    assert cold["compiled_calls"] == warm["compiled_calls"] == 2


def test_damaged_entries_are_made_again(tmp_path: Path) -> None:
    cold, _ = run(tmp_path)
    damaged = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert damaged
    for number, path in enumerate(damaged):
        data = path.read_bytes()
        middle = len(data) // 2
        broken = (b"", data[:middle], data[:middle] + b"\xff" + data[middle + 1 :])[number % 3]
        path.write_bytes(broken)
    again, log = run(tmp_path)
    assert again["loss"] == cold["loss"]
    assert again["compiled"] > 0
    assert "damaged" in log
    assert not again["reasons"]
    warm, _ = run(tmp_path)
    assert warm["compiled"] == 0


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    found, log = run(blocked / "store")
    assert found["compiled"] > 0
    assert found["compiled_calls"] == 2
    assert log.count("WARNING") == 1, log
    assert "file" in log


def test_no_directory_at_all() -> None:
    found, log = run("off")
    assert found["compiled_calls"] == 2
    assert not log
