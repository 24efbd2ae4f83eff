"""Compiling behind the program: calls never wait, results are equal, errors arrive, forks and the end are clean."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracejit as tj
from process_tools import printed, python
from tracejit import nn
from tracejit.codegen import llvm
from tracejit.errors import CompileWarning
from tracejit.runtime.behind import Abandoned, Worker, worker


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Nothing is compiled before this is set."""
    opened = threading.Event()
    worker().submit(lambda: opened.wait(60.0) and None)
    yield opened
    opened.set()
    assert worker().wait(60.0)


def fresh(x: Any) -> Any:
    return (x * 3.0).sin() + x


def test_calls_do_not_wait_and_later_ones_run_compiled(gate: threading.Event):
    f = tj.compile(lambda x: (x * 12.375).sin() + x.cos() * x, mode="background", strict=True)
    x = tj.linspace(-1.0, 1.0, 50)
    eager = f.function(x)
    for _ in range(5):
        assert f(x).tolist() == eager.tolist()
    assert (f.stats.compiled_calls, f.stats.eager_calls, f.stats.recordings) == (0, 5, 1)
    assert "being compiled in the background: 3 call(s)" in str(f.explain())
    gate.set()
    assert f.wait(60.0)
    assert tj.allclose(f(x), eager)
    assert f.stats.compiled_calls == 1
    assert "compiled in the background in" in str(f.explain())
    assert f.reasons == []


def test_what_is_called_once_is_not_recorded():
    calls = []

    def noted(x: Any) -> Any:
        calls.append(tj.is_grad_enabled())
        return x * 2

    f = tj.compile(noted, mode="background")
    for size in (1, 2, 3):
        assert f(tj.ones(size)).tolist() == [2.0] * size
    assert f.stats.recordings == 0
    assert f.entries == {}
    assert calls == [True] * 3
    assert f.wait(60.0)
    g = tj.compile(lambda x: x * 2 + 1, mode="background", strict=True, dynamic=False)
    for _ in range(2):
        for size in (1, 2, 3):
            g(tj.ones(size))
    assert g.stats.recordings == 3
    assert g.wait(60.0)
    assert [g(tj.ones(size)).sum().item() for size in (1, 2, 3)] == [3.0, 6.0, 9.0]
    assert g.stats.compiled_calls == 3


def test_few_signatures_called_once_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracejit.config.max_signatures", 4)
    f = tj.compile(lambda x: x + 1, mode="background", dynamic=False)
    for size in range(1, 30):
        f(tj.ones(size))
    assert len(f._met) == 4
    assert f.stats.recordings == 0
    f(tj.ones(29))
    assert f.stats.recordings == 1


def test_backward_kernels_are_there_with_the_forward_ones():
    f = tj.compile(lambda x: (x * 1.5).tanh().sum(), mode="background", strict=True)
    x = tj.linspace(-1.0, 1.0, 50, requires_grad=True)
    f(x)
    f(x).backward()
    want, x.grad = x.grad, None
    assert f.wait(60.0)
    before = llvm.COMPILATIONS.count
    f(x).backward()
    assert llvm.COMPILATIONS.count == before
    assert tj.allclose(x.grad, want)
    assert f.stats.compiled_calls == 1


def test_training_goes_on_while_kernels_are_made():
    def run(mode: str | None) -> list[float]:
        tj.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
        optimizer = tj.optim.SGD(model.parameters(), lr=0.1)
        x, y = tj.randn(20, 8), tj.randint(0, 2, (20,))
        loss = tj.compile(lambda x, y: nn.functional.cross_entropy(model(x), y), mode=mode)
        found = []
        for step in range(30):
            optimizer.zero_grad()
            value = loss(x, y)
            value.backward()
            optimizer.step()
            found.append(value.item())
            if mode and step == 20:
                assert loss.wait(60.0)
        assert loss.stats.compiled_calls >= 9
        return found

    assert run("background") == pytest.approx(run(None), rel=1e-5)


def test_a_new_branch_is_added_behind():
    f = tj.compile(lambda x: x * 2 if x.sum() > 0 else x - 2, mode="background", strict=True)
    up, down = tj.ones(3), -tj.ones(3)
    f(up)
    f(up)
    assert f.wait(60.0)
    assert f(up).tolist() == [2, 2, 2]
    assert f(down).tolist() == [-3, -3, -3]  # recorded
    assert f.wait(60.0)
    before = f.stats.compiled_calls
    assert f(down).tolist() == [-3, -3, -3]
    assert f(up).tolist() == [2, 2, 2]
    assert f.stats.compiled_calls == before + 2


def test_a_failure_is_told_once_in_the_callers_thread(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no machine code today")

    monkeypatch.setattr("tracejit.runtime.machine_code.kernels._address", fails)
    f = tj.compile(lambda x: (x * 2.125).exp(), mode="background")
    x = tj.ones(3)
    f(x)
    f(x)
    assert f.wait(60.0)
    with pytest.warns(CompileWarning, match="no machine code today"):
        assert f(x).tolist() == x.mul(2.125).exp().tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)
    assert any("no machine code today" in reason for reason in f.reasons)


