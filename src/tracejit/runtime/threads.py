"""One thread pool for every kernel of the process.

Workers are daemon threads that enter native code and stay there: between jobs they spin for some
tens of microseconds (up to a millisecond where that has paid) and then sleep, so a job that
follows another starts within a microsecond or two and an idle process uses no CPU. The thread
that launches a program takes part as worker 0. The pool starts with the first step that wants it,
is rebuilt after a fork and after `set_num_threads`, and where the platform has no pthreads
kernels run on one thread.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import sys
import threading
import time
from functools import cache
from typing import Any

from tracejit import config
from tracejit.locks import renewed_lock
from tracejit.runtime.native.launcher_ir import CONTEXT, MASK_BYTES, POOL, POOL_CELLS
from tracejit.runtime.native.native import context, native, set_context
from tracejit.runtime.occupied import is_occupied, watchers

__all__ = ["MAX_THREADS", "get_num_threads", "planned_workers", "set_num_threads"]

_log = logging.getLogger("tracejit.threads")

#: Workers have numbers below this.
MAX_THREADS = 256
_SPIN_SECONDS = 40e-6
_PATIENCE = 20  # times as long where the next job has come soon
_PTHREAD_OBJECT_BYTES = 256  # more than any platform's pthread_mutex_t or pthread_cond_t

_lock = renewed_lock()
_configured = 0  # as asked for; 0: not decided yet


class _Pool:
    """The native memory of one pool and its threads. The memory is never given back."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        words = POOL_CELLS + 8 * threads
        self._memory = (ctypes.c_int64 * (words + 8))()
        # Aligned to a cache line: the words are laid out by lines.
        self.address = (ctypes.addressof(self._memory) + 63) & ~63
        self._words = (ctypes.c_int64 * words).from_address(self.address)
        self._mutex = ctypes.create_string_buffer(_PTHREAD_OBJECT_BYTES)
        self._condition = ctypes.create_string_buffer(_PTHREAD_OBJECT_BYTES)
        process = ctypes.CDLL(None)
        process.pthread_mutex_init(self._mutex, None)
        process.pthread_cond_init(self._condition, None)
        self._set("threads", threads)
        self._set("spins", _spins_of(_SPIN_SECONDS))
        self.set_patience()
        self._set("mutex", ctypes.addressof(self._mutex))
        self._set("condition", ctypes.addressof(self._condition))
        self.workers: list[threading.Thread] = []

    def set_patience(self) -> None:
        """Spin for long only while nobody compiles, who needs the processor."""
        self._set("patience", 1 if is_occupied() else _PATIENCE)

    def _set(self, word: str, value: int) -> None:
        self._words[POOL[word]] = value

    def start(self) -> None:
        worker = native().worker
        for index in range(1, self.threads):
            thread = threading.Thread(
                target=worker,
                args=(self.address, index),
                name=f"tracejit-worker-{index}",
                daemon=True,
            )
            thread.start()
            self.workers.append(thread)
        self._let_the_caller_place_them()

    def _let_the_caller_place_them(self) -> None:
        """Give native code what it needs to keep workers off the caller's CPU."""
        if not native().can_place:
            return
        allowed = os.sched_getaffinity(0)
        if not 1 < self.threads <= len(allowed) or max(allowed) >= 8 * MASK_BYTES:
            return
        whole = sum(1 << cpu for cpu in allowed)
        masks = [
            (whole & ~(1 << cpu) if cpu in allowed else whole).to_bytes(MASK_BYTES, sys.byteorder)
            for cpu in range(8 * MASK_BYTES)
        ]
        self._masks = ctypes.create_string_buffer(b"".join(masks))
        ids = [0, *(thread.native_id or 0 for thread in self.workers)]
        self._ids = (ctypes.c_int32 * len(ids))(*ids)
        self._set("caller_cpu", -1)
        self._set("thread_ids", ctypes.addressof(self._ids))
        self._set("masks", ctypes.addressof(self._masks))

    def stop(self, timeout: float = 1.0) -> None:
        self._set("stop", 1)
        native().wake(self.address)
        deadline = time.monotonic() + timeout
        for thread in self.workers:
            thread.join(max(0.0, deadline - time.monotonic()))


_pool: _Pool | None = None
_kept: list[Any] = []  # pools of the past: a launch of another thread may still use their memory


def get_num_threads() -> int:
    """How many threads run kernels, the calling one included.

    By default `TRACEJIT_NUM_THREADS`, else the number of CPUs this process may use.

    >>> get_num_threads() >= 1
    True
    """
    if _configured == 0:
        _configure(_usual())
    return int(context[CONTEXT["threads"]])


def planned_workers() -> int:
    """For how many workers memory is planned: for all there are now, or would be by default.

    >>> planned_workers() >= get_num_threads()
    True
    """
    return min(max(get_num_threads(), _usual()), MAX_THREADS)


@cache
def _usual() -> int:
    """How many threads there are by default, asked once: it reads the environment, and warns of what it finds there."""
    return config.default_threads()


def set_num_threads(threads: int) -> None:
    """Run kernels on `threads` threads from now on, the calling one included.

    Raises ValueError unless `threads` is a positive integer. More than 256 count as 256.

    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> get_num_threads()
    1
    >>> set_num_threads(before)
    """
    if type(threads) is not int or threads < 1:
        raise ValueError(f"the number of threads is a positive integer, not {threads!r}")
    _configure(threads)


def _configure(threads: int) -> None:
    global _configured
    with _lock:
        _configured = min(threads, MAX_THREADS)
        if _pool is not None and _pool.threads != _configured:
            _retire()
        config.threads = _configured if _blocking_possible() else 1
        set_context("threads", config.threads)


def _blocking_possible() -> bool:
    return os.name == "posix"


def _start_pool() -> None:
    """Called by native code, with the GIL, when a step wants threads and there are none yet."""
    global _pool
    with _lock:
        if context[CONTEXT["pool"]] or _configured <= 1:
            return
        try:
            if not native().can_block:
                raise RuntimeError("no pthreads")
            pool = _Pool(_configured)
            _kept.append(pool)
            pool.start()
        except RuntimeError as error:
            set_context("threads", 1)
            _log.warning("kernels run on one thread: the thread pool cannot start (%s)", error)
            return
        _pool = pool
        set_context("pool", pool.address)


def _retire() -> None:
    """Stop the pool's threads; a job in progress is finished by those inside it."""
    global _pool
    pool, _pool = _pool, None
    set_context("pool", 0)
    if pool is not None:
        pool.stop()


def _spins_of(seconds: float) -> int:
    """How many pauses last `seconds`."""
    spin = native().spin
    count, best = 2000, float("inf")
    for _ in range(3):
        start = time.perf_counter()
        spin(count)
        best = min(best, time.perf_counter() - start)
    return max(100, min(200_000, int(count * seconds / best)))


def _after_fork() -> None:
    # Only the forking thread lives on in the child: no workers.
    global _pool
    _pool = None
    for word in ("pool", "blas_lock", "blas_depth"):
        set_context(word, 0)


def _at_exit() -> None:
    with _lock:
        set_context("threads", 1)
        _retire()


def _set_patience() -> None:
    pool = _pool
    if pool is not None:
        pool.set_patience()


watchers.append(_set_patience)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
set_context("start_pool", id(_start_pool))
