"""The views behind stacks: many slices as one view, a view of each item as a view of the whole, joined items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.graph import Value
from ...ops import movement
from ...ops.table import Op
from ...types import Shape, TensorType

Attributes = dict[str, Any]
#: A view op and its attributes; hashable, so that stacks can be compared.
Step = tuple[Op, tuple[tuple[str, Any], ...]]


def step(op: Op, **attributes: Any) -> Step:
    """One view."""
    return op, tuple(attributes.items())


def apply_steps(value: Value, steps: Sequence[Step], line: tuple[str, int] | None) -> list[Value]:
    """The statements of a chain of views; empty when there is nothing to do."""
    made: list[Value] = []
    for op, pairs in steps:
        attributes = dict(pairs)
        kind = op.infer([value.spec], attributes)
        value = Value(kind, op, (value,), attributes, line=line)
        made.append(value)
    return made


def cut(shape: Shape, dim: int, start: int, count: int, stride: int = 1) -> tuple[Step, ...]:
    """A slice along one dimension; nothing where it would show everything."""
    if (start, count, stride) == (0, shape[dim], 1):
        return ()
    starts = [0] * len(shape)
    counts, strides = list(shape), [1] * len(shape)
    starts[dim], counts[dim], strides[dim] = start, count, stride
    return (step(movement.slice, starts=tuple(starts), counts=tuple(counts), steps=tuple(strides)),)


def moved(ndim: int, source: int, target: int) -> tuple[Step, ...]:
    """One dimension moved to another place."""
    dims = [d for d in range(ndim) if d != source]
    dims.insert(target, source)
    return () if source == target else (step(movement.permute, dims=tuple(dims)),)


def windows(
    shape: Shape, attributes: Mapping[str, Any], dim: int, delta: int, count: int
) -> tuple[Step, ...] | None:
    """The ``count`` slices that ``attributes`` and starts ``delta`` apart along ``dim`` describe, as one view.

    None when they overlap, or when the tensor ends within the stretch that the last one is cut from.

    >>> slices = {"starts": (0, 0), "counts": (2, 3), "steps": (1, 1)}
    >>> [op.name for op, _ in windows((8, 3), slices, 0, 2, 4)]
    ['reshape']
    >>> windows((8, 3), slices, 0, 1, 4) is None
    True
    """
    starts, counts, strides = (list(attributes[k]) for k in ("starts", "counts", "steps"))
    size, stride, start = counts[dim], strides[dim], starts[dim]
    if size == 1:
        counts[dim], strides[dim] = count, delta
        sliced = _slice(shape, starts, counts, strides)
        front = moved(len(shape), dim, 0)
        return (*sliced, *front, step(movement.unsqueeze, dims=(dim + 1,)))
    turned = tuple(d for d, s in ((0, delta), (dim + 1, stride)) if s < 0)
    if stride < 0:
        start, stride = start + stride * (size - 1), -stride
    if delta < 0:
        start, delta = start + delta * (count - 1), -delta
    grid = _grid(shape[dim], start, (delta, count), (stride, size))
    if grid is None or not size:
        return None
    first, outer, inner, offset, rounds_outside = grid
    starts[dim], counts[dim], strides[dim] = first, outer * inner, 1
    sliced = _slice(shape, starts, counts, strides)
    split = [*counts[:dim], outer, inner, *counts[dim + 1 :]]
    kept, apart = (size, stride) if rounds_outside else (count, delta)
    reshaped = step(movement.reshape, shape=tuple(split))
    picked = cut(tuple(split), dim + 1, offset, kept, apart)
    front = moved(len(split), dim if rounds_outside else dim + 1, 0)
    result = [count, *counts[:dim], size, *counts[dim + 1 :]]
    return (*sliced, reshaped, *picked, *front, *_turned(result, turned))


def overlapping(
    shape: Shape, attributes: Mapping[str, Any], dim: int, delta: int, count: int
) -> tuple[tuple[Step, ...], ...]:
    """The same slices where they overlap: views of their first elements along ``dim``, of their second ones, ..."""
    starts, counts, strides = (list(attributes[k]) for k in ("starts", "counts", "steps"))
    found = []
    for number in range(counts[dim]):
        begin = [*starts]
        begin[dim] += number * strides[dim]
        one = {"starts": begin, "counts": [*counts[:dim], 1, *counts[dim + 1 :]], "steps": strides}
        chain = windows(shape, one, dim, delta, count)
        assert chain is not None
        found.append(chain)
    return tuple(found)


def _grid(
    extent: int, start: int, outer: tuple[int, int], inner: tuple[int, int]
) -> tuple[int, int, int, int, bool] | None:
    """A stretch of an ``extent`` cut into blocks so that (rounds, elements) are its two dimensions, in either order.

    ``outer`` is (distance, number) of the rounds, ``inner`` of the elements of one. Returns where the stretch begins,
    the number and size of the blocks, the offset of what is wanted in a block, and whether a block is a round.
    """
    for (size, blocks), (apart, number), rounds_outside in (
        (outer, inner, True),
        (inner, outer, False),
    ):
        first = min(start, extent - size * blocks)
        if first >= 0 and start - first + (number - 1) * apart < size:
            return first, blocks, size, start - first, rounds_outside
    return None


def _slice(
    shape: Shape, starts: Sequence[int], counts: Sequence[int], strides: Sequence[int]
) -> tuple[Step, ...]:
    if not any(starts) and tuple(counts) == shape and all(s == 1 for s in strides):
        return ()
    return (step(movement.slice, starts=tuple(starts), counts=tuple(counts), steps=tuple(strides)),)


def _turned(shape: Sequence[int], dims: tuple[int, ...]) -> tuple[Step, ...]:
    """``dims`` in reverse order."""
    if not dims:
        return ()
    starts = tuple(e - 1 if d in dims else 0 for d, e in enumerate(shape))
    strides = tuple(-1 if d in dims else 1 for d in range(len(shape)))
    return (step(movement.slice, starts=starts, counts=tuple(shape), steps=strides),)


# --- views of items ----------------------------------------------------------------------------------------------


def batched(item: Value, count: int) -> tuple[Step, ...]:
    """The view ``item``, one of ``count``, as a view of the stack of what it shows."""
    assert item.op is not None
    write: Callable[..., tuple[Step, ...]] = _BATCHED[item.op]
    return write(item.value_operands[0].spec, item.spec, count, **item.attributes)


def can_batch(item: Value) -> bool:
    """Is there a view of the whole stack for this view of an item?"""
    return item.op in _BATCHED


def _reshape(x: TensorType, out: TensorType, count: int, shape: Shape) -> tuple[Step, ...]:
    return (step(movement.reshape, shape=(count, *shape)),)


def _permute(x: TensorType, out: TensorType, count: int, dims: Shape) -> tuple[Step, ...]:
    return (step(movement.permute, dims=(0, *(d + 1 for d in dims))),)


def _expand(x: TensorType, out: TensorType, count: int, shape: Shape) -> tuple[Step, ...]:
    ahead = out.ndim - x.ndim
    widened = (step(movement.unsqueeze, dims=tuple(range(1, ahead + 1))),) if ahead else ()
    return (*widened, step(movement.expand, shape=(count, *shape)))


def _squeeze(x: TensorType, out: TensorType, count: int, dims: Shape) -> tuple[Step, ...]:
    return (step(movement.squeeze, dims=tuple(d + 1 for d in dims)),)


def _unsqueeze(x: TensorType, out: TensorType, count: int, dims: Shape) -> tuple[Step, ...]:
    return (step(movement.unsqueeze, dims=tuple(d + 1 for d in dims)),)


def _sliced(
    x: TensorType, out: TensorType, count: int, starts: Shape, counts: Shape, steps: Shape
) -> tuple[Step, ...]:
    return _slice((count, *x.shape), (0, *starts), (count, *counts), (1, *steps))


def _diagonal(
    x: TensorType, out: TensorType, count: int, offset: int, dim1: int, dim2: int
) -> tuple[Step, ...]:
    return (step(movement.diagonal, offset=offset, dim1=dim1 + 1, dim2=dim2 + 1),)


_BATCHED: dict[Op, Callable[..., tuple[Step, ...]]] = {
    movement.reshape: _reshape,
    movement.permute: _permute,
    movement.expand: _expand,
    movement.squeeze: _squeeze,
    movement.unsqueeze: _unsqueeze,
    movement.slice: _sliced,
    movement.diagonal: _diagonal,
}


def joined(stack: TensorType, dim: int) -> tuple[Step, ...]:
    """All items of a stack one after the other along ``dim``."""
    count, *item = stack.shape
    shape = (*item[:dim], count * item[dim], *item[dim + 1 :])
    return (*moved(stack.ndim, 0, dim), step(movement.reshape, shape=shape))
