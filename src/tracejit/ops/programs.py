"""Ops that eager code leaves to compiled code: long loops over elements in NumPy, and products.

`runtime.eager.programs` makes a program of the single op, once NumPy has done as much work as that takes to compile.
Products are faster that way, too: the library that NumPy calls multiplies matrices of a batch one after the other, and
its threads wait for one another without a rest, so that beside another process a product takes a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import bfloat16, float16, float32, float64

__all__ = ["LONG", "by_program", "product_by_program", "reduced_by_program", "set_programs"]

Array = Any
#: Elements from which on a program is worth its call, and those where it has NumPy's bits: then it may serve as soon as
#: it is no slower.
LEAST, LEAST_SAME = 1 << 14, 1 << 12
#: Multiplications from which on a program is.
LEAST_PRODUCTS = 1 << 21
#: So many multiplications of a library take as long as NumPy does for an element of a long loop.
PRODUCTS_PER_ELEMENT = 1 << 9
#: Elementwise ops of which NumPy's loops take up to a hundred nanoseconds for each element, on processors without
#: AVX-512 at least; kernels round in another way.
LONG = frozenset(
    [
        *("sinh", "cosh", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2"),
        *("exp2", "expm1", "exponential_rise", "log2", "log10", "log1p", "logaddexp", "hypot"),
        *("exp", "log", "sin", "cos", "tanh", "pow"),
    ]
)
#: An element of a long loop takes so many times as long as one that NumPy reduces: a whole number, one with a fraction.
QUICKER, QUICKER_FLOATS = 4, 16
_HALVES = (float16.np, bfloat16.np)
_FLOATS = tuple([kind.np for kind in (float16, bfloat16, float32, float64)])
#: What runs an op as a program: the op, its arrays, attributes, whether NumPy's bits are those of the kernel, and the
#: work in elements of a long loop.
Run = Callable[[Any, Sequence[Array], Mapping[str, Any], bool, int], Array | None]
_run: list[Run] = []


def set_programs(run: Run) -> None:
    """Install what runs single ops as programs, or gives None.

    >>> before = list(_run)
    >>> set_programs(lambda op, arrays, attributes, same, work: None)
    >>> _run[:] = before
    """
    _run[:] = [run]


def by_program(
    op: Any, arrays: Sequence[Array], attributes: Mapping[str, Any], *, same_bits: bool
) -> Array | None:
    """The result of ``op`` by compiled code; None where NumPy is to compute it.

    >>> from tracejit.ops.ordering import cumsum
    >>> by_program(cumsum, [np.ones(3)], {"dim": 0}, same_bits=True) is None  # too few
    True
    """
    if not _run or not _are_native(arrays):
        return None
    work = max([x.size for x in arrays])
    if work < (LEAST_SAME if same_bits else LEAST) or not (same_bits or _are_floats(arrays)):
        return None
    return _run[0](op, arrays, attributes, same_bits, work)


def reduced_by_program(op: Any, x: Array, attributes: Mapping[str, Any]) -> Array | None:
    """The result of a reduction where NumPy takes longer: it has one thread, and converts narrow numbers first.

    Only sums of numbers with a fraction have bits of their own; products of them are left to NumPy, for they may
    overflow in one order alone.

    >>> from tracejit.ops.reduction import sum
    >>> reduced_by_program(sum, np.ones(3, np.int8), {"dims": (0,), "keepdim": False}) is None  # too few
    True
    """
    if type(x) is not np.ndarray or x.size < LEAST or not _run or not _are_native((x,)):
        return None
    floats = x.dtype in _FLOATS
    if (
        op.combine == "prod"
        if floats
        else not (x.dtype.kind in "biu" or op.combine in ("any", "all"))
    ):
        return None
    same = not (floats and op.combine == "sum")
    quicker = 1 if x.dtype in _HALVES else QUICKER_FLOATS if floats else QUICKER
    return _run[0](op, (x,), attributes, same, x.size // quicker)


def product_by_program(
    op: Any, arrays: Sequence[Array], attributes: Mapping[str, Any], multiplications: int
) -> Array | None:
    """The result of ``op``, which is as many products, by compiled code; None where a library is to compute it.

    >>> from tracejit.ops.contraction import matmul
    >>> product_by_program(matmul, [np.ones((2, 2)), np.ones((2, 2))], {}, 8) is None  # too few
    True
    """
    if multiplications < LEAST_PRODUCTS or not _run:
        return None
    if not (_are_native(arrays) and _are_floats(arrays)):
        return None
    return _run[0](op, arrays, attributes, False, multiplications // PRODUCTS_PER_ELEMENT)


def _are_native(arrays: Sequence[Array]) -> bool:
    """Do all lie on the host, in its byte order?"""
    return all(type(x) is np.ndarray and x.dtype.isnative for x in arrays)


def _are_floats(arrays: Sequence[Array]) -> bool:
    return all(x.dtype in _FLOATS for x in arrays)
