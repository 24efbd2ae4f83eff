"""The implementations that are compared: tracejit eager, compiled and compiled whole, PyTorch eager and compiled, JAX.

Nothing is imported before it is asked for; an implementation that is not installed says so when it is loaded.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import At, Case, Space, eager


@dataclass(frozen=True)
class Backend:
    """One column of the comparison.

    ``make(case, device)`` gives calls by size, on the host unless told; ``needs`` is the package to install.
    """

    name: str
    title: str
    needs: str
    make: Callable[..., At]
    compiles_c: bool = False
    whole: bool = False  # runs only cases that are more than one function
    extra: bool = False  # measured only when it is asked for

    @property
    def ours(self) -> bool:
        """Is it this project?"""
        return self.needs == "tracejit"

    def missing(self) -> str | None:
        """Why this backend cannot run in this process, or None."""
        if importlib.util.find_spec(self.needs) is None:
            return f"{self.needs} is not installed"
        if self.compiles_c and shutil.which("g++") is None and shutil.which("clang++") is None:
            return "there is no C++ compiler"
        return None


def _tracejit(
    compile_function: bool, compile_step: bool, mode: str | None = None
) -> Callable[..., At]:
    def make(case: Case, device: str = "cpu") -> At:
        import tracejit as tj

        def wrap(function: Any) -> Any:
            return tj.compile(function, strict=True, mode=mode)

        fused = compile_function or compile_step
        function, step = (wrap if x else eager for x in (compile_function, compile_step))
        return case.make(Space(tj, function, step, fused, device=device))

    return make


def _tracejit_graphs(case: Case, device: str = "cpu") -> At:
    """Whole steps where there are steps, else functions; as CUDA graphs on a GPU."""
    return _tracejit(not case.step, bool(case.step), "reduce-overhead")(case, device)


def _torch_eager(case: Case, device: str = "cpu") -> At:
    import torch

    return case.make(Space(torch, device=device))


def _torch_compiled(case: Case, device: str = "cpu") -> At:
    import torch

    torch._dynamo.reset()  # sizes seen before must not make this one dynamic
    return case.make(Space(torch, torch.compile, fused=True, device=device))


def _jax(case: Case, device: str = "cpu") -> At:
    del device  # JAX's own choice
    import jax_workloads

    return jax_workloads.MAKERS[case.name]()


def reference(case: Case, device: str = "cpu") -> At:
    """The case in double precision on the host, by PyTorch where it is installed."""
    del device
    import importlib

    name = "tracejit" if importlib.util.find_spec("torch") is None else "torch"
    return case.make(Space(importlib.import_module(name), dtype="float64"))


BACKENDS: tuple[Backend, ...] = (
    Backend("tracejit-eager", "tracejit eager", "tracejit", _tracejit(False, False)),
    Backend("tracejit", "tracejit compiled", "tracejit", _tracejit(True, False)),
    Backend("tracejit-step", "tracejit whole step", "tracejit", _tracejit(False, True), whole=True),
    Backend(
        "tracejit-background",
        "tracejit in background",
        "tracejit",
        _tracejit(True, False, "background"),
        extra=True,
    ),
    Backend("tracejit-graphs", "tracejit as graphs", "tracejit", _tracejit_graphs, extra=True),
    Backend("torch-eager", "PyTorch eager", "torch", _torch_eager),
    Backend("torch-compile", "torch.compile", "torch", _torch_compiled, compiles_c=True),
    Backend("jax", "JAX jit", "jax", _jax),
)
#: What results are compared with; measured by nobody.
REFERENCE = Backend("reference", "float64", "numpy", reference)


def find(name: str) -> Backend:
    """The backend called ``name``; ``KeyError`` when there is none."""
    return {backend.name: backend for backend in (*BACKENDS, REFERENCE)}[name]


def known(names: Iterable[str]) -> list[Backend]:
    """The backends called ``names``, in the order of the table; all but extra ones when there are none."""
    wanted = list(names)
    return [b for b in BACKENDS if (b.name in wanted if wanted else not b.extra)]


def array(result: Any) -> np.ndarray:
    """A copy of a tensor or array of any namespace."""
    result = result.detach() if hasattr(result, "detach") else result
    return np.array(result.numpy() if hasattr(result, "numpy") else result)


def arrays(results: Iterable[Any]) -> list[np.ndarray]:
    """Copies of what a call returned."""
    return [array(x) for x in results]


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
