"""Work done behind the program's back: one thread that takes jobs one after the other.

The thread starts with the first job and ends when there has been none for a while. What nobody waits for is done once
there has been nothing else to do for a moment. LLVM runs without Python's lock, so
most of a compilation does not slow the program down. A fork waits until the job under way is done (a thread does not
survive a fork, and the locks it held would stay locked); jobs not begun are begun by the child's own thread as soon
as it asks for one. At the end of the program jobs not begun are dropped, and the one under way gives up before
its next kernel.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from ..locks import renewed_lock
from .counts import COUNTS, gates
from .occupied import occupied

__all__ = ["Abandoned", "Worker", "worker"]

log = logging.getLogger("tracejit")

#: Seconds without a job after which the thread ends.
PATIENCE = 2.0
#: Seconds without a job after which the thread does what nobody waits for.
IDLE = 0.5
#: Seconds a fork waits for the job under way.
FORK_PATIENCE = 60.0


class Abandoned(Exception):
    """The program ends: what is being compiled will not be needed."""


class _Light(partial[None]):
    """A job that does not compile."""


class Worker:
    """A queue of jobs and the thread that does them.

    >>> found, done = Worker(), []
    >>> found.submit(lambda: done.append(1))
    >>> found.wait(10.0), done
    (True, [1])
    """

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._idle_jobs: deque[Callable[[], None]] = deque()
        #: A number that moves while others compile, who are not to be disturbed by idle jobs.
        self.progress: Callable[[], int] = int
        self._ending = self._forking = False
        self._begin = 0.0
        self._renew()

    def _renew(self) -> None:
        """Locks that nobody holds, and no thread."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._running = 0

    def submit(self, job: Callable[[], None], delay: float = 0.0, *, compiles: bool = True) -> None:
        """Have a job done, ``delay`` seconds from now at the earliest unless another one is asked for sooner.

        While it ``compiles`` its processor is left to it.
        """
        if self._ending:
            return
        with self._changed:
            begin = time.monotonic() + delay
            self._begin = min(self._begin, begin) if self._jobs else begin
            self._jobs.append(job if compiles else _Light(job))
            self._changed.notify_all()
        self.ensure()

    def submit_idle(self, job: Callable[[], None]) -> None:
        """Have a job done that nobody waits for, not even :meth:`wait`; it is dropped at the end of the program."""
        self._idle_jobs.append(job)
        self.ensure()

    def ensure(self) -> None:
        """Start a thread where there are jobs and none is there to do them; jobs stay where none can be started."""
        if self._ending or not (self._jobs or self._idle_jobs):
            return
        with self._changed:
            if self._thread is None and not self._forking:
                thread = threading.Thread(target=self._run, name="tracejit compiler", daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads, or the program ends
                    thread.start()
                    self._thread = thread

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all jobs are done; False when that takes longer than ``timeout`` seconds."""
        self.ensure()
        with self._changed:
            if self._jobs and self._thread is None:
                return False
            return self._changed.wait_for(lambda: not self._jobs and not self._running, timeout)

    def check(self) -> None:
        """Called before what takes long: raises :class:`Abandoned` in the thread of an ending program."""
        if self._ending and threading.current_thread() is self._thread:
            raise Abandoned

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                with nullcontext() if isinstance(job, _Light) else occupied():
                    job()
            except Abandoned:
                pass
            except BaseException:
                log.exception("a job behind the program failed")
            finally:
                with self._changed:
                    self._running = 0
                    self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        """The next job, which is waited for; None when the thread is to end."""
        with self._changed:
            rested = False
            while not (self._ending or self._forking):
                if self._jobs:
                    early = self._begin - time.monotonic()
                    if early <= 0:
                        self._running = 1
                        return self._jobs.popleft()
                    self._changed.wait(early)
                elif self._idle_jobs and rested:
                    return self._idle_jobs.popleft()
                elif rested:
                    break
                else:
                    before = self.progress()
                    self._changed.wait(IDLE if self._idle_jobs else PATIENCE)
                    rested = not self._idle_jobs or self.progress() == before
            self._thread = None
            self._changed.notify_all()
            return None

    # --- forks and the end -----------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Have the thread end after the job under way: those who fork beside threads are warned."""
        with self._changed:
            self._forking = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(FORK_PATIENCE)

    def after_fork_in_parent(self) -> None:
        """Go on with what is left when somebody asks for it next."""
        self._forking = False

    def after_fork_in_child(self) -> None:
        """Begin anew."""
        self._forking = False
        self._renew()

    def stop(self) -> None:
        """Drop what was not begun and wait for the rest."""
        self._ending = True
        with self._changed:
            self._jobs.clear()
            self._idle_jobs.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()


_worker: Worker | None = None
_lock = renewed_lock()


def worker() -> Worker:
    """The worker of this process.

    >>> worker() is worker()
    True
    """
    global _worker
    if _worker is None:
        with _lock:
            if _worker is None:
                _worker = _started()
    return _worker


def _started() -> Worker:
    found = Worker()
    found.progress = lambda: COUNTS.compiled
    gates.append(found.check)
    atexit.register(found.stop)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=found.before_fork,
            after_in_parent=found.after_fork_in_parent,
            after_in_child=found.after_fork_in_child,
        )
    return found
