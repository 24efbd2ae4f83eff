"""Averages of a model's parameters over training: equal weights, or weights that decay."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from ..autograd.grad_mode import no_grad
from ..nn.module import Module
from ..tensor import Tensor
from ..tensor_make import tensor
from .swa_lr import SWALR

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Any]


def get_swa_avg_fn() -> Average:
    """The next mean of ``n + 1`` values from the mean of ``n``.

    >>> import tracejit as tj
    >>> tj.optim.swa_utils.get_swa_avg_fn()(tj.ones(1), tj.zeros(1), 3)
    tensor([0.7500])
    """

    def swa_update(averaged: Tensor, current: Tensor, num_averaged: Any) -> Any:
        with no_grad():
            return averaged + (current - averaged) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """The same for lists of tensors, in place.

    >>> import tracejit as tj
    >>> mean = tj.ones(1)
    >>> tj.optim.swa_utils.get_swa_multi_avg_fn()([mean], [tj.zeros(1)], 3)
    >>> mean
    tensor([0.7500])
    """
    return _for_lists(get_swa_avg_fn())


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """``decay * mean + (1 - decay) * value``. Raises ``ValueError`` unless 0 <= decay <= 1.

    >>> import tracejit as tj
    >>> tj.optim.swa_utils.get_ema_avg_fn(0.9)(tj.ones(1), tj.zeros(1), 3)
    tensor([0.9000])
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1].")

    def ema_update(averaged: Tensor, current: Tensor, num_averaged: Any) -> Any:
        with no_grad():
            return averaged * decay + current * (1 - decay)

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """The same for lists of tensors, in place.

    >>> import tracejit as tj
    >>> mean = tj.ones(1)
    >>> tj.optim.swa_utils.get_ema_multi_avg_fn(0.9)([mean], [tj.zeros(1)], 3)
    >>> mean
    tensor([0.9000])
    """
    return _for_lists(get_ema_avg_fn(decay))


def _for_lists(one: Average) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    def update(averaged: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        with no_grad():
            for mean, value in zip(averaged, current, strict=True):
                mean.copy_(one(mean, value, num_averaged) if mean.is_floating_point() else value)

    return update


class AveragedModel(Module):
    """A copy of ``model`` whose parameters are averages: call ``update_parameters(model)`` after a step.

    ``avg_fn(averaged, current, num_averaged)`` gives the new average (default: equal weights), ``multi_avg_fn``
    changes lists of averages in place. Buffers are copied, or averaged too with ``use_buffers``.

    >>> import tracejit as tj
    >>> model = tj.nn.Linear(1, 1, bias=False)
    >>> with tj.no_grad():
    ...     _ = model.weight.fill_(1.0)
    >>> average = tj.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     with tj.no_grad():
    ...         _ = model.weight.fill_(value)
    ...     average.update_parameters(model)
    >>> average(tj.ones(1)).detach()
    tensor([2.])
    """

    n_averaged: Tensor
    module: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of ``model`` into the average."""
        with no_grad():
            self._update(model)

    def _update(self, model: Module) -> None:
        own, new = self._members(self.module), self._members(model)
        if self.n_averaged == 0:
            for mean, value in zip(own, new, strict=True):
                mean.copy_(value)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(own, new, self.n_averaged)
        else:
            average = self.avg_fn or get_swa_avg_fn()
            for mean, value in zip(own, new, strict=True):
                mean.copy_(average(mean.detach(), value.detach(), self.n_averaged))
        if not self.use_buffers:
            for mean, value in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.copy_(value)
        self.n_averaged.add_(1)

    def _members(self, model: Any) -> list[Tensor]:
        buffers = list(model.buffers()) if self.use_buffers else []
        return [*model.parameters(), *buffers]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the running statistics of batch norm layers to those of ``model`` over ``loader``.

    >>> import tracejit as tj
    >>> bn = tj.nn.BatchNorm1d(1)
    >>> tj.optim.swa_utils.update_bn([tj.tensor([[1.0], [3.0]])], bn)
    >>> bn.running_mean
    tensor([2.])
    """
    from ..nn.batchnorm import _BatchNorm

    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    for layer in momenta:
        layer.reset_running_stats()
        layer.momentum = None
    if not momenta:
        return
    training = model.training
    model.train()
    with no_grad():
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for layer, momentum in momenta.items():
        layer.momentum = momentum
    model.train(training)
