"""What is ready before the first call: compiling a function has the native runtime made beside the program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from process_tools import python

READY = """
import sys
import tracejit as tj
from tracejit import config
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.native import native
from tracejit.runtime.behind import worker

config.disabled = {disabled}
f = tj.compile(lambda x: x * 2 + 1)
assert worker().wait(60.0)
print(native._native is not None, kernels.versions.cache_info().currsize, "llvmlite" in sys.modules)
config.disabled = False
x = tj.ones(3)
found = [f(x).tolist() for _ in range(3)]
print(found[0] == found[1] == found[2], f.stats.compiled_calls, "llvmlite" in sys.modules)
"""

IDLE = """
import time
end = time.monotonic() + 60.0
while not kernels.versions.cache_info().currsize:
    assert time.monotonic() < end
    time.sleep(0.02)
"""

ONCE = """
import sys
import tracejit as tj
from tracejit.runtime.behind import worker

submitted = []
original = worker().submit
worker().submit = lambda job, **given: (submitted.append(job), original(job, **given))
decorated = [tj.compile(lambda x, k=k: x + k) for k in range(5)]
module = tj.compile(tj.nn.Linear(2, 2))
for f in decorated:
    f(tj.ones(2)), f(tj.ones(2))
module(tj.ones(2))
print(len(submitted))
"""

FORKED = """
import os, sys
import tracejit as tj

f = tj.compile(lambda x: (x * 3).sin().sum())
x = tj.ones(5)
pid = os.fork()
found = {f(x).item() for _ in range(3)}
good = len(found) == 1 and f.stats.compiled_calls == 2
if pid == 0:
    os._exit(0 if good else 3)
print(good, os.waitpid(pid, 0)[1])
"""


def run(code: str, store: Path, **environment: str) -> str:
    """What a fresh process prints, in which nothing is loaded before a function is compiled."""
    given = {"TRACEJIT_CACHE_DIR": str(store), "TRACEJIT_LOAD_EARLY": "0", **environment}
    done = python("-c", code, **given)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_runtime_is_made_before_the_first_call(tmp_path: Path) -> None:
    code = READY.format(disabled=False)
    assert run(code, tmp_path) == "True 1 True\nTrue 2 True\n"
    # With a warm store the first call needs nothing of the compiler: it is read once nothing else is to be done.
    waits = "assert worker().wait(60.0)\n"
    warm = run(code.replace(waits, waits + IDLE, 1), tmp_path).split("\n")
    assert warm[0].startswith("True 1")
    assert warm[1].startswith("True 2")
    if sys.platform == "linux":  # elsewhere LLVM links what is in the store
        assert warm[:2] == ["True 1 False", "True 2 False"]


def test_nothing_is_made_where_nothing_is_compiled(tmp_path: Path) -> None:
    # The first call makes up for it.
    assert run(READY.format(disabled=True), tmp_path) == "False 0 False\nTrue 2 True\n"
    assert run(ONCE, tmp_path, TRACEJIT_DISABLE="1") == "0\n"


def test_it_is_made_once(tmp_path: Path) -> None:
    assert run(ONCE, tmp_path) == "5\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_fork_right_after_compiling(tmp_path: Path, threads: str) -> None:
    environment = {"TRACEJIT_NUM_THREADS": threads, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    for _ in range(2):  # an empty store, and a filled one
        assert run(FORKED, tmp_path, **environment) == "True 0\n"


COLLECTIONS = """
import gc
gc.{before}()
settings = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0
seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
import tracejit
gc.callbacks.clear()
print((gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0) == settings, len(seen) < 60)
"""


@pytest.mark.parametrize("before", ["enable", "disable", "freeze"])
def test_an_import_looks_for_garbage_rarely_and_changes_nothing(
    tmp_path: Path, before: str
) -> None:
    assert run(COLLECTIONS.format(before=before), tmp_path) == "True True\n"


def test_parameters_read_from_code_are_those_of_signatures() -> None:
    import inspect

    from tracejit.ops import table
    from tracejit.ops.keywords import _parameters
    from tracejit.ops.op import Op

    def wrapped(a, *b, c=1, **d):
        return a

    functions = [f for f in table.FUNCTIONS.values() if not isinstance(f, Op)]
    assert len(functions) > 300
    for function in (*functions, wrapped, lambda: 0, lambda *x: x, lambda **x: x, dict.fromkeys):
        found = inspect.signature(function).parameters
        rest = [n for n, p in found.items() if p.kind is p.VAR_POSITIONAL]
        assert _parameters(function) == (frozenset(found), *(rest or [None])), function
