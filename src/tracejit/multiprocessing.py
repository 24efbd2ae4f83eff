"""Processes: the standard library's module under PyTorch's path, and ``spawn``.

Tensors are copied when they travel between processes.
"""

from __future__ import annotations

import multiprocessing as _standard
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

__all__ = [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
]


def get_all_sharing_strategies() -> set[str]:
    """How tensors travel: their values do.

    >>> get_all_sharing_strategies()
    {'copy'}
    """
    return {"copy"}


def get_sharing_strategy() -> str:
    """How tensors travel: their values do.

    >>> get_sharing_strategy()
    'copy'
    """
    return "copy"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted and without effect: values are copied.

    >>> set_sharing_strategy("file_system")
    """


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run ``fn(i, *args)`` in ``nprocs`` processes and wait for them, or return them (``join=False``).

    Raises ``RuntimeError`` when one of them fails; the others are stopped then.

    >>> spawn(print, nprocs=0)
    """
    context: Any = _standard.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for i, process in enumerate(processes):
        process.join()
        if process.exitcode:
            for other in processes:
                other.terminate()
            raise RuntimeError(f"process {i} terminated with exit code {process.exitcode}")
    return None
