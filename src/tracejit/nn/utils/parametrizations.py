"""Ready-made parametrizations: weight normalisation, spectral normalisation and orthogonal weights."""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd.grad_mode import no_grad
from ...ops.functions.sampling import randn
from .. import functional as F
from ..module import Module
from .orthogonal import orthogonal
from .parametrize import register_parametrization
from .spectral_norm import as_matrix, default_dim, iterate
from .weight_norm import length, normed

M = TypeVar("M", bound=Module)

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """Length and direction to weight."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """``g * v / |v|``."""
        return normed(weight_g, weight_v, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """The length of a weight, and the weight as direction."""
        return length(weight, self.dim), weight.clone()


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """``module.name`` as length (``original0``) times direction (``original1``): Salimans and Kingma, 2016.

    ``dim`` keeps a length for each index of that dimension, None one for all. Raises ``ValueError`` for a name that is
    no parameter.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.parametrizations.weight_norm(tj.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    tracejit.Size([3, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    """A weight to the weight divided by its largest singular value."""

    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] "
                f"but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            for part, size in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                start = F.normalize(randn(size, dtype=weight.dtype), dim=0, eps=eps)
                self.register_buffer(part, start)
            with no_grad():
                iterate(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Any) -> Any:
        """``W / (uᵀ W v)``; a vector is divided by its norm."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterate(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        u, v = self._u.clone(), self._v.clone()  # backward reads them after the next round
        return weight / (u @ (matrix @ v))

    def right_inverse(self, value: Any) -> Any:
        """The weight itself: how it was scaled is not known."""
        return value


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """``module.name`` divided by its largest singular value, found by power iteration: Miyato et al., 2018.

    While training every access makes ``n_power_iterations`` rounds. ``dim`` is the dimension of outputs (default 0, for
    transposed convolutions 1). Raises ``ValueError`` for a name that is no parameter, or less than one round.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.parametrizations.spectral_norm(tj.nn.Linear(4, 3))
    >>> bool((layer.weight**2).sum() <= 3.1)
    True
    """
    weight = module._parameters.get(name, module._buffers.get(name))
    if weight is None:
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    rows = default_dim(module) if dim is None else dim
    register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, rows, eps), unsafe=True
    )
    return module