def test_nothing_is_compiled_of_runs_that_ended_in_errors():
    f = tj.compile(lambda x, other: (x * 2.0) @ other, mode="background")
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        for _ in range(4):
            with pytest.raises(RuntimeError):
                f(tj.ones(2, 3), tj.ones(2, 3))
            assert f.wait(60.0)
    assert not any("could not be compiled" in reason for reason in f.reasons)


def test_strict_raises_what_went_wrong(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracejit.runtime.machine_code.kernels._address", lambda *_: 1 / 0)
    f = tj.compile(lambda x: (x * 2.25).exp(), mode="background", strict=True)
    f(tj.ones(3))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(tj.ones(3))  # or this call, should the compilation have failed by its end
        assert f.wait(60.0)
        f(tj.ones(3))


def test_the_mode_is_kept():
    class Add(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1

    module = tj.compile(Add(), mode="background")
    assert module.compiled.background
    assert copy.deepcopy(module).compiled.background
    assert pickle.loads(pickle.dumps(tj.compile(_Callable(), mode="background"))).background
    assert tj.compile(mode="background")(fresh).background
    assert not tj.compile(fresh, mode="max-autotune").background
    assert tj.compile(tj.compile(fresh), mode="background").background
    module(tj.ones(2))
    module(tj.ones(2))
    assert module.wait(60.0)
    assert module(tj.ones(2)).tolist() == [2, 2]
    assert module.stats.compiled_calls == 1


class _Callable:
    def __call__(self, x: Any) -> Any:
        return x + 1


def test_many_threads_call_while_kernels_are_made():
    f = tj.compile(lambda x: ((x * 7.5).tanh() + 1).sum(), mode="background")
    wrong: list[float] = []

    def run() -> None:
        for n in range(1, 40):
            x = tj.full((n,), 0.5)
            value = f(x).item()
            if abs(value - f.function(x).item()) > 1e-4:
                wrong.append(value)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert f.wait(60.0)
    assert wrong == []


def test_jobs_that_fail_do_not_end_the_worker(caplog: pytest.LogCaptureFixture):
    found, done = Worker(), []

    def fails() -> None:
        raise ValueError("oops")

    def given_up() -> None:
        raise Abandoned

    for job in (fails, given_up, lambda: done.append(threading.current_thread().name)):
        found.submit(job)
    assert found.wait(10.0)
    assert done == ["tracejit compiler"]
    assert "oops" in caplog.text
    found.stop()
    found.submit(lambda: done.append("late"))
    assert found.wait(1.0)
    assert len(done) == 1


def test_waiting_has_a_limit():
    found, opened = Worker(), threading.Event()
    found.submit(lambda: opened.wait(30.0) and None)
    assert not found.wait(0.05)
    opened.set()
    assert found.wait(10.0)
    found.stop()


def child(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return python("-c", code, TRACEJIT_CACHE_DIR=str(tmp_path))


ENDS = """
import tracejit as tj
fs = [tj.compile(lambda x, k=k: (x * k).exp().sum(), mode="background") for k in range(1, 30)]
x = tj.ones(10)
print(sum(f(x).item() > 0 and f(x).item() > 0 for f in fs))
"""

FORKS = """
import os, sys
import tracejit as tj
def make(k):
    return tj.compile(lambda x: (x * k).exp().sum(), mode="background")
fs = [make(k + 0.5) for k in range(8)]
x = tj.ones(10)
first = [(f(x), f(x))[0].item() for f in fs]
pid = os.fork()
assert all(f.wait(60.0) for f in fs)
if pid == 0:
    for f in fs:
        f(x)
    assert fs[0].wait(60.0)
good = all(abs(f(x).item() - v) < 1e-4 * v for f, v in zip(fs, first))
good = good and all(f.stats.compiled_calls for f in fs)
if pid == 0:
    os._exit(0 if good else 3)
print(good, os.waitpid(pid, 0)[1])
"""


def test_a_program_may_end_while_kernels_are_made(tmp_path: Path):
    start = time.perf_counter()
    done = child(ENDS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "29\n", "")
    assert time.perf_counter() - start < 60.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_while_kernels_are_made(tmp_path: Path):
    done = child(FORKS, tmp_path)
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch):
    def refuses(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    found = Worker()
    done: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        found.submit(lambda: done.append(1))
        assert not found.wait(5.0)
    assert not done
    assert found.wait(20.0)
    assert done == [1]
    found.stop()


ENDING = """
import atexit, threading
import tracejit as tj
def refuses(self):
    raise RuntimeError("can't create new thread at interpreter shutdown")
def last():
    threading.Thread.start = refuses
    f = tj.compile(lambda x: (x.sin() + 1).sum() * x.exp().amax())
    x = tj.ones(3)
    found = [f(x).item() for _ in range(4)]
    print(max(found) - min(found) < 1e-5, f.stats.compiled_calls)
atexit.register(last)
"""


def test_a_first_call_while_the_program_ends(tmp_path: Path):
    environment = {"TRACEJIT_CACHE_DIR": str(tmp_path), "TRACEJIT_NUM_THREADS": "1"}
    assert printed(ENDING, **environment) == "True 3\n"
