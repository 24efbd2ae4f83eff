"""What the oldest releases of dependencies must do right."""

from __future__ import annotations

import sys

import numpy as np

import tracejit as tj


def test_references_to_element_types_are_counted() -> None:
    """NumPy that takes away one for each array ends the process after some thousand of them."""
    dtype = tj.bfloat16.np
    before = sys.getrefcount(dtype)
    for _ in range(10):
        np.ones(2, dtype)
    assert sys.getrefcount(dtype) == before
