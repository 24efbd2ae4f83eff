"""Signal processing under PyTorch's names.

>>> import tracejit as tj
>>> tj.signal.windows.hann(3)
tensor([0., 1., 0.])
"""

from __future__ import annotations

from . import windows

__all__ = ["windows"]
