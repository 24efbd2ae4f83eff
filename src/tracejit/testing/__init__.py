"""Assertions about tensors, and tools for testing the compiler with itself: samples of every op, random programs."""

from __future__ import annotations

from .comparison import assert_allclose, assert_close
from .values import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
