"""Settings of the process under PyTorch's names."""

from __future__ import annotations

__all__ = ["get_num_threads", "set_num_threads", "use_deterministic_algorithms"]


def get_num_threads() -> int:
    """How many threads run kernels, the calling one included.

    >>> import tracejit as tj
    >>> tj.get_num_threads() >= 1
    True
    """
    from .runtime import threads

    return threads.get_num_threads()


def set_num_threads(num: int) -> None:
    """Run kernels on ``num`` threads from now on. Raises ``ValueError`` unless it is a positive integer.

    >>> import tracejit as tj
    >>> tj.set_num_threads(tj.get_num_threads())
    """
    from .runtime import threads

    threads.set_num_threads(num)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted and without effect: results never depend on the number of threads or on chance.

    >>> import tracejit as tj
    >>> tj.use_deterministic_algorithms(True)
    """
