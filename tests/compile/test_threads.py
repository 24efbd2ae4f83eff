"""Compiled functions under many threads, across processes, and when they are interrupted."""

from __future__ import annotations

import ast
import functools
import multiprocessing
import os
import signal
import sys
import threading
import warnings

import numpy as np
import pytest
from llvmlite.binding.ffi import lib as llvm_library

import tracejit as tj
from tracejit.runtime.machine_code import kernels, store
from tracejit.runtime.native import native
from tracejit.testing import interrupts, threads
from tracejit.trace.entry import Entry

nn = tj.nn
F = nn.functional


def x(*values: float):
    return tj.tensor(list(values) or [1.0, -2.0, 3.0], requires_grad=True)


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::tracejit.errors.CompileWarning")
def test_sixteen_threads_and_random_shapes() -> None:
    compiled, wrong = threads.call_in_threads(threads.FUNCTIONS, threads=16, calls=15, seed=1)
    assert not wrong, wrong[:5]
    for f in compiled:
        assert f.stats.compiled_calls > 0, f.explain()
        assert f.stats.calls == f.stats.compiled_calls + f.stats.eager_calls


def test_threads_share_a_module() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    f = tj.compile(net)
    given = [tj.from_numpy(np.random.rand(n, 4).astype(np.float32)) for n in (1, 2, 5)]
    expected = [net(v).detach().numpy() for v in given]
    wrong = []

    def work() -> None:
        for step in range(60):
            found = f(given[step % 3])
            if not np.allclose(found.detach().numpy(), expected[step % 3], rtol=1e-4, atol=1e-5):
                wrong.append(step)

    run_all(work, 8)
    assert not wrong
    assert f.stats.compiled_calls > 300


