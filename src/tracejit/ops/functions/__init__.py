"""Composite functions: PyTorch's signatures over the ops of the table, for eager tensors and IR values alike."""

from . import (
    arithmetic,
    conversion,
    activations,
    einsum,
    factories,
    indexing,
    inplace,
    joining,
    logic,
    losses,
    matrices,
    normalization,
    reductions,
    sampling,
    shaping,
    statistics,
    subscript,
)

inplace.install()

__all__ = [
    "arithmetic",
    "conversion",
    "activations",
    "einsum",
    "factories",
    "indexing",
    "inplace",
    "joining",
    "logic",
    "losses",
    "matrices",
    "normalization",
    "reductions",
    "sampling",
    "shaping",
    "statistics",
    "subscript",
]
