"""Which threads beside the one that records might run a user's code, and which code that is."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tracejit as tj
from tracejit.trace.state.other_threads import codes_of, others_compute, others_run


@contextmanager
def beside(function, kind: type[threading.Thread] = threading.Thread) -> Iterator[None]:
    """A thread that runs a function, which gets an event that ends it."""
    over, begun = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        function(over)

    thread = kind(target=run)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_threads_that_wait_might_run_anything_later() -> None:
    assert not others_run()
    with beside(threading.Event.wait):
        assert others_run()
        assert not others_compute()
    assert not others_run()


@pytest.mark.parametrize("home", ["tqdm._monitor", "ipykernel.heartbeat", "zmq"])
def test_threads_that_watch_over_a_program_do_not_count(home: str) -> None:
    kind = type("Watch", (threading.Thread,), {"__module__": home})
    with beside(threading.Event.wait, kind):
        assert not others_run()


def test_threads_that_nobody_started_count_while_they_are_in_python() -> None:
    import _thread

    named, over, gone = threading.Event(), threading.Event(), threading.Event()

    def run() -> None:
        threading.current_thread()  # from now on it is known
        named.set()
        over.wait()
        gone.set()

    _thread.start_new_thread(run, ())
    named.wait()
    assert others_run()
    over.set()
    gone.wait()
    for _ in range(1000):
        if not others_run():
            break
        threading.Event().wait(0.01)
    assert not others_run()


def test_threads_inside_of_the_package_compute() -> None:
    inside, over = threading.Event(), threading.Event()

    def ask(grad):
        inside.set()
        over.wait()
        return grad

    def run(_: threading.Event) -> None:
        x = tj.ones(2, requires_grad=True)
        x.register_hook(ask)
        x.sum().backward()

    with beside(run):
        inside.wait()
        try:
            assert others_compute()
        finally:
            over.set()
    assert not others_compute()


SOURCE = """
def plain(): return (lambda: 1)

class Net:
    def method(self): pass
    @staticmethod
    def alone(): pass
    @property
    def rate(self): pass

def decorator(f):
    def inside(): return f()
    return inside

@decorator
def decorated(): pass
"""


def test_the_code_of_a_module_is_found_in_functions_classes_and_decorators() -> None:
    module = types.ModuleType("own")
    exec(SOURCE, vars(module))
    module.Net.__module__ = "own"
    module.kept = functools.lru_cache(lambda: None)
    module.other = threading.Thread  # another module's
    module.cached = functools.lru_cache(types.FunctionType(compile("0", "f", "eval"), vars(module)))
    names = {code.co_name for code in codes_of(vars(module))}
    assert names == {
        *("plain", "<lambda>", "method", "alone", "rate", "decorator", "inside", "decorated"),
        "<module>",
    }
