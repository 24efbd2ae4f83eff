"""``tracejit info``: versions, processor, threads, BLAS, cache."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from . import cache, output

if TYPE_CHECKING:
    import click

    from ..runtime.blas import Blas

_PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "ml_dtypes", "safetensors")
_OPTIONAL = ("scikit-learn", "matplotlib")


def command() -> click.Command:
    """The ``info`` command."""
    import click

    return click.Command(
        "info",
        callback=_run,
        help="Versions, processor, threads, BLAS and cache.",
        params=[click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")],
    )


def version() -> str:
    """The version of this package; "unknown" when it runs from a folder that was never installed."""
    return _version_of("tracejit") or "unknown"


def describe() -> dict[str, str]:
    """Everything a report about a measurement or a fault should state."""
    from ..runtime.blas import find_blas
    from ..runtime.threads import get_num_threads

    blas = find_blas()
    found = {"tracejit": version(), "python": platform.python_version()}
    found |= {name: _version_of(name) or "not installed" for name in (*_PACKAGES, *_OPTIONAL)}
    found |= {
        "platform": platform.platform(),
        "processor": _processor(),
        "CPUs": str(os.cpu_count()),
        "threads": str(get_num_threads()),
        "BLAS": "none found: numpy.matmul is used" if blas is None else _blas(blas),
    }
    return found | dict(cache.rows())


def _blas(found: Blas) -> str:
    """Which library computes products, and which of them."""
    from ..runtime.products import product_module

    ours = found.vectors_only and product_module("f32") is not None
    return f"that of {found.origin}{', for products with vectors' if ours else ''}"


def _run(as_json: bool) -> None:
    import click

    known = describe()
    if as_json:
        click.echo(json.dumps(known, indent=2))
    else:
        output.pairs(known.items())


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The model's name; Linux keeps it where the platform module does not look."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
