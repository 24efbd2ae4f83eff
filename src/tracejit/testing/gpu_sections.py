"""The sections of the GPU report: what each consists of, unit by unit, and what share of the time it may take."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

Row = dict[str, Any]
Unit = tuple[str, Callable[[], Iterable[Row]]]

_PACKAGES = (
    "tracejit",
    "numpy",
    "llvmlite",
    "ml_dtypes",
    "scipy",
    "cupy",
    "numba_cuda",
    "torch",
    "jax",
)


@dataclass(frozen=True)
class Options:
    """What is run: ``elements`` of bandwidth measurements, ``quick`` sizes and times, checks whose names start with
    ``only``; ``first`` is a module that every process imports before anything else, ``seconds`` are for all."""

    seconds: float = 450.0
    elements: int = 1 << 28
    quick: bool = False
    only: str = ""
    first: str = ""

    @property
    def each(self) -> float:
        """Seconds for one measurement."""
        return 0.02 if self.quick else 0.4


#: Sections in order, with their weights in what time is left.
SECTIONS = {
    "versions": 30,
    "numerics": 140,
    "launch cost": 15,
    "bandwidth": 30,
    "attention": 35,
    "programs by tracejit": 200,
    "programs by PyTorch": 200,
    "programs by torch.compile": 200,
    "programs by JAX": 200,
}
#: The beginning of the names of sections that run side by side, measuring by turns: most of their time is compilation.
TOGETHER = "programs by "


def units_of(section: str, options: Options) -> list[Unit]:
    """The units of a section: names, and functions that give rows.

    >>> [name for name, _ in units_of("launch cost", Options())][:2]
    ['eager', '1 sums']
    """
    if section == "versions":
        # First what takes no time: libraries may be slow to load.
        return [("devices", devices), *((name, partial(version, name)) for name in _PACKAGES)]
    if section == "numerics":
        from .gpu_checks import checks

        return [(n, partial(checked, c)) for n, c in checks() if n.startswith(options.only)]
    from . import gpu_timing

    if section == "launch cost":
        return list(gpu_timing.launch_cost((1, 3) if options.quick else (1, 10, 50), options.each))
    if section == "bandwidth":
        return list(gpu_timing.bandwidth(options.elements, options.each))
    if section == "attention":
        shape = (1, 4, 4) if options.quick else (4, 8, 1024, 64)
        return list(gpu_timing.attention(shape, options.each))
    from . import gpu_peers

    given = section.removeprefix(TOGETHER), options.quick, options.each
    return list(gpu_peers.units(*given)) or list(gpu_timing.programs(*given))


def version(name: str) -> Iterable[Row]:
    """The version of a package that is installed.

    >>> [row["package"] for row in version("numpy")]
    ['numpy']
    """
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError:
        return
    try:
        known = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # CuPy's is called after its toolkit
        known = getattr(found, "__version__", "?")
    yield {"package": name, "version": known}


def devices() -> Iterable[Row]:
    """Python, the assembler, the libraries CUDA programs need, and every device."""
    import tracejit as tj
    from tracejit.codegen.cuda.cubin import assembler
    from tracejit.cuda.arrays import namespace
    from tracejit.runtime.cuda.gemm import cublas

    yield {"package": "python", "version": platform.python_version(), "on": platform.platform()}
    known = assembler()
    yield {"package": "assembler", "version": known.name if known else "none: the driver assembles"}
    runtime = namespace().cuda.runtime
    yield {"package": "CUDA runtime", "version": runtime.runtimeGetVersion()}
    yield {"package": "CUDA driver", "version": runtime.driverGetVersion()}
    yield {"package": "cuBLAS", "version": "found" if cublas() else "none: products run op by op"}
    for index in range(tj.cuda.device_count()):
        yield {
            "device": tj.cuda.get_device_name(index),
            "capability": tj.cuda.get_device_capability(index),
        }


def checked(check: Callable[[], None]) -> Iterable[Row]:
    """A check as a row.

    >>> list(checked(lambda: None))
    [{'passed': True}]
    """
    check()
    yield {"passed": True}
