"""Helpers around models: reading data in batches, and recomputing activations instead of keeping them."""

from __future__ import annotations

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
