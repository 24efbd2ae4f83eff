"""Functions of lists of tensors (``_foreach_add_`` and its like), by which optimizers update all parameters at once.

Here they are loops: a compiled function makes one kernel of such a loop anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .linalg import vector_norm
from .ops.functions.matrices import mm
from .tensor import Tensor

__all__ = ["PREFIX", "foreach"]

#: How their names start.
PREFIX = "_foreach_"
_ONE = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"""
_UNARY = frozenset(_ONE.split())
_BINARY = frozenset(
    ["add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub"]
)
_TERNARY = frozenset(["addcdiv", "addcmul", "lerp"])
#: Functions of tensors and numbers where methods take tensors only.
_BY_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}


def foreach(name: str) -> Callable[..., Any]:
    """The function of this name, which does to each tensor of a list what the method of that name does to one.

    Other operands are lists as long as the first, or one number (or tensor) for all. A function whose name ends in
    ``_`` changes the tensors and returns them as a list; the others return a tuple of new ones.

    Raises ``AttributeError`` for names that PyTorch does not have. The functions raise ``RuntimeError`` for empty lists
    and for lists of different length.

    >>> import tracejit as tj
    >>> x = [tj.ones(2), tj.zeros(1)]
    >>> foreach("_foreach_add_")(x, 1)
    [tensor([2., 2.]), tensor([1.])]
    >>> tj._foreach_mul(x, [2.0, 3.0])
    (tensor([4., 4.]), tensor([3.]))
    """
    word = name.removeprefix(PREFIX)
    made = _SPECIAL.get(word) or _like_method(word)
    if made is None or not name.startswith(PREFIX):
        raise AttributeError(f"module 'tracejit' has no attribute {name!r}")
    made.__name__ = made.__qualname__ = name
    return made


def _like_method(word: str) -> Callable[..., Any] | None:
    base = word.removesuffix("_")
    collect = tuple if base == word else list
    if base in _UNARY:
        return lambda self: collect([getattr(x, word)() for (x,) in _rows(self)])
    if base in _BINARY:
        return _of_two(word, base, collect)
    if base in _TERNARY:
        return _ternary(word, base, collect)
    return None


def _rows(*operands: Any) -> Iterator[tuple[Any, ...]]:
    """What belongs together, tensor by tensor."""
    count = len(operands[0])
    if not count:
        raise RuntimeError("Tensor list must have at least one tensor.")
    columns = []
    for operand in operands:
        if not isinstance(operand, (list, tuple)):
            columns.append([operand] * count)
            continue
        if len(operand) != count:
            if operand and not isinstance(operand[0], Tensor):
                raise RuntimeError("Tensor list must have same number of elements as scalar list.")
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(operand)}"
            )
        columns.append(list(operand))
    return zip(*columns, strict=True)


#: What PyTorch calls the second operand where it is a number, a list of them, or an exponent.
_SECOND = ("other", "scalar", "scalars", "exponent")


def _of_two(word: str, base: str, collect: Callable[..., Any]) -> Callable[..., Any]:
    def binary(self: Any, *args: Any, alpha: Any = 1, **named: Any) -> Any:
        name = next(iter(named), "")
        if len(args) + len(named) != 1 or (named and name not in _SECOND):
            raise TypeError(
                f"{PREFIX}{word}() received an invalid combination of arguments: it takes one operand besides the "
                "tensors"
            )
        return _binary(word, self, args[0] if args else named[name], alpha, collect)

    return binary


def _binary(word: str, self: Any, other: Any, alpha: Any, collect: Callable[..., Any]) -> Any:
    if not isinstance(self, (list, tuple)):  # a number to the power of tensors
        return collect([x.new_tensor(b).pow(x) for x, b in _rows(other, self)])
    scale = {} if alpha == 1 else {"alpha": alpha}
    return collect([_applied(word, x, y, **scale) for x, y in _rows(self, other)])


def _applied(word: str, x: Tensor, y: Any, **scale: Any) -> Any:
    """A method of ``x`` with a tensor or a number; in place also where there is no such method."""
    base = word.removesuffix("_")
    if not isinstance(y, Tensor):
        base = _BY_NUMBER.get(base, base)
    if base == word or base not in ("maximum", "minimum"):
        return getattr(x, base + "_" * (word[-1] == "_"))(y, **scale)
    return x.copy_(getattr(x, base)(y))


def _ternary(word: str, base: str, collect: Callable[..., Any]) -> Callable[..., Any]:
    if base == "lerp":

        def lerp(
            self: Sequence[Tensor],
            tensors1: Sequence[Tensor],
            weight: Any = None,
            weights: Any = None,
        ) -> Any:
            weight = weights if weight is None else weight
            return collect([getattr(x, word)(y, w) for x, y, w in _rows(self, tensors1, weight)])

        return lerp

    def scaled(
        self: Sequence[Tensor],
        tensor1: Sequence[Tensor],
        tensor2: Sequence[Tensor],
        value: Any = 1,
        *,
        scalars: Any = None,
    ) -> Any:
        value = value if scalars is None else scalars
        values = value.tolist() if isinstance(value, Tensor) else value
        rows = _rows(self, tensor1, tensor2, values)
        return collect([getattr(x, word)(a, b, value=v) for x, a, b, v in rows])

    return scaled


def _norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple([vector_norm(x, ord, dtype=dtype) for (x,) in _rows(self)])


def _powsum(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """Norms before the root is taken."""
    if ord == 0 or abs(ord) == math.inf:
        return _norm(self, ord, dtype)
    rows = [x if dtype is None else x.to(dtype) for (x,) in _rows(self)]
    return tuple([x.abs().pow(ord).sum() for x in rows])


def _mm(self: Sequence[Tensor], mat2: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple([mm(x, y) for x, y in _rows(self, mat2)])


def _max(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple([x.max() for (x,) in _rows(self)])


def _clone(self: Sequence[Tensor], *, memory_format: Any = None) -> tuple[Tensor, ...]:
    chosen = {} if memory_format is None else {"memory_format": memory_format}
    return tuple([x.clone(**chosen) for (x,) in _rows(self)])


def _copy(
    self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False
) -> list[Tensor]:
    return [x.copy_(y) for x, y in _rows(self, src)]


def _zero(self: Sequence[Tensor]) -> list[Tensor]:
    return [x.zero_() for (x,) in _rows(self)]


_SPECIAL: dict[str, Callable[..., Any]] = {
    "norm": _norm,
    "powsum": _powsum,
    "mm": _mm,
    "max": _max,
    "clone": _clone,
    "copy_": _copy,
    "zero_": _zero,
}
