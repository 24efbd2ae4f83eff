"""Helpers around models: reading data in batches, and recomputing activations instead of keeping them."""

from __future__ import annotations

from . import _pytree as _pytree
from . import benchmark, checkpoint, data, dlpack
from . import weak as weak
from .swapping import set_module, swap_tensors

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "set_module", "swap_tensors"]
