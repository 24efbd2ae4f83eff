"""Rows of a table, as a function, and rows with a one at a place."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import ArgumentError, DtypeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import source as s
from ..table import function
from .common import Tensor, as_type, is_tensor, shape_of


@function(method=False)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` at the positions ``input``; the row ``padding_idx`` receives no gradient.

    With ``max_norm``, rows that are used and whose ``norm_type`` norm is greater are shortened in place first.

    With ``scale_grad_by_freq`` the gradient of a row is divided by how often it occurs. ``sparse`` changes nothing:
    gradients are dense. Raises ``IndexError`` for positions out of range.

    >>> import tracejit as tj
    >>> tj.embedding(tj.tensor([1, 0]), tj.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if input.dtype.category != "int":
        raise DtypeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {input.dtype.tensor_name} instead",
            "Positions are whole numbers: .long() makes some.",
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if max_norm is not None:
        shorten_rows(weight, input, max_norm, norm_type)
    rows = ix.take(weight, input, dim=0, negative=False)
    if scale_grad_by_freq:
        rows = by_frequency(rows, input, shape_of(weight)[0])
    if padding_idx is None:
        return rows
    size = shape_of(weight)[0]
    if not -size <= padding_idx < size:
        raise AssertionError("Padding_idx must be within num_embeddings")
    padding = m.unsqueeze(c.eq(input, padding_idx % size), dims=(input.ndim,))
    return e.where(padding, e.detach_copy(rows), rows)


def by_frequency(rows: Tensor, index: Tensor, size: int) -> Tensor:
    """``rows`` whose gradients are divided by how often their index occurs."""
    flat = m.reshape(index, shape=(index.spec.numel,))
    ones = s.full(shape=shape_of(flat), value=1, dtype=rows.dtype)
    zeros = s.full(shape=(size,), value=0, dtype=rows.dtype)
    counts = ix.put(zeros, flat, ones, dim=0, accumulate=True)
    times = m.unsqueeze(ix.take(counts, index, dim=0), dims=(index.ndim,))
    share = e.div(rows, times)
    return e.add(e.detach_copy(rows), e.sub(share, e.detach_copy(share)))


def shorten_rows(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` at ``index``, in place, to a norm of at most ``max_norm``."""
    from .norms import vector_norm

    own = weight.detach()
    flat = m.reshape(index, shape=(index.spec.numel,))
    rows = ix.take(own, flat, dim=0, negative=False)
    size = vector_norm(rows, norm_type, 1, True)
    factor = e.where(c.gt(size, max_norm), e.div(max_norm, e.add(size, 1e-7)), 1.0)
    own._assign(ix.put(own, flat, e.mul(rows, factor), dim=0, accumulate=False))


@function(method=False)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A last dimension with one at the class and zero elsewhere.

    Raises ``RuntimeError`` for negative or too large classes.

    >>> import tracejit as tj
    >>> tj.one_hot(tj.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    from .triangles import positions

    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor.")
    num_classes = _class_count(num_classes)
    if tensor.spec.numel:
        if tensor.min() < 0:  # a comparison, not the number: compiled, one path serves all classes
            raise RuntimeError("Class values must be non-negative.")
        if num_classes < 0:
            num_classes = tensor.max().item() + 1  # compiled, a size that the run tells
        elif tensor.max() >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    elif num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    return as_type(c.eq(tensor.unsqueeze(-1), positions(num_classes, 0)), dtypes.int64)


def _class_count(given: Any) -> Any:
    """How many classes there are, which a tensor may say that the program made."""
    if is_tensor(given) and not shape_of(given) and given.dtype.category == "int":
        return given.item()
    if is_tensor(given) or isinstance(given, (bool, float)):
        kind = "Tensor" if is_tensor(given) else type(given).__name__
        raise ArgumentError(
            f"one_hot(): argument 'num_classes' (position 2) must be int, not {kind}"
        )
    return given
