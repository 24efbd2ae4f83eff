"""Distributions to draw from and to compute likelihoods with, under PyTorch's names."""

from __future__ import annotations

from .discrete import Bernoulli, Categorical
from .distribution import Distribution, kl_divergence
from .gaussian import Normal, Uniform

__all__ = ["Bernoulli", "Categorical", "Distribution", "Normal", "Uniform", "kl_divergence"]
