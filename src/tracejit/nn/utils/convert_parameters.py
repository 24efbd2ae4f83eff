"""Parameters as one flat vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...ops.table import FUNCTIONS
from ...tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Any:
    """All values in one 1-d tensor, in order; differentiable.

    >>> import tracejit as tj
    >>> tj.nn.utils.parameters_to_vector([tj.zeros(2), tj.ones(1, 1)])
    tensor([0., 0., 1.])
    """
    return FUNCTIONS["cat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Tensor]) -> None:
    """Copy consecutive pieces of a 1-d tensor into the parameters.

    Raises ``TypeError`` for anything but a tensor and ``RuntimeError`` when the sizes do not add up.

    >>> import tracejit as tj
    >>> w, b = tj.zeros(2), tj.zeros(1)
    >>> tj.nn.utils.vector_to_parameters(tj.tensor([1.0, 2.0, 3.0]), [w, b])
    >>> w, b
    (tensor([1., 2.]), tensor([3.]))
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor, but got: {type(vec).__name__}")
    targets = list(parameters)
    total = sum(p.spec.numel for p in targets)
    if vec.ndim != 1 or vec.spec.numel != total:
        raise RuntimeError(
            f"a vector of {total} elements is needed for these parameters, got {vec.spec}"
        )
    values: Any = vec
    start = 0
    for parameter in targets:
        count = parameter.spec.numel
        with no_grad():
            parameter.copy_(values[start : start + count].reshape(parameter.shape))
        start += count
