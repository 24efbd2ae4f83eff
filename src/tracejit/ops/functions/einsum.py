"""Einstein summation by diagonals, permutations and batched matrix products."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from .. import shapes
from ..contraction import matmul
from ..table import function
from .common import Tensor, alone, shape_of

#: Labels for the dimensions of an ellipsis: no letters, and before all letters in order.
_SPARE = "".join(map(chr, range(1, 32)))
#: The letter of every number in lists of subscripts.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
#: Up to so many operands all orders are compared; with more the search itself would cost too much.
_FEW = 5
#: Intermediate products may be of any size: the order with the fewest multiplications keeps them small.
_NO_LIMIT = 2**62


@function(method=False, steady=True)
def einsum(equation: Any, *operands: Any) -> Tensor:
    """The sum over all labels that are not in the output of the product of the operands.

    Labels are letters; ``...`` stands for broadcast dimensions. Lists of numbers may take the place of letters:
    ``einsum(x, [0, 1], y, [1, 2], [0, 2])``. Raises ``RuntimeError`` for equations that do not fit the operands.

    >>> import tracejit as tj
    >>> tj.einsum("ij,jk->ik", tj.eye(2), tj.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    inputs, output = _parse(equation, operands)
    pairs = zip(operands, inputs, strict=True)
    terms = [_diagonals(number, *pair) for number, pair in enumerate(pairs)]
    for together in _order(terms, output):
        chosen = [terms.pop(position) for position in sorted(together, reverse=True)]
        while len(chosen) > 1:
            y, x = chosen.pop(), chosen.pop()
            later = set(output).union(*(labels for _, labels in (*terms, *chosen)))
            chosen.append(_pair(*y, *x, later))
        terms += chosen
    found = _finish(*terms[0], output)
    return found if len(operands) == 1 else alone(found)


def _from_lists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation of operands that alternate with lists of numbers, the output last if it is given."""
    lists = [_spelled(numbers) for numbers in arguments[1::2]]
    if len(arguments) % 2:
        return f"{','.join(lists)}->{_spelled(arguments[-1])}", arguments[:-1:2]
    return ",".join(lists), arguments[::2]


def _spelled(numbers: Sequence[Any]) -> str:
    if any(n is not Ellipsis and not 0 <= n < len(_LETTERS) for n in numbers):
        raise RuntimeError(f"einsum(): subscripts in lists must be within [0, {len(_LETTERS)})")
    return "".join("..." if n is Ellipsis else _LETTERS[n] for n in numbers)


def _expanded(term: str, ndim: int) -> str:
    """The ellipsis as labels of its own, counted from the last dimension."""
    named = term.replace("...", "")
    if not all(ch in _LETTERS for ch in named):
        raise RuntimeError(
            f"einsum(): invalid subscript given: {term!r}, subscripts must be in [a-zA-Z]"
        )
    hidden = ndim - len(named)
    if hidden < 0 or ("..." not in term and hidden):
        raise RuntimeError(
            "einsum(): the number of subscripts in the equation does not match the number of "
            f"dimensions ({ndim}) for operand with subscripts {term!r}"
        )
    return term.replace("...", _SPARE[len(_SPARE) - hidden :])


def _parse(equation: str, operands: tuple[Tensor, ...]) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            f"einsum(): more operands were provided than specified in the equation ({len(operands)} "
            f"operands, {len(terms)} terms)"
        )
    inputs = [_expanded(t, x.ndim) for t, x in zip(terms, operands, strict=True)]
    hidden = max((sum(ch in _SPARE for ch in t) for t in inputs), default=0)
    ellipsis = _SPARE[len(_SPARE) - hidden :]
    everything = "".join(inputs)
    if not arrow:
        once = sorted(ch for ch in set(everything) if ch in _LETTERS and everything.count(ch) == 1)
        return inputs, ellipsis + "".join(once)
    output = right.replace("...", ellipsis)
    for label in output:
        if label not in everything or output.count(label) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any input "
                "operand, or appears more than once in the output"
            )
    return inputs, output


def _diagonals(number: int, x: Tensor, labels: str) -> tuple[Tensor, str]:
    """Repeated labels of one operand become a diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            first, second = x.spec.shape[i], x.spec.shape[j]
            if first != second:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {number} but the sizes don't match, "
                    f"{second} != {first}"
                )
            x = m.diagonal(x, offset=0, dim1=i, dim2=j)
            labels = "".join(ch for d, ch in enumerate(labels) if d not in (i, j)) + label
    return x, labels


