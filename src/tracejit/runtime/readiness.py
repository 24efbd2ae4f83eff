"""What programs need besides their kernels, made by the thread behind the program before anyone waits for it."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import lru_cache

from ..codegen.quick import allow_options
from .ahead import under_way
from .behind import worker
from .eager import strided
from .native.native import prepare, stored
from .turns import short_turns

__all__ = ["make_ready"]


@lru_cache(maxsize=1)
def make_ready() -> None:
    """Have it made, once per process.

    >>> make_ready()
    """
    for job in (_prepare_runtime, _rehearse, _share_loops):
        worker().submit(job)


def _prepare_runtime() -> None:
    """The native runtime; where the store does not have it, kernels will not be there either, nor LLVM in memory."""
    if not stored():
        from ..codegen import llvm  # noqa: F401

    try:
        with short_turns():  # this thread needs the lock often and not for long
            prepare()
    finally:
        allow_options()


def _rehearse() -> None:
    """One compilation for nothing, where LLVM had to be loaded: the first of a process takes longer than others."""
    if "tracejit.codegen.llvm" in sys.modules:
        from ..codegen import llvm  # waits where another thread is still importing it

        if not llvm.COMPILATIONS.count:  # else the program did not wait for it
            llvm.rehearse()


def _share_loops() -> None:
    """What has several threads run NumPy's loops, for recordings of large tensors."""
    with suppress(Exception):  # NumPy goes on by itself
        if "tracejit.codegen.llvm" in sys.modules and not under_way():
            strided.make()
        else:  # somebody may wait for kernels, or everything else is in the store
            strided.ask()