def run_all(work, count: int) -> None:
    workers = [threading.Thread(target=work) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()


def test_a_call_while_another_thread_records(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(lambda v: v * 2 if v.sum() > 0 else v * 3)
    recording, go_on = threading.Event(), threading.Event()
    record = Entry.record

    def slow(self, *args, **kwargs):
        recording.set()
        assert go_on.wait(20)
        return record(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Entry, "record", slow)
        thread = threading.Thread(target=f, args=(x(),))
        thread.start()
        assert recording.wait(20)
        assert f(x()).tolist() == [2.0, -4.0, 6.0]  # eagerly, without waiting
        assert f(x(-1.0)).tolist() == [-3.0]
        assert f.stats.recordings == 1
        assert f.reasons == ["another thread was recording"]
        go_on.set()
        thread.join(20)
    for _ in range(3):
        assert f(x()).tolist() == [2.0, -4.0, 6.0]
        assert f(x(-1.0)).tolist() == [-3.0]
    assert f.stats.compiled_calls >= 5


def test_a_recording_does_not_hear_other_threads() -> None:
    started, stop = threading.Event(), threading.Event()
    state = tj.zeros(3)

    def noise() -> None:
        while not stop.is_set():
            state.add_(1)
            float(state.sum())
            started.set()

    thread = threading.Thread(target=noise)
    thread.start()
    assert started.wait(20)
    f = tj.compile(lambda v: (v * 2).exp().sum(), dynamic=False)
    for n in range(1, 12):
        f(tj.ones(n))
    stop.set()
    thread.join(20)
    for graph in f.graphs:
        assert len(graph.inputs) == 1
    assert not f.reasons


def test_modes_belong_to_their_thread() -> None:
    f = tj.compile(lambda v: v * v)
    wrong = []

    def work(grad: bool) -> None:
        for _ in range(100):
            with tj.set_grad_enabled(grad):
                if f(x()).requires_grad is not grad:
                    wrong.append(grad)

    workers = [threading.Thread(target=work, args=(bool(k % 2),)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not wrong


def test_state_changed_by_another_thread() -> None:
    """A change is seen by the first call that starts after it."""
    scale = 2.0
    f = tj.compile(lambda v: v * scale)
    for _ in range(3):
        f(x())
    for value in (3.0, 4.0, 2.0):

        def change(value=value) -> None:
            nonlocal scale
            scale = value

        run_all(change, 1)
        assert f(x(1.0, 1.0, 1.0)).tolist() == [value] * 3


def test_backward_in_another_thread() -> None:
    f = tj.compile(lambda v: (v * v).sum())
    for _ in range(4):
        v = x()
        y = f(v)
        run_all(y.backward, 1)
        assert v.grad.tolist() == [2.0, -4.0, 6.0]


def test_a_hook_calls_the_function_during_its_backward() -> None:
    f = tj.compile(lambda v: (v * v).sum())
    for n in (3, 3, 3, 4, 4):
        v, seen = tj.ones(n, requires_grad=True), []
        v.register_hook(lambda g, seen=seen: seen.append(f(g.detach()).item()))
        f(v).backward()
        assert seen == [4.0 * n]


# --- processes -------------------------------------------------------------------------------------------------------


def in_child(work, limit: int = 30) -> int:
    """Run something in a forked child; its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(limit)
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork() -> None:
    f = tj.compile(lambda v: (v.exp() * 2).sum())
    for _ in range(3):
        f(tj.ones(50_000))

    def work() -> bool:
        before = f.stats.compiled_calls
        for n in (50_000, 7, 7, 7):
            v = tj.zeros(n, requires_grad=True)
            y = f(v)
            y.backward()
            if y.item() != 2 * n or v.grad.tolist() != [2.0] * n:
                return False
        return f.stats.compiled_calls > before

    assert in_child(work) == 0
    assert work()


LOCKS = {
    "recording": lambda f, entry: f._lock,
    "compiling": lambda f, entry: entry._lock,
    "planning": lambda f, entry: entry.symbolic.lock,
    "kernels": lambda f, entry: kernels._lock,
    "native code": lambda f, entry: native._lock,
    "LLVM": lambda f, entry: llvm_library._lock._lock,
}
#: Locks that a fork waits for: nobody may be inside the compiler when its memory is copied.
AWAITED = ("kernels", "native code", "LLVM")


@pytest.mark.sampled(3)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", LOCKS)
def test_fork_while_another_thread_holds_a_lock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(lambda v: (v.exp() * 2).sum() if v.sum() > -1 else v.sum())
    for _ in range(3):
        f(tj.zeros(4))
    (entry,) = f._all()
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with LOCKS[name](f, entry):
            held.set()
            go_on.wait(0.3 if name in AWAITED else 20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    monkeypatch.setattr(native, "_native", None)  # the child loads it again

    def work() -> bool:
        before = f.stats.compiled_calls
        for value in (0.0, 0.0, -1.0, -1.0):
            y = f(tj.full((4,), value))
            if y.item() != (8.0 if value == 0 else -4.0):
                return False
        g = tj.compile(lambda v: v * 3 + 0.375)  # a kernel that is not there yet
        found = [g(tj.zeros(2)).tolist() for _ in range(3)]
        return found == [[0.375, 0.375]] * 3 and f.stats.compiled_calls >= before + 3

    try:
        assert in_child(work) == 0
    finally:
        go_on.set()
        thread.join(20)


@tj.compile
def spawned(v):
    """A compiled function that a new process imports by its name."""
    return (v * 3).relu() if v.sum() > 0 else v - 1


def in_new_process(values: list[float]) -> tuple[list[float], int]:
    for _ in range(3):
        found = spawned(tj.tensor(values)).tolist()
    return found, spawned.stats.compiled_calls


def test_spawn() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.apply(in_new_process, ([1.0, -2.0, 3.0],)) == ([3.0, 0.0, 9.0], 2)
        assert pool.apply(functools.partial(in_new_process, [-1.0])) == ([-2.0], 4)


# --- interrupts ------------------------------------------------------------------------------------------------------

#: Where most of what an interrupt could leave half made is made.
CRITICAL = (
    "jit.py",
    "trace/entry.py",
    "trace/state/calls.py",
    "trace/tree/",
    "trace/rolling/tree.py",
)
COMPILING = (
    *(f"runtime/machine_code/{x}.py" for x in ("kernels", "loader", "store")),
    "codegen/llvm.py",
)


@pytest.mark.thorough
def test_interrupted_at_random_moments() -> None:
    for number, function in enumerate(threads.FUNCTIONS):
        _, wrong = interrupts.interrupt_often(function, times=1, seed=number)
        assert not wrong, wrong[:3]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("function", threads.FUNCTIONS, ids=lambda f: f.__name__)
def test_interrupted_at_known_moments(function) -> None:
    wrong = interrupts.interrupt_everywhere(function, 2, seed=2, parts=CRITICAL)
    assert not wrong, wrong[:3]
    assert sys.gettrace() is None


@pytest.mark.thorough
def test_interrupted_while_kernels_are_compiled_and_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(kernels, "_addresses", {})
    monkeypatch.setattr(store, "_default", store.KernelStore(tmp_path))

    def forget() -> None:
        kernels._addresses.clear()
        store._default = store.KernelStore(tmp_path / str(len(list(tmp_path.iterdir()))))

    wrong = interrupts.interrupt_everywhere(
        threads.affine, 3, 0, (*COMPILING, "llvmlite/binding"), forget
    )
    assert not wrong, wrong[:3]


def test_moments_are_struck() -> None:
    f = tj.compile(threads.affine)
    found = interrupts.moments(interrupts.story(tj.compile(threads.affine), 0), CRITICAL)
    first = next(m for m in found if m[1] == "Entry.record" and m[3] == 1)
    interrupts.interrupted_at(interrupts.story(f, 0), first, CRITICAL)
    assert (f.stats.calls, f.stats.recordings, f.entries) == (1, 1, {})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_during_recording() -> None:
    """``KeyboardInterrupt`` where a signal handler raises it."""

    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    struck = 0
    try:
        for delay in (0.001, 0.003, 0.01) * 2:  # one that strikes in a finalizer is lost
            f = tj.compile(lambda v: sum((v * k).sin() for k in range(60)).sum())
            signal.setitimer(signal.ITIMER_REAL, delay)
            try:
                for n in range(1, 20):
                    f(tj.ones(n))
            except KeyboardInterrupt:
                struck += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            compiled = f.stats.compiled_calls
            for _ in range(3):
                assert np.isclose(f(tj.zeros(2)).item(), 0.0)
            assert f.stats.compiled_calls >= compiled + 2
    finally:
        signal.signal(signal.SIGALRM, before)
    assert struck


# --- CPython's parser ------------------------------------------------------------------------------------------------


def test_a_parser_disturbed_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 3.13, ``ast.parse`` fails when another thread parses at the same time."""
    parse, calls = ast.parse, []

    def disturbed(*args, **kwargs):
        calls.append(1)
        if len(calls) % 3:
            raise SystemError("AST constructor recursion depth mismatch (before=90, after=65)")
        return parse(*args, **kwargs)

    monkeypatch.setattr(kernels, "_addresses", {})
    monkeypatch.setattr(store, "_default", store.KernelStore(None))
    monkeypatch.setattr(ast, "parse", disturbed)
    f = tj.compile(lambda v: (v * 3.25).sum())
    for _ in range(3):
        f(x()).backward()
    assert len(calls) >= 3
    assert f.stats.compiled_calls == 2


def test_a_failure_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(lambda v: v * 7.5)
    f(x())
    with monkeypatch.context() as patch:

        def out_of_memory(*args, **kwargs):
            raise MemoryError

        patch.setattr("tracejit.runtime.plan.plan.kernels.build", out_of_memory)
        f(x())
    assert "it is tried once more" in f.reasons[0]
    f(x())
    f(x())
    assert f.stats.compiled_calls == 2
