"""The dynamic examples, eager beside compiled: ``python benchmarks/dynamic.py [--quick] [--only NAME] [--json FILE]``.

Each example in ``examples/`` that has an ``Experiment`` runs twice from one seed, in turns of a few steps, on the same
data. Every step starts from the same parameters, because roundings grow in training, and growth is not what is asked.
Compared after it: what the step returned, all gradients, all tensors it changed, and the state of the random generator.
The second half of the steps counts as warm: its times give the speed, its calls the share that ran compiled.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import report
from backends import difference

import tracejit as tj
from tracejit.cli import output

FOLDER = Path(__file__).resolve().parent.parent / "examples"
#: Steps of a full run and of a quick one; half of them warm up.
STEPS = {
    "sequence_lstm": (400, 24),
    "tree_lstm": (200, 12),
    "cartpole": (80, 10),
    "karate_gcn": (300, 40),
    "mixture_of_experts": (400, 40),
    "adaptive_depth": (600, 100),
    "agent_loop": (120, 10),
    "newton": (200, 20),
    "maze_search": (800, 30),
}
#: Steps that one takes before it is the other's turn.
TURN = 5
SEED = 0


@dataclass(frozen=True)
class Settings:
    """How much to run."""

    quick: bool
    threads: int


@dataclass
class Row:
    """One example. Differences are relative to the largest element; times are seconds a step."""

    example: str
    steps: int
    values: float = 0.0
    gradients: float = 0.0
    state: float = 0.0
    random: bool = True
    signatures: int = 0
    paths: int = 0
    kernels: int = 0
    calls: int = 0
    compiled_calls: int = 0
    recordings: int = 0
    eager: float = 0.0
    compiled: float = 0.0
    eager_total: float = 0.0
    compiled_total: float = 0.0
    reasons: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the warm calls, those that ran compiled."""
        return self.compiled_calls / max(self.calls, 1)

    @property
    def worst(self) -> float:
        """The largest difference of any kind."""
        return max(self.values, self.gradients, self.state)


@dataclass
class Outcome:
    """What can be seen after a step."""

    values: list[float]
    gradients: dict[str, np.ndarray]
    state: dict[str, np.ndarray]


class Run:
    """One way to run an example: its experiment, its own random stream, and the time of every step."""

    def __init__(self, example: ModuleType, compiled: bool) -> None:
        tj.manual_seed(SEED)
        self.experiment = example.Experiment(compiled)
        self.random = tj.get_rng_state()
        self.times: list[float] = []

    def turn(self, steps: int, states: Sequence[dict[str, np.ndarray]] = ()) -> list[Outcome]:
        """Some steps, with what each left behind; the first of them start from ``states``, where given."""
        tj.set_rng_state(self.random)
        found = []
        for number in range(steps):
            if number < len(states):
                self._start_from(states[number])
            start = time.perf_counter()
            values = self.experiment.step()
            self.times.append(time.perf_counter() - start)
            found.append(self._outcome(values))
        self.random = tj.get_rng_state()
        return found

    def _start_from(self, state: dict[str, np.ndarray]) -> None:
        with tj.no_grad():
            for name, tensor in self.experiment.state.items():
                tensor.copy_(tj.from_numpy(state[name]))

    def _outcome(self, values: list[float]) -> Outcome:
        tensors = self.experiment.state.items()
        gradients = {name: t.grad.numpy().copy() for name, t in tensors if t.grad is not None}
        return Outcome(values, gradients, self.state())

    def state(self) -> dict[str, np.ndarray]:
        """Copies of all tensors that steps change."""
        return {name: t.detach().numpy().copy() for name, t in self.experiment.state.items()}

    def counts(self) -> np.ndarray:
        """Calls of the compiled functions so far, how many ran compiled, and how many were recorded."""
        stats = [function.stats for function in self.experiment.functions]
        rows = np.array([(s.calls, s.compiled_calls, s.recordings) for s in stats])
        found: np.ndarray = rows.sum(axis=0)
        return found


