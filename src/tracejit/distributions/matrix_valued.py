"""Distributions of matrices: Wishart, and Cholesky factors of correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..number_limits import finfo
from ..ops.functions.linear_algebra import slogdet
from ..ops.functions.ranges import arange
from ..ops.functions.sampling import randn
from ..ops.functions.shaping import broadcast_shapes
from ..ops.functions.special_functions import mvlgamma
from ..ops.functions.systems import cholesky_solve
from ..ops.functions.triangles import diag_embed
from ..tensor import Tensor
from ..tensor_make import as_tensor
from .distribution import Distribution, register_kl
from .exp_family import ExponentialFamily
from .normal_vectors import OfCovariance
from .positive import Beta, Chi2

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(OfCovariance, ExponentialFamily):
    """Sums of ``df`` squares of normal vectors (p,): positive definite matrices (p, p) of mean ``df * covariance``.

    One of ``covariance_matrix``, ``precision_matrix`` and ``scale_tril`` is given. Raises ``ValueError`` unless it is
    one of them, and where ``df`` is not above p - 1.

    >>> import tracejit as tj
    >>> tj.distributions.Wishart(tj.tensor(3.0), tj.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    has_rsample = True

    df: Any

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        like = next(x for x in (covariance_matrix, precision_matrix, scale_tril) if x is not None)
        self._take_covariance(
            "df",
            df if isinstance(df, Tensor) else as_tensor(float(df), dtype=like.dtype),
            (),
            validate_args,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )

    def _matrices(self, x: Any) -> Any:
        return x.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Any:
        """df * covariance."""
        return self._matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """(df - p - 1) * covariance; NaN where that is not positive."""
        factor = self.df - self._event_shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return self._matrices(factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        """df (c_ij² + c_ii c_jj)."""
        covariance = self.covariance_matrix
        own = covariance.diagonal(dim1=-2, dim2=-1)
        spread = own.unsqueeze(-1) * own.unsqueeze(-2)
        return self._matrices(self.df) * (covariance.pow(2) + spread)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Squares of triangles of normal numbers over a diagonal of roots of chi-squared ones (Bartlett, 1933)."""
        p = self._event_shape[-1]
        steps = arange(p, dtype=self.df.dtype)
        roots = Chi2(self.df.unsqueeze(-1) - steps).rsample(sample_shape).sqrt()
        noise = randn(self._extended(sample_shape), dtype=self.df.dtype).tril(-1)
        root = self._root @ (noise + diag_embed(roots.clamp(min=finfo(roots.dtype).tiny)))
        return root @ root.mT

    def _log_size(self) -> Any:
        """log |2 covariance| / 2."""
        return self._event_shape[-1] * math.log(2.0) / 2 + self._log_root()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        p = self._event_shape[-1]
        batch = broadcast_shapes(tuple(value.shape[:-2]), tuple(self._batch_shape))
        value, root = value.expand((*batch, p, p)), self._root.expand((*batch, p, p))
        trace = cholesky_solve(value, root).diagonal(dim1=-2, dim2=-1).sum(-1)
        inside = (self.df - p - 1) / 2 * slogdet(value)[1] - 0.5 * trace
        return inside - self.df * self._log_size() - mvlgamma(self.df / 2, p)

    def _mean_log_det(self) -> Any:
        """The mean of log |x| - log |2 covariance|: the derivative of log Γ_p."""
        halves = arange(self._event_shape[-1], dtype=self.df.dtype) / 2
        return ((self.df / 2).unsqueeze(-1) - halves).digamma().sum(-1)

    def entropy(self) -> Any:
        """The mean of -log p."""
        p = self._event_shape[-1]
        return (
            (p + 1) * self._log_size()
            + mvlgamma(self.df / 2, p)
            - (self.df - p - 1) / 2 * self._mean_log_det()
            + self.df * p / 2
        )


@register_kl(Wishart, Wishart)
def _between_wisharts(p: Wishart, q: Wishart) -> Any:
    n = p.event_shape[-1]
    ratio = cholesky_solve(p.covariance_matrix, q._root).diagonal(dim1=-2, dim2=-1).sum(-1)
    sizes = q._log_root() - p._log_root()
    shapes = mvlgamma(q.df / 2, n) - mvlgamma(p.df / 2, n)
    moved = (p.df - q.df) / 2 * p._mean_log_det()
    return q.df * sizes + shapes + moved + p.df / 2 * (ratio - n)


class LKJCholesky(Distribution):
    """Lower triangular roots (n, n) of correlations, the density of whose determinant has power concentration - 1.

    Raises ``ValueError`` for n below two and unless concentrations are positive.

    >>> import tracejit as tj
    >>> root = tj.distributions.LKJCholesky(3, 0.5).sample()
    >>> bool(((root @ root.mT).diagonal() - 1).abs().max() < 1e-5)
    True
    """

    concentration: Any

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        self._take(validate_args, concentration=concentration)
        super().__init__(self._batch_shape, (dim, dim), self._validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws row by row: directions, with lengths that follow beta distributions (Lewandowski et al., 2009)."""
        with no_grad():
            steps = (arange(self.dim, dtype=self.concentration.dtype) - 1).clamp(min=0)
            start = self.concentration + 0.5 * (self.dim - 2)
            lengths = Beta(steps + 0.5, start.unsqueeze(-1) - 0.5 * steps).sample(sample_shape)
            noise = randn(self._extended(sample_shape), dtype=self.concentration.dtype).tril(-1)
            size = noise.pow(2).sum(-1, keepdim=True).sqrt()
            rows = lengths.unsqueeze(-1).sqrt() * noise / size.masked_fill(size == 0, 1.0)
            left = (1 - rows.pow(2).sum(-1)).clamp(min=finfo(rows.dtype).tiny)
            return rows + diag_embed(left.sqrt())

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of factors."""
        if self._validate_args:
            self._validate_sample(value)
        concentration, rest = self.concentration, self.dim - 1
        rows = arange(2, self.dim + 1, dtype=concentration.dtype)
        powers = 2 * (concentration - 1).unsqueeze(-1) + self.dim - rows
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        alpha = concentration + 0.5 * rest
        size = 0.5 * rest * math.log(math.pi) + mvlgamma(alpha - 0.5, rest) - alpha.lgamma() * rest
        return (powers * diagonal.log()).sum(-1) - size
