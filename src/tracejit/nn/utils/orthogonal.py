"""Weights that stay orthogonal while they are learned (Lezcano-Casado, 2019)."""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd.grad_mode import no_grad
from ...errors import ArgumentValueError
from ...linalg import householder_product, matrix_exp, solve
from ...number_limits import finfo
from ...ops.functions.joining import cat
from ...ops.functions.reflections import geqrf
from ...ops.functions.sampling import randn
from ...ops.functions.triangles import eye
from ...tensor import Tensor
from ..module import Module
from .parametrize import register_parametrization

M = TypeVar("M", bound=Module)

_MAPS = ("matrix_exp", "cayley", "householder")


def _columns(matrix: Any) -> Any:
    """An orthogonal basis of what the columns span, by QR with a positive diagonal."""
    reflections, scales = geqrf(matrix)
    signs = reflections.diagonal(dim1=-2, dim2=-1).sgn()
    return householder_product(reflections, scales) * signs.unsqueeze(-2)


def _is_orthogonal(matrix: Any) -> bool:
    n, k = matrix.shape[-2:]
    apart = matrix.mH @ matrix - eye(k, dtype=matrix.dtype, device=matrix.device)
    return bool((apart.abs() <= 10.0 * n * finfo(matrix.dtype.to_real()).eps).all())


class _Orthogonal(Module):
    """Any matrix to an orthogonal one (with more rows than columns, or their transpose)."""

    base: Any

    def __init__(self, weight: Any, kind: str, trivial: bool) -> None:
        super().__init__()
        if weight.is_complex() and kind == "householder":
            raise ArgumentValueError(
                "The householder parametrization does not support complex tensors."
            )
        self.shape = weight.shape
        self.kind = kind
        self.trivial = trivial
        if trivial:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Any:
        """The orthogonal matrix that ``x`` stands for."""
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        found = self._reflected(x) if self.kind == "householder" else self._turned(x)
        found = self.base @ found if self.trivial else found
        return found.mT if wide else found

    def _reflected(self, x: Any) -> Any:
        """The product of the reflections below the diagonal, times the signs on it."""
        below = x.tril(diagonal=-1)
        scales = 2.0 / (1.0 + (below * below).sum(-2))
        signs = x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        return householder_product(below, scales) * signs

    def _turned(self, x: Any) -> Any:
        """The first columns of the rotation that a skew matrix generates."""
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            x = cat([x, x.new_zeros((*x.shape[:-1], n - k))], dim=-1)
        skew = x - x.mH
        if self.kind == "matrix_exp":
            turned = matrix_exp(skew)
        else:
            one = eye(n, dtype=x.dtype, device=x.device)
            turned = solve(one - 0.5 * skew, one + 0.5 * skew)
        return turned[..., :k]

    def right_inverse(self, weight: Any) -> Any:
        """What stands for ``weight``, made orthogonal first."""
        if weight.shape != self.shape:
            raise ArgumentValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {weight.shape}."
            )
        with no_grad():
            wide = weight.shape[-2] < weight.shape[-1]
            matrix = weight.mT if wide else weight
            if self.trivial:
                return self._based(weight, matrix)
            if self.kind != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            found, scales = geqrf(matrix)
            diagonal = found.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(diagonal.sign() * (1.0 - 2.0 * (scales == 0).to(found.dtype)))
            return found.mT if wide else found

    def _based(self, weight: Any, matrix: Any) -> Any:
        """Keep the matrix as the place to start from; what is learned begins at minus one there."""
        n, k = matrix.shape[-2:]
        if n != k:
            more = randn(*matrix.shape[:-1], n - k, dtype=matrix.dtype, device=matrix.device)
            self.base = _columns(cat([matrix, more], dim=-1))
        else:
            self.base = matrix.clone() if _is_orthogonal(matrix) else _columns(matrix)
        start = weight.new_zeros(weight.shape)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> M:
    """``module.name`` as an orthogonal matrix (rows or columns of length one, at right angles), or a batch of them.

    ``orthogonal_map`` is "matrix_exp", "cayley" or "householder"; by default the first for square and complex
    matrices and the last for others. Raises ``ValueError`` for another one, for a name that is no tensor, and for
    fewer than two dimensions.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.parametrizations.orthogonal(tj.nn.Linear(4, 2))
    >>> tj.allclose(layer.weight @ layer.weight.T, tj.eye(2), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ArgumentValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    square = weight.shape[-2] == weight.shape[-1] or weight.is_complex()
    kind = orthogonal_map or ("matrix_exp" if square else "householder")
    if kind not in _MAPS:
        raise ArgumentValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, kind, use_trivialization)
    register_parametrization(module, name, made, unsafe=True)
    return module
