"""Normal vectors, and what is given by the covariance of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.functions.linear_algebra import cholesky, inverse
from ..ops.functions.sampling import randn
from ..ops.functions.shaping import broadcast_shapes
from ..ops.functions.systems import solve_triangular
from ..ops.functions.triangles import eye
from .distribution import Distribution, divergence
from .lazy import lazy_property

__all__ = ["MultivariateNormal"]


def _given_matrix(**ways: Any) -> tuple[str, Any]:
    """The name and value of the one that is given; ``ValueError`` for two of them, or none."""
    given = [(name, x) for name, x in ways.items() if x is not None]
    if len(given) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    ((name, matrix),) = given
    if matrix.ndim < 2:
        raise ValueError(
            f"{name} must be at least two-dimensional, with optional leading batch dimensions"
        )
    return name, matrix


class OfCovariance(Distribution):
    """Given by a covariance, its inverse or its lower triangular root: it tells the others when they are asked for."""

    _root: Any

    def _take_covariance(
        self, other: str, value: Any, event: Sequence[int], validate_args: bool | None, **ways: Any
    ) -> None:
        """The matrix that is given and its root, and another parameter, whose last dimensions are an ``event``."""
        name, matrix = _given_matrix(**ways)
        cut, own = value.ndim - len(event), tuple(matrix.shape[-2:])
        batch = broadcast_shapes(tuple(value.shape[:cut]), tuple(matrix.shape[:-2]))
        self.__dict__[other] = value.expand((*batch, *event))
        self.__dict__[name] = matrix.expand((*batch, *own))
        super().__init__(batch, event or own, validate_args)
        root = _TO_ROOT.get(name)
        self._root = self.__dict__[name] if root is None else root(matrix).expand((*batch, *own))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower triangular root of the covariance."""
        return self._root

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._root @ self._root.mT

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return inverse(self.covariance_matrix)

    def _log_root(self) -> Any:
        """Half the logarithm of the determinant of the covariance."""
        return self._root.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _precision_to_scale_tril(P: Any) -> Any:  # noqa: N803  (PyTorch's spelling)
    """The lower triangular factor of the inverse of a positive definite matrix.

    >>> import tracejit as tj
    >>> _precision_to_scale_tril(tj.tensor([[4.0, 0.0], [0.0, 0.25]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 2.0000]])
    """
    root = cholesky(P.flip(-2, -1)).flip(-2, -1).mT
    return solve_triangular(root, eye(P.shape[-1], dtype=P.dtype), upper=False)


_TO_ROOT = {"covariance_matrix": cholesky, "precision_matrix": _precision_to_scale_tril}


class MultivariateNormal(OfCovariance):
    """Normal vectors with mean ``loc`` and a covariance, its inverse, or its lower triangular factor.

    Raises ``ValueError`` unless exactly one of the three is given.

    >>> import tracejit as tj
    >>> tj.distributions.MultivariateNormal(tj.zeros(2), tj.eye(2)).log_prob(tj.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True

    loc: Any

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        self._take_covariance(
            "loc",
            loc,
            loc.shape[-1:],
            validate_args,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        return self._root.pow(2).sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc + scale_tril @ noise``."""
        noise = randn(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._root @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        away = (inverse(self._root.tril()) @ (value - self.loc).unsqueeze(-1)).squeeze(-1)
        size = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (size + away.pow(2).sum(-1)) - self._log_root()

    def entropy(self) -> Any:
        """n (1 + log 2π) / 2 + log |scale_tril|."""
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_root()


@divergence(MultivariateNormal)
def _between_vectors(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    back = inverse(q._root.tril())
    spread = (back @ p._root).pow(2).sum((-2, -1))
    away = (back @ (q.loc - p.loc).unsqueeze(-1)).squeeze(-1).pow(2).sum(-1)
    return q._log_root() - p._log_root() + 0.5 * (spread + away - p._event_shape[0])
