"""DataParallel and its kin, for programs that wrap their model: there is one device, so it runs as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "parallel_apply", "replicate"]


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


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """``network`` for each of the devices: it is the same module, since there is one device.

    >>> import tracejit as tj
    >>> layer = tj.nn.Linear(1, 1)
    >>> [x is layer for x in replicate(layer, [0, 0])]
    [True, True]
    """
    return [network for _ in devices]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Any = None,
) -> list[Any]:
    """What each module returns for its arguments, one after the other.

    Raises ``AssertionError`` unless there is as much of each.

    >>> import tracejit as tj
    >>> parallel_apply([tj.nn.ReLU()], [tj.tensor([-1.0, 2.0])])
    [tensor([0., 2.])]
    """
    named = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    if not len(modules) == len(inputs) == len(named):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)} "
            f"and of keyword arguments {len(named)}"
        )
    rows = [x if isinstance(x, (list, tuple)) else (x,) for x in inputs]
    return [m(*row, **names) for m, row, names in zip(modules, rows, named, strict=True)]
