"""DataParallel and its kin, for programs that wrap their model: there is one device, so it runs as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(Module):
    """Calls ``module``; its parameters are found under ``module.`` as in PyTorch.

    >>> import tracejit as tj
    >>> list(tj.nn.DataParallel(tj.nn.Linear(1, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids = [] if device_ids is None else list(device_ids)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        return self.module(*args, **kwargs)


class DistributedDataParallel(DataParallel):
    """Calls ``module``: in a world of one process gradients are those of all processes.

    >>> import tracejit as tj
    >>> model = tj.nn.parallel.DistributedDataParallel(tj.nn.Linear(1, 1))
    >>> with model.no_sync():
    ...     model(tj.ones(1, 1)).shape
    tracejit.Size([1, 1])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        **_: Any,
    ) -> None:
        super().__init__(module, device_ids, output_device, dim)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Nothing is exchanged inside, nor outside."""
        yield
