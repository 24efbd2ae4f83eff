"""Distribution: what all of them share, and divergences between two of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..ops.functions.shaping import broadcast_shapes
from ..ops.mixin import Size
from ..tensor import Tensor
from ..tensor_make import as_tensor

__all__ = ["Distribution", "kl_divergence"]

_DIVERGENCES: dict[type, Callable[[Any, Any], Any]] = {}


class Distribution:
    """A batch of distributions with parameters of shape ``batch_shape``."""

    has_rsample = False

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        self._validates = validate_args is not False

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one draw from one distribution."""
        return self._event_shape

    def _extended(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws without gradients, of shape ``sample_shape`` before that of the batch."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws as functions of the parameters; ``NotImplementedError`` where there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no reparametrised sample")

    def log_prob(self, value: Any) -> Any:
        """The logarithm of density or probability at ``value``."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The mean of -log p."""
        raise NotImplementedError

    def _check(self, name: str, value: Any, holds: Any) -> None:
        """``ValueError`` unless ``holds`` everywhere."""
        if self._validates and not bool(holds.all()):
            raise ValueError(
                f"Expected parameter {name} of distribution {type(self).__name__} to satisfy its constraint, "
                f"but found invalid values:\n{value}"
            )


def broadcast(*values: Any) -> list[Any]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors.

    >>> import tracejit as tj
    >>> broadcast(tj.zeros(2), 1.0)[1]
    tensor([1., 1.])
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    like: dict[str, Any] = {"dtype": tensors[0].dtype} if tensors else {}
    made = [v if isinstance(v, Tensor) else as_tensor(float(v), **like) for v in values]
    shape = broadcast_shapes(*(tuple(x.shape) for x in made))
    return [x if tuple(x.shape) == tuple(shape) else x.expand(shape) for x in made]


def divergence(kind: type) -> Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]:
    """Declare the Kullback-Leibler divergence between two distributions of one kind.

    >>> callable(divergence(int))
    True
    """

    def register(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _DIVERGENCES[kind] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q), the mean of log p - log q under ``p``.

    Raises ``NotImplementedError`` for distributions of two kinds.

    >>> import tracejit as tj
    >>> p, q = tj.distributions.Normal(0.0, 1.0), tj.distributions.Normal(1.0, 1.0)
    >>> tj.distributions.kl_divergence(p, q)
    tensor(0.5000)
    """
    if type(p) is not type(q) or type(p) not in _DIVERGENCES:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return _DIVERGENCES[type(p)](p, q)
