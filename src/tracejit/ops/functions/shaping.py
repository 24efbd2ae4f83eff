"""Views and rearrangements of one tensor: view, reshape, permute, expand, select, flip, repeat, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dtypes import DType
from ...errors import ArgumentError, ShapeError
from .. import elementwise as e
from .. import movement as m
from .. import shapes
from ..table import FUNCTIONS, alias, function
from .common import Tensor, check_tensor, dim_of, is_copy, shape_of


def _sizes(sizes: tuple[Any, ...], keywords: dict[str, Any], name: str) -> tuple[int, ...]:
    """``f(2, 3)``, ``f((2, 3))`` and ``f(shape=(2, 3))`` alike."""
    if keywords:
        ((_, given),) = keywords.items()
        sizes = (given,)
    if not sizes:
        raise ArgumentError(f'{name}() missing 1 required positional arguments: "shape"')
    return shapes.size_arguments(sizes)


@function(steady=True)
def reshape(input: Tensor, *shape: Any, **keyword: Any) -> Tensor:
    """``input`` with another shape (one extent may be -1); a view when strides allow it.

    Raises ``RuntimeError`` when the number of elements differs.

    >>> import tracejit as tj
    >>> tj.reshape(tj.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    wanted = _sizes(shape, keyword, "reshape")
    found = shapes.resolve_size(wanted, shapes.numel(shape_of(input)))
    return m.reshape(input, shape=found)


@function(namespace=False, steady=True)
def view(self: Tensor, *shape: Any, **keyword: Any) -> Tensor:
    """``self`` with another shape, never copying; with a dtype, its memory read as elements of that dtype.

    Raises ``RuntimeError`` when the strides do not allow a view.

    >>> import tracejit as tj
    >>> tj.arange(4).view(2, 2)
    tensor([[0, 1],
            [2, 3]])
    >>> tj.tensor([1.0, -0.0]).view(tj.int32)
    tensor([ 1065353216, -2147483648], dtype=tracejit.int32)
    """
    kind = shape[0] if shape else keyword.get("dtype")
    if isinstance(kind, DType):
        return self._in_dtype(kind)
    result = reshape(self, *shape, **keyword)
    if is_copy(result, self):
        raise ShapeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return result


@function(namespace=False)
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """``self`` viewed with the shape of ``other``.

    >>> import tracejit as tj
    >>> tj.arange(4).view_as(tj.ones(2, 2)).shape
    tracejit.Size([2, 2])
    """
    return view(self, shape_of(other))


@function(namespace=False)
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """``self`` with the shape of ``other``.

    >>> import tracejit as tj
    >>> tj.arange(4).reshape_as(tj.ones(2, 2)).shape
    tracejit.Size([2, 2])
    """
    return reshape(self, shape_of(other))


@function()
def ravel(input: Tensor) -> Tensor:
    """``input`` as one dimension, element after element in memory: a copy unless they lie like that.

    >>> import tracejit as tj
    >>> tj.ravel(tj.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    return reshape(contiguous(input), (-1,) if input.spec.numel else (0,))


@function(steady=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` merged into one.

    Raises ``RuntimeError`` when ``start_dim`` comes after ``end_dim``.

    >>> import tracejit as tj
    >>> tj.flatten(tj.ones(2, 3, 4), 1).shape
    tracejit.Size([2, 12])
    """
    check_tensor("flatten", input)
    start, end = dim_of(start_dim, input), dim_of(end_dim, input)
    if start > end:
        raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim")
    shape = shape_of(input)
    merged = (*shape[:start], shapes.numel(shape[start : end + 1]), *shape[end + 1 :])
    return input if merged == shape else m.reshape(input, shape=merged)


@function()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Dimension ``dim`` split into ``sizes`` (one may be -1).

    Raises ``RuntimeError`` when the sizes do not multiply to the extent.

    >>> import tracejit as tj
    >>> tj.unflatten(tj.ones(2, 6), 1, (3, -1)).shape
    tracejit.Size([2, 3, 2])
    """
    d = dim_of(dim, input)
    shape = shape_of(input)
    try:
        split = shapes.resolve_size(tuple(sizes), shape[d])
    except ShapeError:
        raise ShapeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} "
            f"({shape[d]}) in the input tensor"
        ) from None
    return m.reshape(input, shape=(*shape[:d], *split, *shape[d + 1 :]))


@function(steady=True)
def permute(input: Tensor, *dims: Any) -> Tensor:
    """``input`` with its dimensions in the given order.

    Raises ``RuntimeError`` unless ``dims`` names every dimension once.

    >>> import tracejit as tj
    >>> tj.permute(tj.ones(2, 3, 4), (2, 0, 1)).shape
    tracejit.Size([4, 2, 3])
    """
    wanted = shapes.size_arguments(dims) if dims else ()
    if len(wanted) == input.ndim:
        wanted = tuple(dim_of(d, input) for d in wanted)
        if len(set(wanted)) != len(wanted):
            raise ShapeError("permute(): duplicate dims are not allowed.")
    return m.permute(input, dims=wanted)


@function(steady=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``input`` with two dimensions exchanged.

    Raises ``IndexError`` for a dimension out of range.

    >>> import tracejit as tj
    >>> tj.transpose(tj.ones(2, 3), 0, 1).shape
    tracejit.Size([3, 2])
    """
    a, b = dim_of(dim0, input), dim_of(dim1, input)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return m.permute(input, dims=tuple(order))


@function()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and 0-d tensors as they are.

    Raises ``RuntimeError`` for more than two dimensions.

    >>> import tracejit as tj
    >>> tj.t(tj.ones(2, 3)).shape
    tracejit.Size([3, 2])
    """
    if input.ndim > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, -1)


@function()
def adjoint(input: Tensor) -> Tensor:
    """``input`` with its last two dimensions exchanged (a number has none), conjugates of complex numbers.

    >>> import tracejit as tj
    >>> tj.adjoint(tj.ones(4, 2, 3)).shape
    tracejit.Size([4, 3, 2])
    """
    if not input.ndim:
        return FUNCTIONS["conj"](m.permute(input, dims=()))
    if input.ndim < 2:
        raise ShapeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. "
            f"Got {input.ndim}-D tensor."
        )
    return FUNCTIONS["conj"](transpose(input, -2, -1))


@function()
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """``input`` with the dimensions ``source`` moved to ``destination``, the others in order.

    Raises ``RuntimeError`` when the two differ in length or repeat a dimension.

    >>> import tracejit as tj
    >>> tj.movedim(tj.ones(2, 3, 4), 0, -1).shape
    tracejit.Size([3, 4, 2])
    """
    pairs = [(source,) if isinstance(source, int) else tuple(source)]
    pairs.append((destination,) if isinstance(destination, int) else tuple(destination))
    if len(pairs[0]) != len(pairs[1]):
        raise ShapeError(
            f"movedim: Invalid source or destination dims: source ({list(pairs[0])} dims) should "
            f"contain the same number of dims as destination ({list(pairs[1])} dims)"
        )
    origin, target = ([dim_of(d, input) for d in dims] for dims in pairs)
    for name, found, given in zip(("source", "destination"), (origin, target), pairs, strict=True):
        if len(set(found)) != len(found):
            raise ShapeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    rest = iter(d for d in range(input.ndim) if d not in origin)
    placed = dict(zip(target, origin, strict=True))
    order = tuple(placed[d] if d in placed else next(rest) for d in range(input.ndim))
    return m.permute(input, dims=order)


@function(steady=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """``input`` with an extent of one inserted at ``dim``.

    Raises ``IndexError`` for a dimension out of range.

    >>> import tracejit as tj
    >>> tj.unsqueeze(tj.ones(3), -1).shape
    tracejit.Size([3, 1])
    """
    check_tensor("unsqueeze", input)
    count = input.ndim + 1
    if not -count <= dim < count:
        shapes.normalize_dim(dim, input.ndim, extra=1)
    return m.unsqueeze(input, dims=(dim % count,))


@function(steady=True)
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """``input`` without extents of one: all of them, or those at ``dim`` that are one.

    Raises ``IndexError`` for a dimension out of range.

    >>> import tracejit as tj
    >>> tj.squeeze(tj.ones(1, 3, 1)).shape, tj.squeeze(tj.ones(1, 3, 1), 0).shape
    (tracejit.Size([3]), tracejit.Size([3, 1]))
    """
    shape = shape_of(input)
    if dim is None:
        wanted: tuple[int, ...] = tuple(range(len(shape)))
    elif isinstance(dim, (tuple, list)):
        wanted = shapes.normalize_dims(dim, len(shape)) if dim else ()
    else:
        found = dim_of(dim, input)  # type: ignore[arg-type]
        wanted = (found,) if shape else ()
    return m.squeeze(input, dims=tuple(d for d in wanted if shape[d] == 1))


@function(namespace=False, steady=True)
def expand(self: Tensor, *sizes: Any, implicit: bool = False) -> Tensor:
    """``self`` repeated along extents of one without copying; -1 keeps an extent.

    Raises ``RuntimeError`` when another extent would change.

    >>> import tracejit as tj
    >>> tj.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    wanted = shapes.size_arguments(sizes) if sizes else ()
    shape = shape_of(self)
    ahead = len(wanted) - len(shape)
    if ahead < 0:
        raise ShapeError(
            f"expand({self.spec}, size={list(wanted)}): the number of sizes provided "
            f"({len(wanted)}) must be greater or equal to the number of dimensions in the tensor "
            f"({len(shape)})"
        )
    if any(w == -1 for w in wanted[:ahead]):
        raise ShapeError(
            f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
            f"dimension {wanted.index(-1)}"
        )
    target = tuple(shape[d - ahead] if w == -1 else w for d, w in enumerate(wanted))
    return m.expand(self, shape=target)


@function(namespace=False)
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """``self`` expanded to the shape of ``other``.

    >>> import tracejit as tj
    >>> tj.ones(1).expand_as(tj.zeros(2, 2)).shape
    tracejit.Size([2, 2])
    """
    return m.expand(self, shape=shape_of(other))


@function(method="broadcast_to", namespace=False)
def broadcast_to_method(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """``self`` expanded to a size, given as one or as its extents.

    >>> import tracejit as tj
    >>> tj.tensor([1, 2]).broadcast_to(2, 2).shape
    tracejit.Size([2, 2])
    """
    return expand(self, *(sizes if size is None else (size,)))


@function(method=False)
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """``input`` expanded to ``size``.

    >>> import tracejit as tj
    >>> tj.broadcast_to(tj.tensor([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return expand(input, tuple(size))


@function(method=False)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape, those that have it as they are.

    >>> import tracejit as tj
    >>> [x.shape for x in tj.broadcast_tensors(tj.ones(2, 1), tj.ones(3))]
    [tracejit.Size([2, 3]), tracejit.Size([2, 3])]
    """
    xs = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    common = shapes.broadcast("broadcast_tensors", [shape_of(x) for x in xs])
    return tuple(x if shape_of(x) == common else m.expand(x, shape=common) for x in xs)


@function(method=False)
def broadcast_shapes(*sizes: Any) -> Any:
    """The common shape of several shapes.

    >>> import tracejit as tj
    >>> tj.broadcast_shapes((2, 1), (3,))
    tracejit.Size([2, 3])
    """
    from ..mixin import Size

    plain = [(s,) if isinstance(s, int) else tuple(s) for s in sizes]
    return Size(shapes.broadcast("broadcast_shapes", plain))


@function()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own storage; gradients flow through.

    >>> import tracejit as tj
    >>> tj.clone(tj.ones(2))
    tensor([1., 1.])
    """
    return e.clone(input)


@function(namespace=False)
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """``self`` when it is contiguous, else a contiguous copy.

    >>> import tracejit as tj
    >>> tj.ones(2, 3).T.contiguous().stride()
    (2, 1)
    """
    is_contiguous = getattr(self, "is_contiguous", None)
    return self if is_contiguous is None or is_contiguous() else e.clone(self)


for _name, _target in {
    "swapaxes": transpose,
    "swapdims": transpose,
    "moveaxis": movedim,
}.items():
    alias(_name, _target)


def as_nothing(x: Tensor, like: Tensor, d: int) -> Tensor:
    """A vector of nothing in the shape of ``like``, none of it along dimension ``d``; other tensors as they are."""
    if shape_of(x) != (0,):
        return x
    shape = shape_of(like)
    return m.reshape(x, shape=(*shape[:d], 0, *shape[d + 1 :]))
