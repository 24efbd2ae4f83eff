"""How ops on one sample become ops on all samples of a batch.

Elementwise ops, reductions, views, products and what works along a dimension get one dimension more, in front; kernels
of matrices and windows have leading dimensions anyway; convolutions take samples of samples as samples. All others are
computed sample by sample, and stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ops import movement as m
from ..ops.elementwise import cast
from ..ops.op import Op
from ..ops.table import Elementwise, Reduction, operand_info
from ..standing import plain
from ..tensor import Tensor
from ..types import TensorType

__all__ = ["Operand", "written"]

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Operand:
    """A number, a tensor that is the same for all samples, or one of all samples; and the type of one sample."""

    value: Any
    batched: bool
    kind: TensorType | None


#: Ops that work along ``dim``: the operands of all samples have it one further.
_ALONG = frozenset(
    {
        *("argsort", "first_positions", "position_at", "cumextreme_index"),
        *("cumsum", "cumprod", "log_cumsum_exp", "mix_along"),
        *("gather", "scatter", "scatter_add", "scatter_combine"),
    }
)
#: Ops on the last dimensions, which take any dimensions in front.
_LAST = frozenset(
    {
        *("complex_of_parts", "parts_of_complex"),
        *("inverse", "solve", "solve_triangle", "inverse_by_factor", "exponential"),
        *("determinant", "log_abs_determinant", "sign_and_log_determinant", "determinant_sign"),
        *("cholesky_lower", "cholesky_tried", "eigen_symmetric", "eigenvalues_symmetric"),
        *("max_windows", "argmax_windows", "pick_windows", "put_windows"),
        *("sum_windows", "spread_windows"),
    }
)


def written(
    op: Op, operands: Sequence[Operand], attributes: Attributes, size: int, kind: TensorType
) -> Tensor:
    """The result for all samples, of which one is of type ``kind``; the batch is the first dimension.

    >>> import tracejit as tj
    >>> x, y = tj.tensor([[1.0, 2.0], [3.0, 4.0]]), tj.tensor([10.0, 20.0])
    >>> one = y.spec
    >>> written(tj.ops.elementwise.add, [Operand(x, True, one), Operand(y, False, one)], {}, 2, one)
    tensor([[11., 22.],
            [13., 24.]])
    """
    rule = _rule_of(op, operands)
    if rule is not None:
        found = rule(op, operands, attributes, size)
        if found.spec.dtype is kind.dtype and found.spec.shape == (size, *kind.shape):
            return found
    return _one_by_one(op, operands, attributes, size)


def _rule_of(op: Op, operands: Sequence[Operand]) -> Callable[..., Tensor] | None:
    if isinstance(op, Elementwise):
        return _elementwise
    if isinstance(op, Reduction):
        return _reduction
    if op.name in ("convolution", "convolution_input"):
        return _convolution if not operands[1].batched else None
    if op.name == "take":
        alone = all(x.batched for x in operands) or not _ranks(operands[:1])
        return None if alone else _take
    if op.name in _ALONG:  # of a single number they do without the dimension
        return _along if all(x.kind is None or x.kind.shape for x in operands) else None
    if op.name in _LAST:
        return _last
    return {"expand": _expand, "matmul": _matmul}.get(
        op.name, _movement if op.kind == "movement" else None
    )


def _one_by_one(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    """Sample by sample."""
    from ..ops.functions.joining import stack
    from ..ops.functions.slicing import select

    rows = [
        op(*(select(x.value, 0, i) if x.batched else x.value for x in operands), **attributes)
        for i in range(size)
    ]
    together: Tensor = stack(rows, 0)
    return together


def _of_rank(x: Operand, ndim: int) -> Any:
    """All samples with so many dimensions of each, the new ones in front."""
    if not x.batched or x.kind is None or len(x.kind.shape) >= ndim:
        return x.value
    size, *shape = x.value.spec.shape
    ones = (1,) * (ndim - len(shape))
    return m.reshape(x.value, shape=(size, *ones, *shape))


def _for_all(x: Operand, size: int) -> Any:
    """An operand for all samples; numbers stay numbers."""
    if x.batched or x.kind is None:
        return x.value
    return m.expand(m.unsqueeze(x.value, dims=(0,)), shape=(size, *x.kind.shape))


def _ranks(operands: Sequence[Operand]) -> int:
    return max(len(x.kind.shape) for x in operands if x.kind is not None)


def _elementwise(
    op: Elementwise, operands: Sequence[Operand], attributes: Attributes, size: int
) -> Tensor:
    """Types are promoted as those of a sample are, of which one may be a single number."""
    infos = tuple(operand_info(plain(x.value) if x.kind is None else x.kind) for x in operands)
    wanted = op.types(infos, attributes)[0]
    ndim = _ranks(operands)
    values = []
    for x, dtype in zip(operands, wanted, strict=True):
        value = _of_rank(x, ndim)
        if x.batched and value.spec.dtype is not dtype:
            value = cast(value, dtype=dtype)
        values.append(value)
    result: Tensor = op(*values, **attributes)
    return result


def _reduction(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    dims = tuple(d + 1 for d in attributes["dims"])
    result: Tensor = op(operands[0].value, **{**attributes, "dims": dims})
    return result


def _movement(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    from ..passes.loops.batch import attributes_of_stacks  # eager programs do without the compiler

    values = [_for_all(x, size) for x in operands]
    result: Tensor = op(*values, **attributes_of_stacks(op, attributes, size))
    return result


def _expand(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    value = _of_rank(operands[0], len(attributes["shape"]))
    result: Tensor = op(value, shape=(size, *attributes["shape"]))
    return result


def _matmul(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    ndim = _ranks(operands)
    result: Tensor = op(*(_of_rank(x, ndim) for x in operands), **attributes)
    return result


def _along(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    values = [_for_all(x, size) for x in operands]
    result: Tensor = op(*values, **{**attributes, "dim": attributes["dim"] + 1})
    return result


def _last(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    result: Tensor = op(*(_for_all(x, size) for x in operands), **attributes)
    return result


def _take(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    """Elements of all samples at the same places, or elements of one tensor at places of all samples."""
    x, index = operands
    dim = attributes["dim"]
    if x.batched:
        result: Tensor = op(x.value, index.value, **{**attributes, "dim": dim + 1})
        return result
    result = op(x.value, index.value, **attributes)
    return result if dim == 0 else m.permute(result, dims=_front(dim, len(result.spec.shape)))


def _front(dim: int, ndim: int) -> tuple[int, ...]:
    """An order of dimensions with one of them first."""
    return (dim, *(d for d in range(ndim) if d != dim))


def _convolution(op: Op, operands: Sequence[Operand], attributes: Attributes, size: int) -> Tensor:
    """Samples of samples are samples."""
    x, weight = operands
    _, each, *rest = x.value.spec.shape
    together = m.reshape(x.value, shape=(size * each, *rest))
    result = op(together, weight.value, **attributes)
    _, *rest = result.spec.shape
    apart: Tensor = m.reshape(result, shape=(size, each, *rest))
    return apart
