"""Helpers around models: reading data in batches, and recomputing activations instead of keeping them."""

from __future__ import annotations

from . import benchmark, checkpoint, data

__all__ = ["benchmark", "checkpoint", "data"]
