"""0-d integer tensors among the indices of a subscript."""

from __future__ import annotations

from ...modes import MODES
from .. import elementwise as e
from .. import movement as m
from ..indexing import take
from ..selection import Selected, select
from .common import Tensor, shape_of


def select_scalars(view: Tensor, indices: dict[int, Tensor]) -> tuple[Tensor, dict[int, Tensor]]:
    """The view at the 0-d tensors among these indices by dimension, which select like integers, and the others."""
    for dim in sorted(indices, reverse=True):
        if not indices[dim].ndim:
            view = _selected(view, indices.pop(dim), dim)
            indices = {d - (d > dim): i for d, i in indices.items()}
    return view, indices


def _selected(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """The view of ``x`` at the position in a 0-d tensor."""
    if not hasattr(x, "_chain") or index._stands_for_samples():  # an IR value; others for each
        return take(x, index, dim=dim)
    view = select(x, index, dim=dim)
    if MODES.recorder is not None:  # another call has another position
        view._chain = (*x._chain, (Selected(e.clone(index)), {"dim": dim}))
        return view
    shape = shape_of(x)
    starts, counts = [0] * len(shape), list(shape)
    starts[dim], counts[dim] = int(index.array) % shape[dim], 1
    attributes = {"starts": tuple(starts), "counts": tuple(counts), "steps": (1,) * len(shape)}
    view._chain = (*x._chain, (m.slice, attributes), (m.squeeze, {"dims": (dim,)}))
    return view