def load(name: str) -> ModuleType:
    """An example as a module; it runs nothing but its definitions."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def apart(have: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> float:
    """The largest difference over named arrays; infinity where one is missing.

    Relative to the largest element of all: a gradient that is zero but for rounding has no digits of its own.
    """
    if have.keys() != want.keys():
        return float("inf")
    flat = [[np.concatenate([np.ravel(a[k]) for k in want])] if want else [] for a in (have, want)]
    return difference(*flat)


def compare(name: str, steps: int) -> Row:
    """Run an example both ways."""
    example, row = load(name), Row(name, steps)
    eager, compiled = Run(example, False), Run(example, True)
    warm = steps // 2
    _follow(row, eager, compiled, warm)
    before = compiled.counts()
    _follow(row, eager, compiled, steps - warm)
    row.calls, row.compiled_calls, row.recordings = (compiled.counts() - before).tolist()
    row.eager, row.compiled = (statistics.median(run.times[warm:]) for run in (eager, compiled))
    row.eager_total, row.compiled_total = sum(eager.times), sum(compiled.times)
    _explained(row, compiled)
    return row


def _follow(row: Row, eager: Run, compiled: Run, steps: int) -> None:
    """Go on both ways, in turns, noting the largest differences."""
    for done in range(0, steps, TURN):
        count = min(TURN, steps - done)
        first = eager.state()
        wanted = eager.turn(count)
        found = compiled.turn(count, [first, *(outcome.state for outcome in wanted)])
        for want, have in zip(wanted, found, strict=True):
            values = difference([np.array(have.values)], [np.array(want.values)])
            row.values = max(row.values, values)
            row.gradients = max(row.gradients, apart(have.gradients, want.gradients))
            row.state = max(row.state, apart(have.state, want.state))
        row.random &= eager.random.tolist() == compiled.random.tolist()


def _explained(row: Row, compiled: Run) -> None:
    for function in compiled.experiment.functions:
        signatures = function.explain().signatures
        row.signatures += len(signatures)
        row.paths += sum(s["paths"] for s in signatures)
        row.kernels += len(function.kernels)
        row.reasons += function.reasons


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table."""
    return (
        row.example,
        *(f"{x:.0e}" if x else "0" for x in (row.values, row.gradients, row.state)),
        "same" if row.random else "differs",
        *map(str, (row.signatures, row.paths, row.kernels)),
        f"{row.share:.1%}",
        output.duration(row.eager),
        output.duration(row.compiled),
        f"{row.eager / row.compiled:.1f}x",
        f"{row.eager_total / row.compiled_total:.1f}x",
    )


COLUMNS = (
    *("example", "values", "gradients", "state", "random"),
    *("signatures", "paths", "kernels", "compiled"),
    *("eager step", "compiled step", "speed", "from the start"),
)


def table(rows: Sequence[Row]) -> None:
    """Print all rows, then why calls ran eagerly."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(
        title="compiled against eager: largest relative difference, what was recorded, time of a step",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for number, column in enumerate(COLUMNS):
        grid.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*cells(row))
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=report.WIDTH)).print(grid)
    for row in rows:
        for reason in row.reasons:
            output.console().print(f"{row.example}: {reason}", markup=False)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    found.add_argument("--quick", action="store_true", help="few steps: a smoke test")
    found.add_argument("--only", action="append", default=[], choices=STEPS, metavar="EXAMPLE")
    found.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, write; 1 when a difference is more than rounding explains."""
    from measure import TOLERANCE
    from processes import usable_cpus

    options = parser().parse_args(arguments)
    rows = []
    for name, (full, quick) in STEPS.items():
        if not options.only or name in options.only:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows.append(compare(name, quick if options.quick else full))
    table(rows)
    if options.json is not None:
        settings: Any = Settings(options.quick, usable_cpus())
        content: Any = rows
        output.write_json(options.json, report.as_json(content, settings))
    return int(not all(row.random and row.worst <= TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
