"""Helpers around models: reading data in batches, and recomputing activations instead of keeping them."""

from __future__ import annotations

from . import benchmark, checkpoint, data, dlpack

__all__ = ["benchmark", "checkpoint", "data", "dlpack"]
