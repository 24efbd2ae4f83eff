"""What functions are for a listener: operators of PyTorch, called in PyTorch's order.

A form is a function of the arguments that a program gives; it calls operators by `A`. One that returns `AS_SPELLED` has
nothing to say about a call, which is then an operator of that name where one is spelled so; one that returns
`AS_WRITTEN` has the function run as it is written, and its parts are seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..aten import ATEN as A
from ..memory_formats import contiguous_format
from ..tensor import Tensor
from .quiet import quietly

__all__ = ["ALIASES", "AS_SPELLED", "AS_WRITTEN", "FORMS", "form", "inferred", "positive", "whole"]

Form = Callable[..., Any]
AS_SPELLED = object()
AS_WRITTEN = object()
#: By the names of functions; ``F.`` is before those of ``nn.functional`` and ``Tensor.`` before methods that differ.
FORMS: dict[str, Form] = {}

#: Functions by the names of what they are others for.
_OTHER_NAMES = """
subtract=sub multiply=mul divide=div true_divide=div negative=neg absolute=abs clip=clamp greater=gt
greater_equal=ge less=lt less_equal=le not_equal=ne arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh
arctan=atan arctanh=atanh arctan2=atan2 fix=trunc swapaxes=transpose swapdims=transpose moveaxis=movedim
ger=outer linalg_diagonal=diagonal subtract_=sub_ multiply_=mul_ divide_=div_ true_divide_=div_
negative_=neg_ absolute_=abs_ clip_=clamp_ fix_=trunc_ __floordiv__=floor_divide __ifloordiv__=floor_divide_
__invert__=bitwise_not
"""
ALIASES = dict(pair.split("=") for pair in _OTHER_NAMES.split())


def form(*names: str) -> Callable[[Form], Form]:
    """A decorator: this is what functions of these names are.

    >>> form("docs_form")(len) is FORMS.pop("docs_form")
    True
    """

    def keep(function: Form) -> Form:
        FORMS.update(dict.fromkeys(names, function))
        return function

    return keep


def positive(dim: int, rank: int) -> int:
    """A dimension counted from the front.

    >>> positive(-1, 3)
    2
    """
    return dim + rank if dim < 0 else dim


def whole(x: Any) -> Any:
    """A tensor whose elements lie one after the other, as ``contiguous`` gives it.

    >>> import tracejit as tj
    >>> whole(tj.ones(2))
    tensor([1., 1.])
    """
    if quietly(x.is_contiguous):
        return x
    return A.clone(x, memory_format=contiguous_format)


def inferred(shape: Any, count: int) -> list[int]:
    """A shape of which -1 may be an extent, for so many elements.

    >>> inferred((2, -1), 6)
    [2, 3]
    """
    found: list[int] = [int(n) for n in shape]
    shape = found
    if -1 in shape:
        known = 1
        for n in shape:
            known *= 1 if n == -1 else n
        shape[shape.index(-1)] = count // known if known else 0
    return found


def viewable(x: Any, shape: list[int]) -> bool:
    """Can the memory of a tensor be shown so?

    >>> import tracejit as tj
    >>> viewable(tj.ones(2, 3), [6]), viewable(tj.ones(2, 3).t(), [6])
    (True, False)
    """
    try:
        quietly(x.detach().view, shape)
    except RuntimeError:
        return False
    return True


def _row(args: tuple[Any, ...]) -> list[int]:
    single = len(args) == 1 and isinstance(args[0], (list, tuple))
    return list(args[0] if single else args)


# --- shapes ---------------------------------------------------------------------------------------


@form("reshape")
def reshape(input: Any, *shape: Any) -> Any:
    """A view where there can be one, and a copy otherwise.

    >>> import tracejit as tj
    >>> reshape(tj.ones(2, 2), -1)
    tensor([1., 1., 1., 1.])
    """
    wanted = inferred(_row(shape), input.numel())
    if viewable(input, wanted):
        return A.view(input, wanted)
    return A._unsafe_view(A.clone(input, memory_format=contiguous_format), wanted)


@form("reshape_as")
def _reshape_as(input: Any, other: Any) -> Any:
    return reshape(input, list(other.shape))


@form("view")
def _view(input: Any, *shape: Any) -> Any:
    kind: Any = shape[0] if shape else ()
    return A.view(input, _row(shape)) if isinstance(kind, (int, list, tuple)) else AS_WRITTEN


@form("view_as")
def _view_as(input: Any, other: Any) -> Any:
    return A.view(input, list(other.shape))


@form("flatten", "ravel")
def _flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    rank = len(input.shape)
    if rank == 0:
        return reshape(input, [1])
    first, last = positive(start_dim, rank), positive(end_dim, rank)
    if first > last:
        return AS_WRITTEN
    if first == last:
        return input
    shape = list(input.shape)
    many = 1
    for n in shape[first : last + 1]:
        many *= n
    return reshape(input, [*shape[:first], many, *shape[last + 1 :]])


@form("unflatten")
def _unflatten(input: Any, dim: int, sizes: Any) -> Any:
    shape, at = list(input.shape), positive(dim, len(input.shape))
    return A.view(input, [*shape[:at], *inferred(sizes, shape[at]), *shape[at + 1 :]])


@form("contiguous")
def _contiguous(input: Any, memory_format: Any = None) -> Any:
    if memory_format is None or str(memory_format).endswith("contiguous_format"):
        return whole(input)
    if quietly(input.is_contiguous, memory_format=memory_format):
        return input
    return A.clone(input, memory_format=memory_format)


@form("expand_as", "broadcast_to")
def _expanded(input: Any, other: Any, *rest: int) -> Any:
    shape = other.shape if isinstance(other, Tensor) else _row((other, *rest))
    return A.expand(input, list(shape))


@form("movedim")
def _movedim(input: Any, source: Any, destination: Any) -> Any:
    rank = len(input.shape)
    rows = [[positive(d, rank) for d in _row((x,))] for x in (source, destination)]
    order: list[Any] = [None] * rank
    for a, b in zip(*rows, strict=True):
        order[b] = a
    others = iter([d for d in range(rank) if d not in rows[0]])
    return A.permute(input, [next(others) if d is None else d for d in order])


@form("narrow")
def _narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    begin = int(start)
    begin = begin + input.shape[dim] if begin < 0 else begin
    return A.slice(input, dim, begin, begin + length)


@form("chunk")
def _chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    extent = input.shape[dim]
    if chunks <= 0 or not extent:
        return AS_WRITTEN
    return tuple(A.split(input, -(-extent // chunks), dim))


@form("split")
def _split(input: Any, split_size: Any = None, dim: int = 0, **other: Any) -> Any:
    size = other.get("split_size_or_sections", split_size)
    if isinstance(size, int):
        return tuple(A.split(input, size, dim))
    return tuple(A.split_with_sizes(input, list(size), dim))


@form("hstack")
def _hstack(tensors: Any) -> Any:
    if not all(len(x.shape) for x in tensors):
        return AS_WRITTEN
    return A.cat(list(tensors), 0 if len(tensors[0].shape) == 1 else 1)


@form("vstack")
def _vstack(tensors: Any) -> Any:
    return A.cat(list(tensors)) if all(len(x.shape) > 1 for x in tensors) else AS_WRITTEN


@form("tile")
def _tile(input: Any, *dims: Any) -> Any:
    row = _row(dims)
    return A.repeat(input, [1] * (len(input.shape) - len(row)) + row)


@form("repeat_interleave")
def _repeat_interleave(input: Any, repeats: Any, dim: Any = None, **options: Any) -> Any:
    if not isinstance(repeats, int) or options:
        return AS_WRITTEN
    if dim is None:
        input, dim = reshape(input, [-1]), 0
    dim = positive(dim, len(input.shape))
    shape = [*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :]]
    spread = whole(A.expand(A.unsqueeze(input, dim + 1), shape))
    return A.view(spread, [*input.shape[:dim], input.shape[dim] * repeats, *input.shape[dim + 1 :]])


@form("diag")
def _diag(input: Any, diagonal: int = 0) -> Any:
    if len(input.shape) == 1:
        return A.diag_embed(input, diagonal)
    return AS_WRITTEN


@form("meshgrid")
def _meshgrid(*tensors: Any, indexing: Any = None) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing != "ij" or not all(len(x.shape) == 1 for x in tensors):
        return AS_WRITTEN
    shape, rank = [x.shape[0] for x in tensors], len(tensors)
    return tuple(
        A.expand(A.view(x, [-1 if d == i else 1 for d in range(rank)]), shape)
        for i, x in enumerate(tensors)
    )
