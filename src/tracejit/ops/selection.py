"""``x[t]`` with the position in a 0-d tensor: a view as it runs on tensors, ``take`` in graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from .. import dtypes
from ..types import Scalar, TensorType
from .indexing import put, take
from .kinds import Indexing
from .positions import check_index, wrapped
from .table import Array


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Selecting(Indexing):
    """``take`` of one position as a view, as it runs on tensors; graphs hold ``take``."""

    is_view: ClassVar[bool] = True

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        x, index = operands  # type: Array, Array
        check_index("index", TensorType(index.shape, dtypes.from_numpy(index.dtype)))
        return self.body(x, index, **attributes)


def _selected(x: Array, index: Array, *, dim: int) -> Array:
    before = (slice(None),) * dim
    return x[(*before, int(wrapped(index, x.shape[dim], dim)), ...)]


select = Selecting(
    name="select",
    operands=take.operands,
    variadic=False,
    attributes=take.attributes,
    body=_selected,
    grads=take.grads,
    infer_type=take.infer_type,
    doc="The slice of x at the position in a 0-d tensor along ``dim``; a view.",
)


@final
class Selected:
    """The step from a tensor to a view by ``select``, for the position in a 0-d tensor or IR value.

    >>> import tracejit as tj
    >>> step = Selected(tj.tensor(1))
    >>> step(tj.tensor([1.0, 2.0]), dim=0), step.write(tj.zeros(2), tj.tensor(3.0), dim=0)
    (tensor(2.), tensor([0., 3.]))
    """

    name = "select"

    def __init__(self, index: Any) -> None:
        self.index = index

    def __call__(self, x: Any, *, dim: int, shared: bool = True) -> Any:
        """What the view shows of ``x``."""
        return take(x, self.index, dim=dim, shared=shared)

    def write(self, base: Any, value: Any, *, dim: int, shared: bool = True) -> Any:
        """``base`` with ``value`` where the view shows it."""
        del shared  # says how the part is read
        return put(base, self.index, value, dim=dim, accumulate=False)
