"""What this package was built with, which programs print when something is wrong."""

from __future__ import annotations

import platform
import sys

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of the package and of what it computes with, one a line.

    >>> show().splitlines()[0]
    'tracejit built with:'
    """
    import llvmlite
    import numpy as np

    from .version import tracejit as version

    lines = (
        f"  - tracejit {version}",
        f"  - Python {platform.python_version()} ({sys.platform}, {platform.machine()})",
        f"  - NumPy {np.__version__}",
        f"  - llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, _llvm()))}",
    )
    return "\n".join(("tracejit built with:", *lines, ""))


def _llvm() -> tuple[int, ...]:
    from llvmlite.binding import llvm_version_info

    found: tuple[int, ...] = llvm_version_info
    return found


def parallel_info() -> str:
    """How many threads compute, and what decided about that.

    >>> "get_num_threads() : " in parallel_info()
    True
    """
    import os

    from .settings import get_num_interop_threads, get_num_threads

    variables = ("TRACEJIT_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return "\n".join(
        (
            "tracejit parallel backend: native thread pool",
            f"get_num_threads() : {get_num_threads()}",
            f"get_num_interop_threads() : {get_num_interop_threads()}",
            f"processors : {os.cpu_count()}",
            "Environment variables:",
            *(f"    {name} : {os.environ.get(name, '[not set]')}" for name in variables),
            "",
        )
    )
