"""Layers that normalise channels by batch or running statistics: BatchNorm and InstanceNorm."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..cuda.arrays import placed
from ..device import index_of
from ..dtypes import DType, get_default_dtype
from ..tensor import Tensor
from . import functional as F
from . import init
from .linear import empty_parameter
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LocalResponseNorm",
    "SyncBatchNorm",
]


class _RunningNorm(Module):
    """A scale, a shift and running statistics for every channel."""

    _version = 2
    ranks: ClassVar[tuple[int, ...]] = ()
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def _set(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        bias: bool,
        device: Any,
        dtype: DType | None,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = empty_parameter(num_features, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, value)
        self._make_statistics(device, dtype)
        self.reset_parameters()

    def _make_statistics(self, device: Any, dtype: DType | None) -> None:
        index = index_of(device)
        kind = (get_default_dtype() if dtype is None else dtype).np
        values = {
            "running_mean": np.zeros(self.num_features, kind),
            "running_var": np.ones(self.num_features, kind),
            "num_batches_tracked": np.zeros((), np.int64),
        }
        for name, value in values.items():
            kept = Tensor._wrap(placed(value, index)) if self.track_running_stats else None
            self.register_buffer(name, kept)

    def reset_running_stats(self) -> None:
        """Mean zero, variance one, no batch seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale one, shift zero; statistics as at the start."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Any) -> None:
        """``ValueError`` for an input of another rank; derived layers may take others."""
        if self.ranks and input.ndim not in self.ranks:
            expected = " or ".join(f"{n}D" for n in self.ranks)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        """The number of channels and the options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, about: Any, *lists: Any) -> None:
        """Load what was saved; values of the first version, or of unknown origin, do not count batches."""
        name = prefix + "num_batches_tracked"
        old = about.get("version", 1) < 2
        if old and self.num_batches_tracked is not None and name not in state_dict:
            state_dict[name] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, about, *lists)


class _BatchNorm(_RunningNorm):
    """Statistics of a batch while training, running ones in evaluation."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._set(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)

    def _share(self) -> float:
        """How much of the running statistics this batch becomes; counts the batch."""
        if not (self.training and self.track_running_stats) or self.num_batches_tracked is None:
            return 0.0 if self.momentum is None else self.momentum
        self.num_batches_tracked.add_(1)
        if self.momentum is None:
            share: float = 1.0 / self.num_batches_tracked.item()
            return share
        return self.momentum

    def forward(self, input: Any) -> Any:
        """The normalised channels (dimension 1)."""
        self._check_input_dim(input)
        share = self._share()
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            by_batch,
            share,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """(x - mean) / sqrt(var + eps) * weight + bias for every channel of (N, C) or (N, C, L).

    While training mean and variance are those of the batch, and running ones are updated in place, by the share
    ``momentum`` (None: the plain average of all batches); in evaluation the running ones are used, if tracked. Raises
    ``ValueError`` for other ranks and for a single value per channel while training.

    >>> import tracejit as tj
    >>> layer = tj.nn.BatchNorm1d(1)
    >>> layer(tj.tensor([[1.0], [3.0]])).detach().round(), layer.running_mean
    (tensor([[-1.],
            [ 1.]]), tensor([0.2000]))
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """BatchNorm1d for (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """BatchNorm1d for (N, C, D, H, W)."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm1d for any (N, C, *); there is one process, so nothing is left to exchange."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        running = track_running_stats
        super().__init__(num_features, eps, momentum, affine, running, device, dtype, bias=bias)

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """``module`` with this in place of every batch normalisation in it, on the same parameters and buffers."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            affine, running = module.affine, module.track_running_stats
            made = cls(module.num_features, module.eps, module.momentum, affine, running)
            made.__dict__["_parameters"] = module._parameters
            made.__dict__["_buffers"] = module._buffers
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_RunningNorm):
    """Statistics of each channel of each sample; running ones are their means over samples."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._set(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)

    def forward(self, input: Any) -> Any:
        """The normalised channels of (N, C, *) or (C, *)."""
        self._check_input_dim(input)
        alone = input.ndim == min(self.ranks)
        x = input.unsqueeze(0) if alone else input
        if self.affine and x.shape[1] != self.num_features:
            raise ValueError(
                f"expected input's size at dim={int(not alone)} to match num_features "
                f"({self.num_features}), but got: {x.shape[1]}."
            )
        result = self._normalised(x)
        return result.squeeze(0) if alone else result

    def _normalised(self, x: Any) -> Any:
        own = self.training or not self.track_running_stats
        if own and x[0, 0].numel() <= 1 and x.numel():
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size {x.shape}"
            )
        return F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            own,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    """(x - mean) / sqrt(var + eps) over L for every sample and channel of (N, C, L) or (C, L).

    Raises ``ValueError`` for other ranks, for one element per channel, and for other channels than ``num_features``.

    >>> import tracejit as tj
    >>> tj.nn.InstanceNorm1d(1)(tj.tensor([[[1.0, 3.0]]])).round()
    tensor([[[-1.,  1.]]])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm1d for (N, C, H, W) or (C, H, W)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm1d for (N, C, D, H, W) or (C, D, H, W)."""

    ranks = (4, 5)


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of x² over ``size`` neighbouring channels)**beta for (N, C, *)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Any:
        """local_response_norm(x)."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The number of channels and the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
