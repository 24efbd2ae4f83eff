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

Tensors = list[Tensor]
Average = Callable[[Tensor, Tensor, Any], Any]
MultiAverage = Callable[[Tensors, Tensors, Any], None]


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


def get_swa_multi_avg_fn() -> MultiAverage:
    """The same for lists of tensors of one dtype, in place. Raises ``RuntimeError`` for integers.

    >>> import tracejit as tj
    >>> mean = tj.ones(1)
    >>> tj.optim.swa_utils.get_swa_multi_avg_fn()([mean], [tj.zeros(1)], 3)
    >>> mean
    tensor([0.7500])
    """

    def swa_update(averaged: Tensors, current: Tensors, num_averaged: Any) -> None:
        count = num_averaged + 1
        with no_grad():
            if _mixes(averaged):
                _lerp(averaged, current, 1 / count)
            else:
                for mean, value in zip(averaged, current, strict=True):
                    mean.addcdiv_(value - mean, count)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """``decay * mean + (1 - decay) * value``. Raises ``ValueError`` unless 0 <= decay <= 1.

    >>> import tracejit as tj
    >>> tj.optim.swa_utils.get_ema_avg_fn(0.9)(tj.ones(1), tj.zeros(1), 3)
    tensor([0.9000])
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )

    def ema_update(averaged: Tensor, current: Tensor, num_averaged: Any) -> Any:
        with no_grad():
            return averaged * decay + current * (1 - decay)

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """The same for lists of tensors of one dtype, in place; means of integers are cut off to integers.

    >>> import tracejit as tj
    >>> mean = tj.ones(1)
    >>> tj.optim.swa_utils.get_ema_multi_avg_fn(0.9)([mean], [tj.zeros(1)], 3)
    >>> mean
    tensor([0.9000])
    """
    one = get_ema_avg_fn(decay)

    def ema_update(averaged: Tensors, current: Tensors, num_averaged: Any) -> None:
        with no_grad():
            if _mixes(averaged):
                _lerp(averaged, current, 1 - decay)
            else:
                for mean, value in zip(averaged, current, strict=True):
                    mean.copy_(one(mean, value, num_averaged))

    return ema_update


def _mixes(averaged: Tensors) -> bool:
    """Have these tensors, all of one dtype, values between two others?"""
    return averaged[0].is_floating_point() or averaged[0].is_complex()


def _lerp(averaged: Tensors, current: Tensors, weight: Any) -> None:
    for mean, value in zip(averaged, current, strict=True):
        mean.lerp_(value, weight)


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
        """Take the parameters of ``model`` into the average.

        ``multi_avg_fn`` is called with the tensors of each dtype.
        """
        with no_grad():
            self._update(model)

    def _update(self, model: Module) -> None:
        own, new = self._members(self.module), self._members(model)
        if self.n_averaged == 0:
            for mean, value in zip(own, new, strict=True):
                mean.copy_(value)
        elif self.multi_avg_fn is not None:
            groups: dict[Any, tuple[Tensors, Tensors]] = {}
            for mean, value in zip(own, new, strict=True):
                means, values = groups.setdefault((mean.device, mean.dtype), ([], []))
                means.append(mean)
                values.append(value)
            for means, values in groups.values():
                self.multi_avg_fn(means, values, self.n_averaged)
        else:
            average = self.avg_fn or get_swa_avg_fn()
            for mean, value in zip(own, new, strict=True):
                mean.copy_(average(mean, value, self.n_averaged))
        if not self.use_buffers:
            for mean, value in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.copy_(value)
        self.n_averaged.add_(1)

    def _members(self, model: Any) -> Tensors:
        buffers = list(model.buffers()) if self.use_buffers else []
        return [x.detach() for x in (*model.parameters(), *buffers)]


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
