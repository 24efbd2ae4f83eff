"""Calls of other processes, under PyTorch's names: there is one process, so there is nobody to call."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]


def is_available() -> bool:
    """False: programs that ask do without.

    >>> is_available()
    False
    """
    return False


def init_rpc(name: str, *_: Any, **__: Any) -> NoReturn:
    """Refused: raises ``NotImplementedError``, as the calls do.

    >>> init_rpc("worker")
    Traceback (most recent call last):
    NotImplementedError: there is a single process: nothing calls others
    """
    raise NotImplementedError("there is a single process: nothing calls others")


rpc_sync = rpc_async = remote = init_rpc


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Accepted: nothing was opened.

    >>> shutdown()
    """
