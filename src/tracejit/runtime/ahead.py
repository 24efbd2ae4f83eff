"""Compiling the kernels of a plan in several threads.

A planner prints its kernels first and hands over those that have to go through LLVM, which runs without Python's lock.
Helpers compile them one after the other while the planner goes on; one that no helper has begun when it is needed the
planner compiles itself, and while it waits for one that a helper has begun it compiles others. So nobody waits for a
thread that has not begun, and where there are none all is as it was.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Protocol

from .occupied import occupied
from .threads import get_num_threads

__all__ = ["NONE", "Ahead", "Job", "Request"]

#: More than this many helpers have never had anything to do.
MOST = 7


class Job(Protocol):
    """Something to compile."""

    @property
    def source(self) -> str:
        """Its text."""

    def compile(self) -> bytes:
        """The object code."""


class Request(NamedTuple):
    """A function to compile: its text, the name it has there, and how thoroughly."""

    source: str
    symbol: str
    thorough: bool

    def compile(self) -> bytes:
        """The object code."""
        from ..codegen.llvm import compile_first, compile_source

        if self.thorough:
            return compile_source(self.source, self.symbol, thorough=True)
        return compile_first(self.source, self.symbol)


class _Job:
    """A request and what became of it."""

    def __init__(self, request: Job) -> None:
        self.request = request
        self.begun = threading.Lock()
        self.done = threading.Event()
        self.code: bytes | None = None
        self.error: BaseException | None = None

    def length(self) -> int:
        """How long the text is, and so about how long it takes."""
        return len(self.request.source)

    def help(self) -> None:
        """Compile it unless somebody else does; what goes wrong is also told to whoever asks for it."""
        if not self.begun.acquire(blocking=False):
            return
        try:
            self.code = self.request.compile()
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.done.set()

    def result(self) -> bytes:
        """The code, once it is done."""
        self.done.wait()
        if self.code is None:
            assert self.error is not None
            raise self.error
        return self.code


class Ahead:
    """Functions on their way through LLVM, by key. Use as a context manager: what was not begun ends with the block.

    >>> text = 'def nothing(lo: "i64", hi: "i64", worker: "i64") -> "i32":\\n    return 0\\n'
    >>> with Ahead({"key": Request(text, "nothing", False)}) as ahead:
    ...     len(ahead.take("key")) > 0
    True
    """

    def __init__(self, requests: Mapping[str, Job]) -> None:
        self._jobs = {key: _Job(request) for key, request in requests.items()}
        # The longest first: what is left over at the end, when some have nothing to do, is then short.
        longest = sorted(self._jobs.values(), key=_Job.length, reverse=True)
        self._queue: deque[_Job] = deque(longest)

    def __enter__(self) -> Ahead:
        for _ in range(helpers(len(self._jobs))):
            thread = threading.Thread(target=_help, args=(self._queue,), name="tracejit-compile")
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the program ends
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._queue.clear()

    def __contains__(self, key: str) -> bool:
        return key in self._jobs

    def take(self, key: str) -> bytes:
        """The object code of a function; raises what compiling it raised."""
        job = self._jobs.pop(key)
        if job.begun.acquire(blocking=False):
            return job.request.compile()
        while not job.done.is_set():
            try:
                other = self._queue.pop()
            except IndexError:
                break
            with contextlib.suppress(Exception):
                other.help()
        return job.result()


def helpers(jobs: int) -> int:
    """How many threads beside this one are worth starting: one of each CPU, and no more than the package may use.

    >>> helpers(1)
    0
    """
    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(0, min(jobs, usable, get_num_threads(), MOST + 1) - 1)


def _help(queue: deque[_Job]) -> None:
    while True:
        try:
            job = queue.popleft()
        except IndexError:
            return
        with contextlib.suppress(BaseException), occupied():
            job.help()


#: Nothing is compiled ahead.
NONE = Ahead({})
