"""Distributions whose density is an exponential of a product: what programs derive from, and test for."""

from __future__ import annotations

from typing import Any

from ..autograd.entry import grad
from ..autograd.grad_mode import enable_grad
from .distribution import Distribution
from .utils import _sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """p(x) = exp(<t(x), n> - F(n) + k(x)), with the natural parameters n and the log normalizer F.

    A subclass that gives ``_natural_params``, ``_log_normalizer(*natural_params)`` and the mean of k as
    ``_mean_carrier_measure`` has an entropy.

    >>> import tracejit as tj
    >>> isinstance(tj.distributions.Normal(0.0, 1.0), ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        """The natural parameters."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        """F, as a function of the natural parameters."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k(x)."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The mean of -log p: F(n) - <n, dF/dn> less the mean of k; without a slope, as PyTorch's."""
        with enable_grad():
            leaves = [p.detach().requires_grad_() for p in self._natural_params]
            size = self._log_normalizer(*leaves)
            means = grad(size.sum(), leaves, create_graph=True)
        result = size - self._mean_carrier_measure
        events = len(self.event_shape)
        for parameter, mean in zip(leaves, means, strict=True):
            result = result - _sum_rightmost(parameter * mean, events)
        return result
