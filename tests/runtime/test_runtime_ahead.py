"""Kernels compiled in several threads: the same code as in one, errors where they belong, nothing left behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tracejit as tj
from tracejit.codegen import llvm, llvm_threads, quick
from tracejit.runtime import ahead
from tracejit.runtime.ahead import Ahead, Request
from tracejit.runtime.machine_code import kernels, store


def request(number: int) -> Request:
    text = f"""
def ahead_{number}(x: "f32*", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    s = float32(0.0)
    for i in range(lo, hi):
        s += exp_f32(x[i] * float32({number}.5)) - float32({number}.0)
    out[0] = s
    return 0
"""
    return Request(text, f"ahead_{number}", False)


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads, and code as it is once the native runtime is there: that may come to be at any moment."""
    monkeypatch.setattr(ahead, "helpers", lambda jobs: min(jobs, 3))
    monkeypatch.setattr(quick._options, "allowed", True)


def waited(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def of_ours() -> Iterator[threading.Thread]:
    return (t for t in threading.enumerate() if t.name == "tracejit-compile")


def test_the_code_is_that_of_one_thread(several: None) -> None:
    wanted = {str(n): request(n) for n in range(12)}
    alone = {key: r.prepare()() for key, r in wanted.items()}
    with Ahead(wanted) as found:
        have = {key: found.take(key) for key in reversed(wanted)}
    assert have == alone


def test_threads_without_llvmlites_own_lock_or_with_it(
    several: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {str(n): request(n) for n in range(6)}
    with Ahead(wanted) as found:
        have = {key: found.take(key) for key in wanted}
    del found
    assert llvm_threads._unlocked("LLVMPY_RunNewModulePassManager", 3) is not None
    monkeypatch.setattr(llvm_threads, "_unlocked", lambda *_: None)
    with Ahead(wanted) as found:
        assert {key: found.take(key) for key in wanted} == have


def test_an_error_is_raised_where_the_code_is_asked_for(several: None) -> None:
    wanted = {str(n): request(n) for n in range(4)}
    wanted["wrong"] = Request("def wrong(:", "wrong", False)
    with Ahead(wanted) as found:
        assert all(found.take(str(n)) for n in range(4))
        with pytest.raises(llvm.lower_kernel.__globals__["LoweringError"], match="line"):
            found.take("wrong")


def test_two_plans_share_what_both_need_and_an_interrupt_of_one_is_not_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ahead, "helpers", lambda _: 0)
    made: list[str] = []

    def prepare(self: Request) -> Callable[[], bytes]:
        def compile_now() -> bytes:
            made.append(self.symbol)
            if len(made) == 1:
                raise KeyboardInterrupt
            return b"code"

        return compile_now

    monkeypatch.setattr(Request, "prepare", prepare)
    with Ahead({"shared": request(1)}) as one, Ahead({"shared": request(1)}) as other:
        with pytest.raises(KeyboardInterrupt):
            one.take("shared")
        assert other.take("shared") == b"code"
    assert made == ["ahead_1"] * 2


def test_what_was_not_begun_is_dropped(several: None, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    go_on = threading.Event()

    def slow(self: Request) -> Callable[[], bytes]:
        def wait() -> bytes:
            begun.append(self.symbol)
            go_on.wait(20)
            return b"code"

        return wait

    monkeypatch.setattr(Request, "prepare", slow)
    try:
        with pytest.raises(KeyboardInterrupt), Ahead({str(n): request(n) for n in range(20)}):
            assert waited(lambda: len(begun) == 3)
            raise KeyboardInterrupt
    finally:
        go_on.set()
    assert waited(lambda: not list(of_ours()))
    assert len(begun) == 3


def test_nobody_waits_for_threads_that_cannot_start(
    several: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    with Ahead({str(n): request(n) for n in range(3)}) as found:
        assert all(found.take(str(n)) for n in range(3))


def test_one_cpu_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert ahead.helpers(10) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(ahead, "get_num_threads", lambda: 64)
    assert [ahead.helpers(n) for n in (0, 1, 2, 5, 100)] == [0, 1, 2, 5, ahead.MOST]
    monkeypatch.setattr(ahead, "get_num_threads", lambda: 1)
    assert ahead.helpers(100) == 0


def program(x: tj.Tensor, y: tj.Tensor) -> tj.Tensor:
    a = (x.exp() @ y).tanh()
    b = (a.softmax(-1) @ y).sigmoid()
    c = (b.cumsum(0) @ y).sin()
    return (c.sum(0) @ y).log1p().sum() + (a - b).abs().amax()


def result() -> list[bytes]:
    tj.manual_seed(3)
    x, y = tj.rand(7, 5, requires_grad=True), tj.rand(5, 5, requires_grad=True)
    f = tj.compile(program, strict=True)
    for _ in range(3):
        x.grad = y.grad = None
        out = f(x, y)
        out.backward()
    assert f.stats.compiled_calls == 2
    return [t.numpy().tobytes() for t in (out.detach(), x.grad, y.grad)]


def test_programs_are_the_same(
    several: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found, counts = [], []
    for name, helpers in (("one", lambda _: 0), ("four", lambda jobs: min(jobs, 3))):
        monkeypatch.setattr(ahead, "helpers", helpers)
        monkeypatch.setattr(kernels, "_addresses", {})
        monkeypatch.setattr(store, "_default", store.KernelStore(tmp_path / name))
        before = kernels.COUNTS.compiled
        found.append(result())
        counts.append(kernels.COUNTS.compiled - before)
    assert found[0] == found[1]
    assert counts[0] == counts[1] > 4
    assert waited(lambda: not list(of_ours()))


def test_interrupted_with_threads_under_way(
    several: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernels, "_addresses", {})
    monkeypatch.setattr(store, "_default", store.KernelStore(tmp_path))
    real = Ahead.take
    asked: list[str] = []

    def interrupted(self: Ahead, key: str) -> bytes:
        asked.append(key)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(self, key)

    monkeypatch.setattr(Ahead, "take", interrupted)
    f = tj.compile(program)
    x, y = tj.rand(7, 5), tj.rand(5, 5)
    want = f(x, y)
    with pytest.raises(KeyboardInterrupt):
        f(x, y)
    assert tj.allclose(f(x, y), want)
    assert f.stats.compiled_calls == 1
    assert waited(lambda: not list(of_ours()))
