"""The dynamic examples, eager beside compiled: equal values, gradients, state and random streams, and nothing eager."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from process_tools import python

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = ("dynamic", "report", "backends", "measure", "processes", "workloads")
#: Per example: the least number of signatures and of paths that a quick run meets.
MET = {
    "sequence_lstm": (5, 5),
    "tree_lstm": (8, 8),
    "cartpole": (2, 2),
    "karate_gcn": (1, 1),
    "mixture_of_experts": (2, 2),
    "adaptive_depth": (1, 2),
    "agent_loop": (1, 20),
    "newton": (1, 2),
    "maze_search": (1, 4),
}
#: float32 against float32 after one step from the same parameters: a hundred roundings.
CLOSE = 1e-5


@pytest.fixture(scope="module")
def dynamic() -> Iterator[ModuleType]:
    """The comparison, which is a script and in no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("dynamic")
        for name in MODULES:
            sys.modules.pop(name, None)


def test_every_experiment_is_compared(dynamic: ModuleType):
    found = {
        p.stem for p in dynamic.FOLDER.glob("*.py") if "class Experiment" in p.read_text("utf-8")
    }
    assert found == set(dynamic.STEPS) == set(MET)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", MET)
def test_compiled_does_what_eager_does(dynamic: ModuleType, name: str):
    if name == "karate_gcn":
        pytest.importorskip("networkx")
    row = dynamic.compare(name, dynamic.STEPS[name][1])
    assert row.values <= CLOSE
    assert row.gradients <= CLOSE
    assert row.state <= CLOSE
    assert row.random
    assert row.compiled_calls > 0
    assert row.compiled_calls + row.recordings == row.calls, row.reasons
    assert not row.reasons
    assert (row.signatures, row.paths) >= MET[name]
    assert row.paths >= MET[name][1]
    assert row.kernels > 0


def test_a_difference_is_seen(dynamic: ModuleType, monkeypatch: pytest.MonkeyPatch):
    """A compiled run that is wrong, draws another number, or keeps no gradient is told apart."""
    example = dynamic.load("newton")

    class Wrong(example.Experiment):
        def __init__(self, compiled: bool) -> None:
            super().__init__(compiled)
            self.compiled = compiled

        def step(self) -> list[float]:
            found: list[float] = super().step()
            if self.compiled:
                dynamic.tj.rand(1)
                self.state["orbit.axis"].grad = None
            return [found[0] * (1.01 if self.compiled else 1.0)]

    monkeypatch.setattr(example, "Experiment", Wrong)
    monkeypatch.setattr(dynamic, "load", lambda name: example)
    row = dynamic.compare("newton", 4)
    assert row.values == pytest.approx(0.01, rel=1e-3)
    assert row.gradients == np.inf
    assert not row.random
    assert row.state < CLOSE


@pytest.mark.thorough
def test_the_table_from_the_command_line(tmp_path: Path):
    figures = tmp_path / "figures.json"
    command = ["benchmarks/dynamic.py", "--quick", "--only", "newton", "--json", str(figures)]
    done = python(*command, cwd=FOLDER.parent)
    assert done.returncode == 0, done.stderr
    assert "compiled against eager" in done.stdout
    (row,) = json.loads(figures.read_text())["rows"]
    assert row["example"] == "newton"
    assert 0 < row["compiled"] < row["compiled_total"]
    assert row["paths"] == 2
