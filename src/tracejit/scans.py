"""Running results of a function that is associative, along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ops.functions.joining import cat, stack
from .tensor import Tensor
from .utils.trees import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]

_Leaves = list[Tensor]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """What ``combine_fn`` makes of all elements of ``xs`` up to each place along ``dim``, from the end if ``reverse``.

    ``xs`` is a tensor, or tuples, lists and dicts of tensors of one shape; ``combine_fn`` gets two such values and
    must be associative: pairs are combined first, then pairs of pairs. ``combine_mode`` changes nothing.
    Raises ``RuntimeError`` for what is not made of tensors that have that dimension in common.

    >>> import tracejit as tj
    >>> associative_scan(lambda a, b: a + b, tj.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  3,  6, 10])
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise RuntimeError(
            f"Combine_mode must be either 'pointwise' or 'generic', but got {combine_mode}"
        )
    leaves, form = tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError(f"xs leaves must be one or more Tensors, but got {xs}")
    if not leaves[0].ndim or any(x.shape[dim] != leaves[0].shape[dim] for x in leaves):
        raise RuntimeError(
            f"All xs leaves must have the same size along dimension {dim}, and have one"
        )

    def combine(a: _Leaves, b: _Leaves) -> _Leaves:
        found, other = tree_flatten(combine_fn(tree_unflatten(a, form), tree_unflatten(b, form)))
        if other != form:
            raise RuntimeError("The pytree of the output of combine_fn must be that of xs")
        return found

    rows = [x.movedim(dim, 0) for x in leaves]
    rows = [x.flip(0) for x in rows] if reverse else rows
    rows = _scanned(combine, rows)
    rows = [x.flip(0) for x in rows] if reverse else rows
    return tree_unflatten([x.movedim(0, dim) for x in rows], form)


def _scanned(combine: Callable[[_Leaves, _Leaves], _Leaves], rows: _Leaves) -> _Leaves:
    """The same along the first dimension: of pairs, which gives every second result, and of these the others."""
    count = rows[0].shape[0]
    if count < 2:
        return rows
    later = _scanned(combine, combine([x[: count - 1 : 2] for x in rows], [x[1::2] for x in rows]))
    earlier = [x[:1] for x in rows]
    if count > 2:
        before = [x[: (count - 1) // 2] for x in later]
        earlier = [
            cat(pair)
            for pair in zip(earlier, combine(before, [x[2::2] for x in rows]), strict=True)
        ]
    return [_interleaved(a, b) for a, b in zip(earlier, later, strict=True)]


def _interleaved(first: Tensor, second: Tensor) -> Tensor:
    """``first[0], second[0], first[1], ...``; the first may have one more."""
    count = second.shape[0]
    both: Tensor = stack((first[:count], second), 1).flatten(0, 1)
    return cat((both, first[count:])) if first.shape[0] > count else both
