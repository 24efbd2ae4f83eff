"""Passes: graph to graph, each one function in one file."""

from __future__ import annotations

from .gradient import Gradient, differentiate
from .partition import Partition, partition
from .pipeline import PASSES, Pass, run_passes

__all__ = [
    "PASSES",
    "Gradient",
    "Partition",
    "Pass",
    "differentiate",
    "partition",
    "run_passes",
]
