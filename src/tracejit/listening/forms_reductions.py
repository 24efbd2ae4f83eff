"""Sums, extremes, statistics, norms, and what orders elements, as operators; see :mod:`tracejit.listening.forms`."""

from __future__ import annotations

from typing import Any

from ..aten import ATEN as A
from ..tensor import Tensor
from .forms import AS_SPELLED, AS_WRITTEN, form
from .quiet import quietly

__all__ = ["row_of", "usual_order"]


def row_of(dim: Any) -> list[int] | None:
    """Dimensions as a row; None where none are given.

    >>> row_of(1), row_of((0, 1)), row_of(None)
    ([1], [0, 1], None)
    """
    if dim is None:
        return None
    return [dim] if isinstance(dim, int) else list(dim)


@form("sum", "mean")
def _sum(input: Any, dim: Any = None, *rest: Any, **options: Any) -> Any:
    return AS_SPELLED


def usual_order(order: Any) -> bool:
    """Is it the order of a norm whose gradient is a quotient of powers?

    >>> usual_order(2), usual_order(float("inf"))
    (True, False)
    """
    return isinstance(order, (int, float)) and 0 < order < float("inf")


def _spread(name: str) -> Any:
    def spread(
        input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **options: Any
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        given = "correction" in options
        correction = options.pop("correction", 1)
        if options:
            return AS_WRITTEN
        if unbiased is not None:
            correction, given = int(unbiased), True
        rows = row_of(dim)
        named: dict[str, Any] = {}
        if given or rows is not None or keepdim:
            named["correction"] = correction
        return getattr(A, name)(input, rows, keepdim=keepdim, **named)

    return spread


for _name in ("var", "std", "var_mean", "std_mean"):
    form(_name)(_spread(_name))


def _extreme(name: str, pair: str) -> Any:
    def extreme(input: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        other = options.pop("other", None)
        if options:
            return AS_WRITTEN
        if isinstance(dim, Tensor) or other is not None:
            return getattr(A, pair)(input, other if other is not None else dim)
        if dim is None:
            return getattr(A, name)(input)
        return _named(name, getattr(A, name)(input, dim, keepdim))

    return extreme


def _named(name: str, found: Any) -> Any:
    """A pair as the function of that name returns it."""
    from ..ops.functions import return_types

    kind = getattr(return_types, name, None)
    return (
        found
        if kind is None or isinstance(found, kind) or not isinstance(found, tuple)
        else kind(found)
    )


form("max")(_extreme("max", "maximum"))
form("min")(_extreme("min", "minimum"))


@form("amax")
def _amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return A.amax(input, row_of(dim) or [], keepdim)


@form("amin")
def _amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return A.amin(input, row_of(dim) or [], keepdim)


@form("norm")
def _norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, **options: Any
) -> Any:
    if options.get("dtype") is not None or options.get("out") is not None or p == "nuc":
        return AS_WRITTEN
    if not input.dtype.is_floating_point:
        return AS_WRITTEN
    order = 2 if p in ("fro", None) else p
    if not usual_order(order):
        return AS_WRITTEN
    return A.linalg_vector_norm(input, order, row_of(dim), keepdim)


@form("linalg_vector_norm")
def _vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if not usual_order(ord):
        return AS_WRITTEN
    return A.linalg_vector_norm(x, ord, row_of(dim), keepdim, dtype=dtype)


@form("linalg_norm")
def _linalg_norm(
    *args: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, **options: Any
) -> Any:
    if ord is not None or options or len(args) != 1:
        return AS_WRITTEN
    return A.linalg_vector_norm(args[0], 2.0, row_of(dim), keepdim)


@form("argsort")
def _argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if stable:
        return A.sort.stable(input, stable=True, dim=dim, descending=descending)[1]
    return A.sort(input, dim, descending)[1]


@form("msort")
def _msort(input: Any) -> Any:
    return A.sort(input, 0)[0]


@form("sort")
def _sort(input: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    if stable is None:
        return _named("sort", A.sort(input, dim, descending))
    return _named("sort", A.sort.stable(input, stable=stable, dim=dim, descending=descending))


@form("where")
def _where(condition: Any, input: Any = None, other: Any = None) -> Any:
    if input is None:
        return AS_WRITTEN
    tensors = [x for x in (input, other) if isinstance(x, Tensor)]
    if not tensors or not isinstance(condition, Tensor):
        return AS_WRITTEN
    return A.where(condition, *[_as_tensor(x, tensors[0]) for x in (input, other)])


def _as_tensor(x: Any, like: Any) -> Any:
    if isinstance(x, Tensor):
        return x
    kind = like.dtype
    if isinstance(x, float) and not (kind.is_floating_point or kind.is_complex):
        kind = None
    if isinstance(x, complex) and not kind.is_complex:
        kind = None
    return A.scalar_tensor(x, dtype=kind, device=like.device)


@form("Tensor.where")
def _where_method(self: Any, condition: Any, other: Any) -> Any:
    return _where(condition, self, other)


@form("isclose")
def _isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    return AS_WRITTEN


@form("unique")
def _unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
) -> Any:
    if dim is not None:
        return AS_WRITTEN
    values, inverse, counts = A._unique2(input, sorted, return_inverse, return_counts)
    if not return_inverse and not return_counts:
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


@form("bucketize")
def _bucketize(input: Any, boundaries: Any, **options: Any) -> Any:
    return AS_SPELLED


@form("item")
def _item(input: Any) -> Any:
    return A._local_scalar_dense(input) if input.numel() == 1 else AS_WRITTEN


@form("__bool__")
def _bool(input: Any) -> Any:
    return bool(A._local_scalar_dense(input)) if input.numel() == 1 else AS_WRITTEN


@form("__float__")
def _float(input: Any) -> Any:
    return float(A._local_scalar_dense(input)) if input.numel() == 1 else AS_WRITTEN


@form("__int__", "__index__")
def _int(input: Any) -> Any:
    if input.numel() != 1 or (input.dtype.is_floating_point and quietly(input.isnan).any()):
        return AS_WRITTEN
    return int(A._local_scalar_dense(input))


_KINDS = (
    *("float", "double", "half", "bfloat16", "int", "long"),
    *("short", "char", "byte", "bool", "cfloat", "cdouble"),
)


def _cast_to(name: str) -> Any:
    def cast(input: Any, *args: Any, **options: Any) -> Any:
        found = quietly(getattr(Tensor, name), input.detach(), *args, **options)
        return converted(input, found, options)

    return cast


def converted(input: Any, found: Any, options: dict[str, Any]) -> Any:
    """What ``to`` gives, where ``found`` is what it gave without history.

    >>> import tracejit as tj
    >>> x = tj.ones(2)
    >>> converted(x, x.double(), {}).dtype
    tracejit.float64
    """
    named: dict[str, Any] = {}
    if found.dtype is not input.dtype:
        named["dtype"] = found.dtype
    if found.device != input.device:
        named["device"] = found.device
    wanted = options.get("memory_format")
    if wanted is not None and found._writes is not input._writes:
        named["memory_format"] = wanted
    if not named and found._writes is input._writes:
        return input
    return A._to_copy(input, **named)


for _name in ("to", "type_as", *_KINDS):
    form(_name)(_cast_to(_name))
