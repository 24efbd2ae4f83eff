"""The implementations that are compared: tracejit eager and compiled, PyTorch eager and compiled, JAX.

A backend that cannot be used here says why; nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from workloads import Call, Case, eager


@dataclass(frozen=True)
class Backend:
    """One column of the comparison. ``make(case, size)`` gives a call; ``needs`` is the package to install."""

    name: str
    title: str
    needs: str
    make: Callable[[Case, int], Call]
    compiles_c: bool = False

    def missing(self) -> str | None:
        """Why this backend cannot run here, or None."""
        if importlib.util.find_spec(self.needs) is None:
            return f"{self.needs} is not installed"
        if self.compiles_c and shutil.which("g++") is None and shutil.which("clang++") is None:
            return "there is no C++ compiler"
        return None


def _tracejit_eager(case: Case, size: int) -> Call:
    import tracejit as tj

    return case.make(tj, eager, size)


def _tracejit_compiled(case: Case, size: int) -> Call:
    import tracejit as tj

    return case.make(tj, lambda f: tj.compile(f, strict=True), size)


def _torch_eager(case: Case, size: int) -> Call:
    import torch

    return case.make(torch, eager, size)


def _torch_compiled(case: Case, size: int) -> Call:
    import torch

    torch._dynamo.reset()  # sizes seen before must not make this one dynamic
    return case.make(torch, torch.compile, size)


def _jax(case: Case, size: int) -> Call:
    import jax_workloads

    return jax_workloads.MAKERS[case.name](size)


BACKENDS: tuple[Backend, ...] = (
    Backend("tracejit-eager", "tracejit eager", "tracejit", _tracejit_eager),
    Backend("tracejit", "tracejit compiled", "tracejit", _tracejit_compiled),
    Backend("torch-eager", "PyTorch eager", "torch", _torch_eager),
    Backend("torch-compile", "torch.compile", "torch", _torch_compiled, compiles_c=True),
    Backend("jax", "JAX jit", "jax", _jax),
)


def find(name: str) -> Backend:
    """The backend called ``name``; ``KeyError`` when there is none."""
    return {backend.name: backend for backend in BACKENDS}[name]


def arrays(results: Iterable[Any]) -> list[np.ndarray]:
    """What a call returned, as NumPy arrays of any namespace."""
    return [np.array(x.detach() if hasattr(x, "detach") else x) for x in results]


def difference(have: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The largest difference relative to each result's own magnitude; infinity where shapes or nans differ."""
    if len(have) != len(want):
        return float("inf")
    return max((_one_difference(a, b) for a, b in zip(have, want, strict=True)), default=0.0)


def _one_difference(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.astype(np.float64), b.astype(np.float64)
    if x.shape != y.shape or not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return float("inf")
    finite = np.isfinite(x)
    scale = max(float(np.max(np.abs(y[finite]), initial=0.0)), 1e-30)
    return float(np.max(np.abs(x[finite] - y[finite]), initial=0.0)) / scale
