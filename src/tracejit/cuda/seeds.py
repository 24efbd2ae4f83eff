"""Seeds of GPUs under PyTorch's names: there is one generator for all devices, seeded by ``tracejit.manual_seed``."""

from __future__ import annotations

__all__ = ["manual_seed", "manual_seed_all"]


def manual_seed(seed: int) -> None:
    """Accepted and without effect: GPUs draw the numbers that :func:`tracejit.manual_seed` decides.

    >>> import tracejit as tj
    >>> tj.cuda.manual_seed(0)
    """


def manual_seed_all(seed: int) -> None:
    """Accepted and without effect: GPUs draw the numbers that :func:`tracejit.manual_seed` decides.

    >>> import tracejit as tj
    >>> tj.cuda.manual_seed_all(0)
    """
