"""Writing through views: for each view op, the op that puts a value back where the view reads."""

from __future__ import annotations

from typing import Any

from .movement import (
    diagonal_scatter,
    permute,
    reshape,
    slice_scatter,
    squeeze,
    unsqueeze,
)
from .table import Op


def write(op: Op, attributes: dict[str, Any], base: Any, value: Any) -> Any:
    """``base`` with ``value`` in place of ``op(base, **attributes)``."""
    if op.name == "slice":
        return slice_scatter(base, value, **attributes)
    if op.name == "diagonal":
        return diagonal_scatter(base, value, **attributes)
    if op.name == "reshape":
        return reshape(value, shape=tuple(base.shape))
    if op.name == "permute":
        dims = attributes["dims"]
        return permute(value, dims=tuple(sorted(range(len(dims)), key=dims.__getitem__)))
    if op.name == "unsqueeze":
        return squeeze(value, dims=attributes["dims"])
    if op.name == "squeeze":
        return unsqueeze(value, dims=attributes["dims"])
    raise RuntimeError(
        f"unsupported operation: more than one element of the written-to tensor refers to a single memory "
        f"location (a view by {op.name}). Please clone() the tensor before performing the operation."
    )
