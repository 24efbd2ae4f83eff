"""Garbage collection around planning: off meanwhile, and as it was afterwards whatever happens."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

import tracejit as tj
from tracejit.trace.collecting import without_collection
from tracejit.trace.entry import Entry


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_on_again_after_an_error() -> None:
    for error in (ValueError, KeyboardInterrupt):

        def fails(error: type[BaseException] = error) -> None:
            assert not gc.isenabled()
            raise error

        with pytest.raises(error):
            without_collection(fails)
        assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    without_collection(lambda: None)
    assert not gc.isenabled()


@pytest.mark.parametrize("first", ["outer", "inner"])
def test_two_threads(first: str) -> None:
    inside, ended = threading.Event(), threading.Event()

    def waits() -> None:
        inside.set()
        ended.wait(20)

    thread = threading.Thread(target=without_collection, args=(waits,))
    thread.start()
    assert inside.wait(20)
    if first == "inner":
        without_collection(lambda: None)
        assert not gc.isenabled()
        ended.set()
        thread.join()
    else:

        def ends() -> None:
            ended.set()
            thread.join()

        without_collection(ends)
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_collects_though_the_parent_does_not() -> None:
    inside, ended = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=without_collection, args=(lambda: inside.set() or ended.wait(20),)
    )
    thread.start()
    assert inside.wait(20)
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended.set()
    thread.join()
    assert status == 0


def test_the_users_own_code_runs_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    real = Entry.compile

    def compile_(self: Entry) -> None:
        seen.append(gc.isenabled())
        real(self)

    monkeypatch.setattr(Entry, "compile", compile_)

    class Watching(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(gc.isenabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(gc.isenabled())
            return g * 2

    f = tj.compile(lambda x: (x * 3.0625).sum())
    x = tj.ones(3, requires_grad=True)
    for _ in range(2):
        f(Watching.apply(x)).backward()
    assert seen == [True, True, True, False, True]
    assert gc.isenabled()
