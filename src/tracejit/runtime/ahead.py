"""Compiling the kernels of plans in several threads.

A planner prints its kernels first and hands over those that have to go through LLVM, which runs without Python's lock.
Helpers compile them, the longest first, while it plans with promises of their addresses (`machine_code.promised`) and
goes on to the next plan. One that no helper has begun when it is needed is compiled by whoever needs it, and who waits
for one that a helper has begun compiles others. So nobody waits for a thread that has not begun, and where there are
none all is as it was.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple, Protocol

from ..locks import renewed_lock
from .occupied import occupied
from .threads import get_num_threads
from .turns import short_turns

__all__ = ["NONE", "Ahead", "Job", "Request", "TooLong", "under_way", "wait", "within"]

#: About how long a letter of a function's text is compiled, in seconds.
_PER_LETTER = 4e-6
#: More than this many helpers have never had anything to do.
MOST = 7


class Job(Protocol):
    """Something to compile."""

    @property
    def source(self) -> str:
        """Its text."""

    def prepare(self) -> Callable[[], bytes]:
        """Do what needs Python's lock; the function returned makes the object code."""


class Request(NamedTuple):
    """A function to compile: its text, the name it has there, and how thoroughly."""

    source: str
    symbol: str
    thorough: bool

    def prepare(self) -> Callable[[], bytes]:
        """Lower it; the function returned has LLVM make the object code."""
        from ..codegen.llvm import prepared

        return prepared(self.source, self.symbol, thorough=self.thorough)


class TooLong(Exception):
    """Waiting for kernels would take longer than it may; they are compiled all the same."""


class _Limit(threading.local):
    """The seconds that this thread may wait for functions to be compiled."""

    seconds: float | None = None


_limit = _Limit()


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Who would wait longer than this, by estimate, for what is handed over inside, gets a `TooLong` from `wait`.

    >>> with within(1.0), Ahead({}) as ahead:
    ...     ahead.add({})
    ...     wait()
    """
    _limit.seconds = seconds
    try:
        yield
    finally:
        _limit.seconds = None


def wait() -> None:
    """This thread is about to wait for functions that it handed over.

    >>> wait()
    """
    if _limit.seconds is not None and _limit.seconds < 0.0:
        raise TooLong


class _Job:
    """A request and what became of it."""

    def __init__(self, request: Job) -> None:
        self.request = request
        self.compile: Callable[[], bytes] | None = None
        self.code: bytes | None = None
        self.error: BaseException | None = None
        self.renew()

    def renew(self) -> None:
        """Nobody has begun it."""
        self.begun = threading.Lock()
        self.done = threading.Event()

    def rank(self) -> int:
        """Where it is in the queue: the longest text first, which takes longest.

        What is begun last is then short, and nobody waits for it alone. The kernels of a loop's body, which are printed
        later than what is around it, are often the longest.
        """
        return -len(self.request.source)

    def prepare(self) -> None:
        """Do what needs Python's lock: helpers that wait for it would only be in the way."""
        try:
            self.compile = self.request.prepare()
        except Exception as error:  # noqa: BLE001  (raised where the code is asked for)
            self.error = error
            self.begun.acquire(blocking=False)
            self.done.set()

    def help(self) -> None:
        """Compile it unless somebody else does; what goes wrong is also told to whoever asks for it."""
        begun, done = self.begun, self.done
        if not begun.acquire(blocking=False):
            return
        try:
            if self.compile is None:
                self.compile = self.request.prepare()
            self.code = self.compile()
        except Exception as error:
            self.error = error
            raise
        finally:
            interrupted = self.code is None and self.error is None
            if interrupted:  # whoever needs it begins anew
                self.renew()
            done.set()

    def result(self) -> bytes:
        """The code, once it is done."""
        while True:
            self.done.wait()
            if self.code is not None:
                return self.code
            if self.error is not None:
                raise self.error
            self.help()


class _Queue:
    """What nobody has begun, of all plans, by rank."""

    def __init__(self) -> None:
        self.jobs: list[_Job] = []
        self.lock = renewed_lock()

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: _Job) -> None:
        """Put a job behind those of its rank."""
        with self.lock:
            insort(self.jobs, job, key=_Job.rank)

    def take(self, place: int) -> _Job | None:
        """Take out the first (0) or the last (-1) one, if there is any."""
        with self.lock:
            return self.jobs.pop(place) if self.jobs else None

    def remove(self, job: _Job) -> None:
        """Drop a job, unless it was taken."""
        with self.lock, contextlib.suppress(ValueError):
            self.jobs.remove(job)


_queue = _Queue()
#: All there is, by key: two plans may need the same.
_known: weakref.WeakValueDictionary[str, _Job] = weakref.WeakValueDictionary()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class Ahead:
    """Functions on their way through LLVM, by key. Use as a context manager: an error drops what was not begun.

    >>> text = 'def nothing(lo: "i64", hi: "i64", worker: "i64") -> "i32":\\n    return 0\\n'
    >>> with Ahead({"key": Request(text, "nothing", False)}) as ahead:
    ...     len(ahead.take("key")) > 0
    True
    """

    def __init__(self, requests: Mapping[str, Job]) -> None:
        self._requests = requests
        self._jobs: dict[str, _Job] = {}

    def __enter__(self) -> Ahead:
        self.add(self._requests)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            for job in self._jobs.values():
                _queue.remove(job)

    def __contains__(self, key: str) -> bool:
        return key in self._jobs

    def add(self, requests: Mapping[str, Job]) -> None:
        """Have more functions compiled."""
        if _limit.seconds is not None:
            letters = sum(len(request.source) for request in requests.values())
            _limit.seconds -= letters * _PER_LETTER
        new = []
        for key, request in requests.items():
            job = _known.get(key)
            if job is None:
                job = _known[key] = _Job(request)
                new.append(job)
            self._jobs[key] = job
        for job in sorted(new, key=_Job.rank):
            job.prepare()
            _queue.add(job)
            _start_helpers()

    def take(self, key: str) -> bytes:
        """The object code of a function; raises what compiling it raised."""
        job = self._jobs.pop(key)
        with contextlib.suppress(Exception):
            job.help()
        while not job.done.is_set():
            other = _queue.take(-1)
            if other is None:
                break
            with contextlib.suppress(Exception):
                other.help()
        return job.result()


def helpers(jobs: int) -> int:
    """How many threads beside this one are worth having: one of each CPU, and no more than the package may use.

    >>> helpers(0)
    0
    """
    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(0, min(jobs, usable - 1, get_num_threads() - 1, MOST))


def under_way() -> bool:
    """Do helpers compile at the moment?

    >>> under_way() in (False, True)
    True
    """
    return any(thread.is_alive() for thread in list(_threads))


def _start_helpers() -> None:
    """Have so many threads as there is work for."""
    for _ in range(helpers(len(_queue)) - sum(t.is_alive() for t in list(_threads))):
        thread = threading.Thread(target=_help, name="tracejit-compile")
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the program ends
            return
        _threads.add(thread)


def _help() -> None:
    while (job := _queue.take(0)) is not None:
        with contextlib.suppress(BaseException), occupied(), short_turns():
            job.help()


def _after_fork() -> None:
    """In the child nobody goes on with what helpers had begun: whoever needs it begins it anew."""
    for job in list(_known.values()):
        if not job.done.is_set():
            job.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

#: Nothing is compiled ahead.
NONE = Ahead({})
