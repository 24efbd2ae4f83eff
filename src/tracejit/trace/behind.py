"""Compiling an entry behind the program's back (``compile(mode="background")``).

The call that records an entry asks for its kernels and returns; until they are there, calls run eagerly. What goes
wrong is told by the first call after it, in the caller's thread. Backward passes are compiled too, for gradients that
lie in order, so that the first ``backward()`` finds them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..dtypes import DType, assuming, get_default_dtype
from ..layout import contiguous_layout
from ..modes import MODES
from ..runtime.behind import Abandoned, worker
from ..runtime.blas import find_blas
from ..runtime.kept.plans import surroundings
from ..runtime.machine_code.kernels import versions
from ..runtime.native.native import prepare, stored
from ..runtime.readiness import make_ready
from ..scalar_math.library import names
from .replay.ending import NotReplayable
from .state.package import asking_functions, replaced
from .tree.tree import Segment

if TYPE_CHECKING:
    from .entry import Entry

log = logging.getLogger("tracejit")

#: Seconds after a first call before the worker makes ready what compiling needs: the step it is part of goes on.
REST = 0.05
#: Errors that need not come again when the same is compiled once more.
PASSING = (SystemError, MemoryError, OSError)


class Pending(Exception):
    """The kernels are not there yet: this call runs eagerly."""


class Behind:
    """How far the kernels of an entry are.

    ``waiting`` from the request to the end, ``calls`` that ran eagerly meanwhile.
    """

    def __init__(self) -> None:
        self.waiting = False
        self.calls = 0
        self.seconds = 0.0
        self.unreported: str | None = None

    def request(self, entry: Entry) -> None:
        """Have the entry compiled, unless that is under way, or every run so far ended in an error."""
        served = entry.compiled or entry.failure is not None or entry.root.empty
        if not self.waiting and not served:
            self.waiting = True
            modes = MODES.grad, MODES.inference, get_default_dtype()
            worker().submit(lambda: self.compile(entry, modes))

    def serve(self, entry: Entry) -> None:
        """Return when the entry can run compiled; otherwise raise why not."""
        if self.unreported is not None:
            reason, self.unreported = self.unreported, None
            entry.owner.compile_failed(reason)
        if entry.failure is not None:
            raise NotReplayable(entry.failure)
        if entry.compiled:
            return
        self.request(entry)
        worker().ensure()
        self.calls += 1
        raise Pending

    def compile(self, entry: Entry, modes: tuple[bool, bool, DType]) -> None:
        """What the worker does, in the modes of the call that was recorded."""
        start = time.perf_counter()
        MODES.grad, MODES.inference, default = modes
        try:
            prepare()
            with entry._lock, assuming(default):
                entry.compile()
        except Abandoned:
            raise
        except Exception as error:
            log.debug("compilation failed", exc_info=True)
            if isinstance(error, PASSING) and not entry.tried:
                entry.tried = True  # the next call asks once more
                return
            entry.failure = self.unreported = why_failed(error)
        finally:
            self.seconds = time.perf_counter() - start
            self.waiting = False

    def describe(self) -> str:
        """The state in words, for ``explain()``."""
        if self.waiting:
            return f"being compiled in the background: {self.calls} call(s) ran eagerly so far"
        return (
            f"compiled in the background in {self.seconds:.3f} s: {self.calls} call(s) ran eagerly "
            "meanwhile"
        )


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Have the worker make what every recording and every program needs; once.

    Whoever compiles a function is about to call it: what is ready by then no call waits for. What the worker would come
    to too late is done at once.
    """
    with suppress(OSError):  # whoever needs it is told
        surroundings()
    make_ready()
    worker().submit(_read_package, compiles=False)
    if stored():  # kernels will be there, too: a first call needs nothing of the compiler
        worker().submit_idle(_read_versions)
    else:
        worker().submit(_read_compiler, compiles=False)


def followed_by_warm_up(run: Callable[..., Any], *given: Any) -> Any:
    """What a first call gives that nobody waits to have compiled: the worker does not take its time from it."""
    try:
        return run(*given)
    finally:
        worker().submit(warm_up, REST, compiles=False)


def _read_package() -> None:
    asking_functions()
    replaced()


def _read_compiler() -> None:
    """What the keys of kernels and their text begin with, and which BLAS there is."""
    _read_versions()
    names()


def _read_versions() -> None:
    """The same without the text, which is parsed: at an idle moment the program may be parsing, too (gh-106905)."""
    versions()
    find_blas()


def why_failed(error: Exception) -> str:
    """Why a compilation failed, for explanations and warnings."""
    reason = getattr(error, "summary", None) or str(error)
    return f"a kernel could not be compiled ({type(error).__name__}: {reason})"


def compile_backwards(root: Segment) -> None:
    """Compile the backward pass of every path; one that fails is left to the first ``backward()`` to report."""
    for leaf in root.leaves():
        backward = leaf.backward
        if not backward:
            continue
        types = [leaf.shown[i].spec for i in backward.seeds]
        layouts = tuple(contiguous_layout(kind, backward.plan.device) for kind in types)
        if layouts in backward.programs:
            continue
        try:
            backward.compile(layouts)
        except Abandoned:
            raise
        except Exception:
            log.debug("a backward pass could not be compiled", exc_info=True)
