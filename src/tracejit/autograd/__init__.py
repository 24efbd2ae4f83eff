"""Automatic differentiation: ``backward``, ``grad``, modes, custom functions, checks against finite differences."""

from __future__ import annotations

from typing import Any

from . import forward_ad, functional, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .entry import backward, grad
from .function import Function, once_differentiable
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def __getattr__(name: str) -> Any:
    if name != "Variable":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..tensor_kinds import Variable

    return Variable
