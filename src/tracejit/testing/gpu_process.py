"""Units of work in a process of their own, watched: what it finds is kept when it faults, hangs or runs out of time.

The process writes a line per event to a file. Where it ends before its work is done, the unit it had begun gets the
blame and another process takes over after it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .gpu_sections import Options, units_of

__all__ = ["Task", "failed", "load_first", "run_units"]

Row = dict[str, Any]
#: Seconds for one unit, for the libraries to load, and for a process to end when it is done or killed; processes for
#: one task.
PATIENCE, START, END, PROCESSES = 90.0, 90.0, 5.0, 12
_BROKEN = 3  # the process ends with this code where a GPU cannot be used any more


@dataclass
class Task:
    """Units of a section, until when (`time.monotonic`) they may run, and what takes their rows."""

    section: str
    names: Sequence[str]
    end: float
    options: Options
    take: Callable[[Row], None]


def run_units(task: Task) -> None:
    """All units of a task, in as many processes as it takes.

    >>> found = []
    >>> run_units(Task("versions", ["numpy"], time.monotonic() + 60, Options(), found.append))
    >>> [row["package"] for row in found]
    ['numpy']
    """
    left = list(task.names)
    for _ in range(PROCESSES):
        if not left or time.monotonic() >= task.end:
            break
        left = _one_process(task, left)
    if left:
        task.take({"not run": left, "why": "the time was up, or the processes ended too often"})


def _one_process(task: Task, names: list[str]) -> list[str]:
    """Run units until they are done or the process ends; those that are left."""
    with tempfile.TemporaryDirectory(prefix="tracejit-", ignore_cleanup_errors=True) as folder:
        events, said = Path(folder, "events"), Path(folder, "said")
        request: Row = {"section": task.section, "units": names, "events": str(events)}
        request["options"] = dataclasses.asdict(task.options)
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            return _Watch(task, names, process, events, said).run()
        finally:
            _end(process)


class _Watch:
    """Reads the events of a process while it runs."""

    def __init__(
        self, task: Task, names: list[str], process: Any, events: Path, said: Path
    ) -> None:
        self.task, self.left, self.process = task, list(names), process
        self.events, self.said = events, said
        self.begun, self.read = "", 0
        self.since = time.monotonic()

    def run(self) -> list[str]:
        """The units that are left when the process has ended, or was ended."""
        while True:
            ended = self.process.poll() is not None
            self.look()
            now = time.monotonic()
            waited = now - self.since
            if ended:
                return self.blame(f"the process ended with code {self.process.returncode}")
            if now >= self.task.end or (not self.left and waited > END):
                return self.left  # libraries may hang when they say good-bye
            if waited > (PATIENCE if self.begun else START):
                return self.blame(f"no answer within {waited:.0f} s")
            time.sleep(0.02)

    def look(self) -> None:
        """Take the events that were written since."""
        if not self.events.exists():
            return
        with self.events.open(encoding="utf-8") as file:
            file.seek(self.read)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self.read += len(whole.encode())
        for line in whole.splitlines():
            event = json.loads(line)
            if "row" in event:
                self.task.take(event["row"])
            else:
                self.begun, self.since = event.get("begin", ""), time.monotonic()
            if "end" in event:
                self.left.remove(event["end"])

    def blame(self, why: str) -> list[str]:
        """The unit that had begun is left out; where none had, none can be run."""
        if not self.left or (not self.begun and self.process.returncode == _BROKEN):
            return self.left
        said = self.said.read_text(encoding="utf-8", errors="replace")[-2000:]
        self.task.take({"unit": self.begun or self.left[0], "error": why, "said": said})
        return [name for name in self.left if name != self.begun] if self.begun else self.left[1:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError):
            process.kill()
    # Where the driver does not let go of it, it is left behind.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END)


def failed(name: str, error: Exception) -> Row:
    """An error as a row.

    >>> failed("a unit", ValueError("no"))["error"]
    'ValueError: no'
    """
    where = "".join(traceback.format_exception(error)).splitlines()[-12:]
    return {"unit": name, "error": f"{type(error).__name__}: {error}", "where": where}


# --- in the process --------------------------------------------------------------------------------------------------


def load_first(name: str) -> None:
    """Import a module by its name, if there is one.

    >>> load_first("")
    """
    if name:
        importlib.import_module(name)


def work(request: dict[str, Any]) -> int:
    """Run the units of a request and write what happens; the code the process ends with.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     where = os.path.join(folder, "events")
    ...     work({"section": "versions", "units": ["numpy"], "events": where, "options": {}})
    0
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others share the GPU
    options = Options(**request["options"])
    load_first(options.first)
    units = dict(units_of(request["section"], options))
    with Path(request["events"]).open("a", encoding="utf-8", buffering=1) as file:

        def write(**event: Any) -> None:
            file.write(json.dumps(event, default=str) + "\n")

        for name in request["units"]:
            write(begin=name)
            failed = False
            for row in _rows(name, units[name]):
                failed = failed or "error" in row
                write(row=row)
            write(end=name)
            if failed and not _still_works():
                return _BROKEN
    return 0


def _rows(name: str, unit: Callable[[], Any]) -> Iterator[Row]:
    """The rows of a unit; an error is its last one."""
    try:
        yield from unit()
    except Exception as error:  # noqa: BLE001  (one report has to hold whatever goes wrong)
        yield failed(name, error)


def _still_works() -> bool:
    """Can this process use the GPU? A kernel that faulted ends that for good."""
    import tracejit as tj

    try:
        tj.cuda.synchronize()
    except Exception:  # noqa: BLE001  (whatever it is, a new process is the remedy)
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(work(json.loads(sys.argv[1])))
