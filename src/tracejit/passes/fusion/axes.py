"""Axes of a group's domain behind the dimensions of a value: through views, broadcasts and new results."""

from __future__ import annotations

from ...ir.graph import Value
from ...types import Shape
from .groups import Dims, is_view


def renames_axes(value: Value) -> bool:
    """True for views that neither drop elements nor mix dimensions."""
    if value.op is None or not is_view(value):
        return False
    if value.op.name == "reshape":
        return _ones_dropped(value.spec.shape) == _ones_dropped(value.value_operands[0].spec.shape)
    return value.op.name in ("permute", "expand", "unsqueeze", "squeeze")


def _ones_dropped(shape: Shape) -> Shape:
    return tuple(e for e in shape if e != 1)


def through_view(value: Value, dims: Dims) -> Dims | None:
    """Axes of a renaming view from those of its operand."""
    assert value.op is not None
    name, attributes = value.op.name, value.attributes
    if name == "permute":
        return tuple(dims[d] for d in attributes["dims"])
    if name == "unsqueeze":
        result = list(dims)
        for d in attributes["dims"]:
            result.insert(d, None)
        return tuple(result)
    if name == "squeeze":
        return tuple(a for d, a in enumerate(dims) if d not in attributes["dims"])
    if name == "expand":
        return _expanded_dims(value, dims)
    return _reshaped_dims(value, dims)


def _expanded_dims(value: Value, dims: Dims) -> Dims:
    """A broadcast dimension no longer stands for an axis of its operand."""
    before, after = value.value_operands[0].spec.shape, value.spec.shape
    ahead = len(after) - len(before)
    kept = (a if before[d] == after[ahead + d] else None for d, a in enumerate(dims))
    return (*(None,) * ahead, *kept)


def _reshaped_dims(value: Value, dims: Dims) -> Dims:
    """Reshapes that only add or drop extents of one."""
    source = value.value_operands[0].spec.shape
    axes = iter([a for a, extent in zip(dims, source, strict=True) if extent != 1])
    return tuple(next(axes) if extent != 1 else None for extent in value.spec.shape)


def reduced_dims(value: Value, dims: Dims) -> Dims:
    """Axes of a reduction's result from those of its operand."""
    gone = value.attributes["dims"]
    if value.attributes["keepdim"]:
        return tuple(None if d in gone else a for d, a in enumerate(dims))
    return tuple(a for d, a in enumerate(dims) if d not in gone)


def aligned(domain: list[int], shape: Shape, known: list[Dims]) -> Dims | None:
    """Axes for the dimensions of a result of ``shape``, given those of its operands inside the group."""
    result: list[int | None] = [None] * len(shape)
    for dims in known:
        for back in range(1, len(dims) + 1):
            axis = dims[-back]
            if axis is None:
                continue
            if back > len(shape) or result[-back] not in (None, axis):
                return None
            if shape[-back] != domain[axis]:
                return None
            if axis in result and result[-back] != axis:
                return None  # an operand meets itself along two dimensions: that is no loop of this domain
            result[-back] = axis
    return _fill(result, shape, domain, bool(known))


def _fill(result: list[int | None], shape: Shape, domain: list[int], partial: bool) -> Dims | None:
    """Give the dimensions that no operand placed the free axis of the same extent, in order."""
    if not partial and len(shape) == len(domain) and list(shape) == domain:
        return tuple(range(len(domain)))
    for d, extent in enumerate(shape):
        if result[d] is not None or extent == 1:
            continue
        low = max([a for a in result[:d] if a is not None], default=-1)
        high = min([a for a in result[d + 1 :] if a is not None], default=len(domain))
        free = [a for a in range(low + 1, high) if domain[a] == extent and a not in result]
        if not free:
            return None
        position = len(shape) - d
        wanted = len(domain) - position
        result[d] = wanted if wanted in free else free[-1]
    return _adopt_ones(result, shape, domain)


def _adopt_ones(result: list[int | None], shape: Shape, domain: list[int]) -> Dims:
    """Extents of one stand for axes of extent one where the alignment leaves no doubt."""
    if len(shape) == len(domain):
        for d, extent in enumerate(shape):
            if extent == 1 and domain[d] == 1 and result[d] is None and d not in result:
                result[d] = d
    return tuple(result)


def trailing(shape: Shape, target: Shape, dims: Dims) -> Dims:
    """Axes of an operand broadcast to a result with axes ``dims``."""
    ahead = len(target) - len(shape)
    return tuple(
        None if (extent == 1 and target[ahead + d] != 1) else dims[ahead + d]
        for d, extent in enumerate(shape)
    )
