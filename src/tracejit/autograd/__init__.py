"""Automatic differentiation: ``backward``, ``grad``, modes, custom functions, checks against finite differences."""

from __future__ import annotations

from .entry import backward, grad
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
