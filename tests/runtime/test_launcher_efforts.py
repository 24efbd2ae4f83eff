"""The launcher compiled in a hurry, and the careful one that takes its place."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from process_tools import printed
from tracejit.runtime.assembled import Effort, assembled, is_stored, process_triple
from tracejit.runtime.behind import Worker
from tracejit.runtime.machine_code.loader import load_object

REPLACED = """
import time
import tracejit as tj
from tracejit.runtime import behind
from tracejit.runtime.native import native

behind.IDLE = {idle}
f = tj.compile(lambda x: x * 2 if x.sum() > 0 else x - 2)
x = tj.ones(3)
w = tj.ones(4, requires_grad=True)
g = tj.compile(lambda w: (w * w).sum())


def results():
    w.grad = None
    g(w).backward()
    return f(x).tolist(), f(-x).tolist(), w.grad.tolist()


first = [results() for _ in range(3)]
hurried = {{name: d.function for name, d in native._definitions.items()}}
old = native.native()
end = time.monotonic() + 30.0
while native.native() is old and time.monotonic() < end and {idle} < 1.0:
    results()
careful = {{name: d.function for name, d in native._definitions.items()}}
assert all(r == first[0] for r in [*first, results(), results()])
assert first[0] == ([2.0] * 3, [-3.0] * 3, [2.0] * 4)
print(len(hurried), sum(hurried[n] != careful[n] for n in hurried), native.native() is old)
"""


def run_python(code: str, cache: Path) -> str:
    return printed(code, TRACEJIT_CACHE_DIR=str(cache))


def test_careful_functions_replace_hurried_ones_where_they_are_in_use(tmp_path: Path) -> None:
    assert run_python(REPLACED.format(idle=0.0), tmp_path) == "6 6 False\n"
    # The store has the careful ones now: nothing is left to be replaced.
    assert run_python(REPLACED.format(idle=100.0), tmp_path) == "6 0 True\n"


def test_a_program_that_ends_early_leaves_the_hurried_ones(tmp_path: Path) -> None:
    assert run_python(REPLACED.format(idle=100.0), tmp_path) == "6 0 True\n"
    text = (
        "from tracejit.runtime.native.native import prepare, stored\nprint(stored())\nprepare()\n"
    )
    loaded = "import sys\nprint('llvmlite' in sys.modules)"
    expected = f"True\n{sys.platform != 'linux'}\n"
    assert run_python(text + loaded, tmp_path) == expected


@pytest.mark.parametrize("damage", ["changed", "shortened"])
def test_damaged_launchers_are_made_anew(tmp_path: Path, damage: str) -> None:
    assert run_python(REPLACED.format(idle=100.0), tmp_path) == "6 0 True\n"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        content = path.read_bytes()
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes(changed if damage == "changed" else content[:-9])
    # Where both were there, the careful one is made at once.
    assert run_python(REPLACED.format(idle=100.0), tmp_path) == "6 0 True\n"


def test_objects_of_both_efforts_do_the_same() -> None:
    import ctypes

    triple = process_triple()
    text = f'target triple = "{triple}"\ndefine i64 @thrice_plus_one(i64 %x) {{\n'
    text += "  %t = mul i64 %x, 3\n  %r = add i64 %t, 1\n  ret i64 %r\n}\n"
    results = []
    for effort in Effort:
        address = load_object(assembled(text, triple, effort), "thrice_plus_one")
        results.append(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(-7))
        assert is_stored(text, effort)
    assert results == [-20, -20]


def test_idle_jobs_come_last_and_nobody_waits_for_them() -> None:
    worker, done, gate = Worker(), [], threading.Event()
    worker.submit(lambda: gate.wait(30.0) and done.append("first"))
    worker.submit_idle(lambda: done.append("idle"))
    worker.submit(lambda: done.append("second"))
    gate.set()
    assert worker.wait(30.0)
    assert done == ["first", "second"]
    worker.stop()
    assert done == ["first", "second"]


def test_idle_jobs_are_done_when_there_is_nothing_else() -> None:
    worker, done = Worker(), threading.Event()
    worker.submit_idle(done.set)
    assert done.wait(30.0)
    assert worker.wait(30.0)
    worker.stop()


def test_idle_jobs_wait_while_others_compile() -> None:
    worker, done, moves = Worker(), threading.Event(), iter(range(4))
    last = [0]

    def progress() -> int:
        last[0] = next(moves, last[0])
        return last[0]

    worker.progress = progress
    worker.submit_idle(done.set)
    assert done.wait(30.0)
    assert last == [3]  # it was done after the number had stopped moving
    worker.stop()