def _sum_out(x: Tensor, labels: str, gone: set[str]) -> tuple[Tensor, str]:
    dims = tuple(d for d, ch in enumerate(labels) if ch in gone)
    if not dims:
        return x, labels
    return r.sum(x, dims=dims, keepdim=False), "".join(ch for ch in labels if ch not in gone)


def _arranged(x: Tensor, labels: str, wanted: list[str]) -> Tensor:
    """Dimensions in the order of ``wanted``; missing labels as extents of one."""
    present = [ch for ch in wanted if ch in labels]
    x = m.permute(x, dims=tuple(labels.index(ch) for ch in present))
    missing = tuple(d for d, ch in enumerate(wanted) if ch not in labels)
    return m.unsqueeze(x, dims=missing) if missing else x


def _pair(x: Tensor, a: str, y: Tensor, b: str, later: set[str]) -> tuple[Tensor, str]:
    """The product of two operands, summed over labels nobody needs later."""
    x, a = _sum_out(x, a, set(a) - set(b) - later)
    y, b = _sum_out(y, b, set(b) - set(a) - later)
    shared = [ch for ch in a if ch in b]
    batch = [ch for ch in shared if ch in later]
    inner = [ch for ch in shared if ch not in later]
    rows = [ch for ch in a if ch not in shared]
    columns = [ch for ch in b if ch not in shared]
    extent = _extents((x, a), (y, b))
    if not inner:
        labels = batch + rows + columns
        return e.mul(_arranged(x, a, labels), _arranged(y, b, labels)), "".join(labels)
    left = _matrix(x, a, (batch, rows, inner), extent)
    right = _matrix(y, b, (batch, inner, columns), extent)
    labels = batch + rows + columns
    return m.reshape(matmul(left, right), shape=tuple(extent[ch] for ch in labels)), "".join(labels)


def _order(terms: list[tuple[Tensor, str]], output: str) -> tuple[tuple[int, ...], ...]:
    """Which terms to multiply next, by position; their product goes last.

    Three operands and more are taken in the order that needs the fewest multiplications. Extents that only a run tells
    cannot choose: then the order is that of the equation.
    """
    as_written = (tuple(range(len(terms))),)
    if len(terms) < 3:
        return as_written
    extent = _extents(*terms)
    if not all(type(n) is int for n in extent.values()):
        return as_written
    return _cheapest_order(tuple(own for _, own in terms), output, tuple(extent.items()))


@functools.lru_cache(maxsize=1024)
def _cheapest_order(
    inputs: tuple[str, ...], output: str, extents: tuple[tuple[str, int], ...]
) -> tuple[tuple[int, ...], ...]:
    # NumPy reads letters only, and extents of one where an operand is broadcast, so all get the full extent.
    letter = {label: _LETTERS[i] for i, (label, _) in enumerate(extents)}
    extent = dict(extents)
    spelled = ["".join(letter[ch] for ch in term) for term in (*inputs, output)]
    shaped = [np.broadcast_to(np.int8(0), [extent[ch] for ch in term]) for term in inputs]
    search = "optimal" if len(inputs) <= _FEW else "greedy"
    path = np.einsum_path(
        f"{','.join(spelled[:-1])}->{spelled[-1]}", *shaped, optimize=(search, _NO_LIMIT)
    )[0]
    return tuple(path[1:])


def _extents(*terms: tuple[Tensor, str]) -> dict[str, int]:
    extent: dict[str, int] = {}
    for label, n in (pair for x, own in terms for pair in zip(own, shape_of(x), strict=True)):
        known = extent.get(label, 1)
        if 1 not in (known, n) and known != n:
            raise RuntimeError(
                f"einsum(): operands do not broadcast with remapped shapes: label {label} has sizes "
                f"{known} and {n}"
            )
        extent[label] = n if known == 1 else known
    return extent


def _matrix(
    x: Tensor, labels: str, groups: tuple[list[str], ...], extent: dict[str, int]
) -> Tensor:
    """``x`` as a batch of matrices: one dimension per group of labels."""
    order = [ch for group in groups for ch in group]
    x = m.permute(x, dims=tuple(labels.index(ch) for ch in order))
    x = m.expand(x, shape=tuple(extent[ch] for ch in order))
    return m.reshape(x, shape=tuple(shapes.numel([extent[ch] for ch in g]) for g in groups))


def _finish(x: Tensor, labels: str, output: str) -> Tensor:
    x, labels = _sum_out(x, labels, set(labels) - set(output))
    return m.permute(x, dims=tuple(labels.index(ch) for ch in output))
