"""What compiled calls need is loaded behind the import, before anyone asks for it.

Whoever imports the package is about to compile something, but first imports more, reads data, makes a model. Meanwhile
a thread imports the compiler and loads the native runtime (or makes it, once per machine, where the store lacks it),
so that the first calls find them there. Nothing is computed, and nothing waits for it: whoever asks sooner imports by
himself what is not there yet.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from importlib import import_module

from . import config
from .runtime.behind import worker

__all__ = ["load_early", "load_now"]

log = logging.getLogger("tracejit")

#: Seconds after which it begins: a process that ends by then has paid nothing.
DELAY = 0.02
#: Seconds between two pieces, in which it shows whether the program is busy, and for how many times as long as a piece
#: took the next one then waits: the program is to run as fast as ever.
PAUSE, REST = 0.002, 10.0
#: The share of the time from which on the program is busy.
BUSY = 0.2
#: What `tracejit.jit` imports and what compiles, in pieces between which the program, a fork or its end need not wait.
_PIECES = (
    *(
        "passes.gradient.gradient",
        "passes.fusion.groups",
        "passes.gradient.partition",
        "passes.windows.taps",
        "passes.pipeline",
    ),
    *(
        "codegen.kernel",
        "runtime.machine_code.kernels",
        "codegen.along",
        "codegen.cpu.rows",
        "codegen.cpu.cpu",
    ),
    *(
        "runtime.blas",
        "runtime.plan.assembly",
        "runtime.tiled.tiles",
        "runtime.plan.plan",
        "runtime.program",
        "runtime.kept.plans",
    ),
    *(
        "trace.recording.inputs",
        "trace.recording.functions_inside",
        "trace.recording.gradients_inside",
        "trace.recording.recording",
    ),
    *(
        "trace.tree.tree",
        "trace.tree.structure",
        "trace.backward.backward",
        "trace.backward.node",
        "trace.recording.results",
    ),
    *(
        "trace.recording.recorder",
        "trace.recording.recorded_run",
        "trace.rolling.rolling",
        "trace.rolling.tree",
        "jit",
    ),
)
_LOWERING = tuple(f"codegen.lower.{x}" for x in ("types", "body", "widen", "function", "lower"))


def load_early() -> None:
    """Have it all done behind the program, where that is wanted; helpers that a program starts compile nothing.

    >>> load_early()
    """
    if _wanted() and not _is_helper():
        _continue(_pieces(), _Others(), DELAY)


def load_now() -> None:
    """Have the runtime made at once: this thread is about to import the rest.

    >>> load_now()
    """
    if _wanted():
        from .runtime.readiness import make_ready

        make_ready()


def _wanted() -> bool:
    return config.loads_early and not config.disabled


class _Others:
    """What the rest of the process computes."""

    def __init__(self) -> None:
        self.seen = self._now()

    def busy(self) -> bool:
        """Have others been busy since the last time this was asked?"""
        (start, before), self.seen = self.seen, self._now()
        return self.seen[1] - before > BUSY * (self.seen[0] - start)

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), time.process_time() - time.thread_time()


def _continue(pieces: Iterator[None], others: _Others, delay: float) -> None:
    """Have the next piece done, and then those after it."""

    def one() -> None:
        busy, start = others.busy(), time.perf_counter()
        try:
            next(pieces)
        except StopIteration:
            return
        except Exception:  # whoever needs it will say so
            log.debug("the compiler could not be loaded early", exc_info=True)
            return
        others.busy()
        _continue(pieces, others, REST * (time.perf_counter() - start) if busy else PAUSE)

    worker().submit(one, delay, compiles=False)


def _pieces() -> Iterator[None]:
    import_module("concurrent.futures.thread")  # for reductions of large arrays
    for name in _PIECES:
        import_module(f"tracejit.{name}")
        yield
    from .runtime.native.native import stored
    from .trace.behind import warm_up

    if not stored():  # kernels will have to be compiled, too
        for name in _LOWERING:
            import_module(f"tracejit.{name}")
            yield
        import_module("llvmlite.binding")
        yield
    warm_up()


def _is_helper() -> bool:
    """Was this process started by another one's ``multiprocessing``?"""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None
