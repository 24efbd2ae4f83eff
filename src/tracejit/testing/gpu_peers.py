"""The programs of ``benchmarks/peers.py`` on a GPU, where that folder is at hand: by tracejit, PyTorch and JAX."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tracejit

from .gpu_timing import milliseconds

__all__ = ["COLUMNS", "folder", "units"]

Row = dict[str, Any]
Unit = tuple[str, Callable[[], Iterable[Row]]]

#: Who runs the programs, the backends of the benchmarks that are meant, and what their times are called.
COLUMNS: dict[str, dict[str, str]] = {
    "tracejit": {
        "tracejit": "compiled ms",
        "tracejit-step": "whole step ms",
        "tracejit-graphs": "graphs ms",
    },
    "PyTorch": {"torch-eager": "torch eager ms"},
    "torch.compile": {"torch-compile": "torch.compile ms"},
    "JAX": {"jax": "jax ms"},
}
#: What a short run looks at.
_FEW = ("branch", "reduce_axis1", "tiny_mlp_grad", "adam_many")


def folder() -> Path | None:
    """The benchmarks beside the package's sources, or below the working directory.

    >>> found = folder()
    >>> found is None or (found / "peers.py").exists()
    True
    """
    around = (Path(tracejit.__file__).resolve().parents[2], Path.cwd())
    found = (place / "benchmarks" for place in around)
    return next((f for f in found if (f / "peers.py").is_file()), None)


def units(library: str, quick: bool, seconds: float = 0.4, device: str = "cuda") -> Iterator[Unit]:
    """Each program by one of `COLUMNS`; nothing where the benchmarks are not at hand.

    >>> len([name for name, _ in units("JAX", True)]) == (4 if folder() else 0)
    True
    """
    place = folder()
    if place is None:
        return
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
    cases = importlib.import_module("workloads").CASES
    for case in cases:
        if not quick or case.name in _FEW:
            yield case.name, partial(_rows, library, case, quick, seconds, device)


def _rows(library: str, case: Any, quick: bool, seconds: float, device: str) -> Iterator[Row]:
    """A row for every backend that has this program."""
    backends, label = importlib.import_module("backends"), importlib.import_module("cases").label
    size = case.small if quick else case.main
    for name, title in COLUMNS[library].items():
        backend = backends.find(name)
        if backend.whole and not case.step:
            continue
        wait = _waiting(backend.needs, device)
        if wait is None:
            return
        taken = milliseconds(backend.make(case, device)(size), wait, seconds)
        yield {"program": case.name, "size": label(size), title: round(taken, 4)}


def _waiting(library: str, device: str) -> Callable[[], Any] | None:
    """What waits for the device; None where the library is not installed or has no GPU."""
    if importlib.util.find_spec(library) is None:
        return None
    loaded = importlib.import_module(library)
    if library == "jax":
        loaded.config.update("jax_enable_x64", False)  # the one program that wants it turns it on
        loaded.config.update("jax_default_matmul_precision", "highest")
        return _nothing if device == "cpu" or loaded.default_backend() == "gpu" else None
    if device == "cpu":
        return _nothing
    return loaded.cuda.synchronize if loaded.cuda.is_available() else None


def _nothing() -> None:
    """Calls return when they are done."""
