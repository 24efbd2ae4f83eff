"""Transforms of whole vectors and matrices, and transforms made of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..number_limits import finfo
from ..ops.functions.activations import logsigmoid, softplus
from ..ops.functions.joining import cat, stack
from ..ops.functions.linear_algebra import cholesky
from ..ops.functions.padding import pad
from ..ops.functions.triangles import diag_embed
from .transforms import Transform
from .utils import _clipped_sigmoid

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "StackTransform",
    "StickBreakingTransform",
]


class IndependentTransform(Transform):
    """``base_transform``, of which ``reinterpreted_batch_ndims`` more dimensions are one value.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> exp = D.IndependentTransform(D.ExpTransform(), 1)
    >>> exp.log_abs_det_jacobian(tj.ones(3), exp(tj.ones(3)))
    tensor(3.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.event_dim = base_transform.event_dim + reinterpreted_batch_ndims
        self.bijective = base_transform.bijective

    def __repr__(self) -> str:
        count = self.reinterpreted_batch_ndims
        return f"{type(self).__name__}({self.base_transform!r}, {count})"

    @property
    def sign(self) -> Any:
        """That of the base."""
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        if x.ndim < self.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.ndim < self.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """That of the base, summed."""
        found = self.base_transform.log_abs_det_jacobian(x, y)
        count = self.reinterpreted_batch_ndims
        return found.sum(tuple(range(-count, 0))) if count else found

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """As the base."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """As the base."""
        return self.base_transform.inverse_shape(shape)


def _with_end(shape: Sequence[int], end: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    cut = len(shape) - len(end)
    if cut < 0 or tuple(shape[cut:]) != end:
        raise ValueError(f"Shape mismatch: expected {tuple(shape)} to end in {end}")
    return _ending(shape, cut, *new)


def _ending(shape: Sequence[int], cut: int, *new: int) -> tuple[int, ...]:
    """A shape as that of tensors is one of tensors still."""
    made = (*shape[:cut], *new)
    return type(shape)(made) if isinstance(shape, tuple) else made


class ReshapeTransform(Transform):
    """The last dimensions, ``in_shape``, as ``out_shape``. Raises ``ValueError`` for other numbers of elements.

    >>> import tracejit as tj
    >>> tj.distributions.ReshapeTransform((4,), (2, 2))(tj.ones(3, 4)).shape
    tracejit.Size([3, 2, 2])
    """

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.event_dim = len(self.in_shape)

    def _call(self, x: Any) -> Any:
        return x.reshape((*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape((*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """0."""
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The last dimensions replaced. Raises ``ValueError`` where they are not ``in_shape``."""
        return _with_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The other way. Raises ``ValueError`` where the last dimensions are not ``out_shape``."""
        return _with_end(shape, self.out_shape, self.in_shape)


class StickBreakingTransform(Transform):
    """Shares of a whole from one number fewer: each takes its part of what is left.

    >>> import tracejit as tj
    >>> tj.distributions.StickBreakingTransform()(tj.zeros(1))
    tensor([0.5000, 0.5000])
    """

    _compared = ()

    event_dim = 1

    def _call(self, x: Any) -> Any:
        z = _clipped_sigmoid(x - self._offset(x).log())
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One number more."""
        return _ending(shape, -1, shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One number less."""
        return _ending(shape, -1, shape[-1] - 1)

    def _offset(self, x: Any) -> Any:
        """How many parts are still to come, the last one not counted."""
        count = x.shape[-1]
        return count + 1 - x.new_ones(count).cumsum(-1)

    def _inverse(self, y: Any) -> Any:
        most = y[..., :-1]
        left = (1 - most.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return most.log() - left.log() + self._offset(most).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of the logarithms of the parts."""
        x = x - self._offset(x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)


class LowerCholeskyTransform(Transform):
    """Any square matrix as a lower triangular one, with the exponentials of its diagonal.

    >>> import tracejit as tj
    >>> tj.distributions.LowerCholeskyTransform()(tj.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    _compared = ()

    bijective = False
    event_dim = 2

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """Any square matrix as a positive definite one: the square of what :class:`LowerCholeskyTransform` makes of it.

    >>> import tracejit as tj
    >>> tj.distributions.PositiveDefiniteTransform()(tj.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    bijective = False
    event_dim = 2

    def _call(self, x: Any) -> Any:
        root = LowerCholeskyTransform()(x)
        return root @ root.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform()._inverse(cholesky(y))


def _below(x: Any, offset: int) -> Any:
    """The elements of matrices up to a diagonal below the main one, row by row."""
    rows = [x[..., i, : i + 1 + offset] for i in range(-offset, x.shape[-1])]
    return cat(rows, -1) if rows else x[..., 0, :0]


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers as roots of correlations: lower triangles whose rows have length one.

    Raises ``ValueError`` for other numbers of elements.

    >>> import tracejit as tj
    >>> tj.distributions.CorrCholeskyTransform()(tj.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    event_dim = 1

    def _call(self, x: Any) -> Any:
        count = x.shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        eps = finfo(x.dtype).eps
        r = x.tanh().clamp(min=-1 + eps, max=1 - eps)
        rows, start = [], 0
        for i in range(n):
            rows.append(pad(r[..., start : start + i], [0, n - i]))
            start += i
        whole = stack(rows, -2)
        left = (1 - whole * whole).sqrt().cumprod(-1)
        whole = whole + diag_embed(whole.new_ones(n))
        return whole * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        return (_below(y, -1) / _below(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithms of what each row has left, and the slopes of tanh."""
        left = _below(1 - (y * y).cumsum(-1), -2).log().sum(-1)
        return 0.5 * left - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Two dimensions of n in place of one."""
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        return _ending(shape, -1, n, n)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One dimension of n (n - 1) / 2 in place of two. Raises ``ValueError`` for others than squares."""
        n = shape[-1]
        if shape[-2] != n:
            raise ValueError("Input is not square")
        return _ending(shape, -2, n * (n - 1) // 2)


class CumulativeDistributionTransform(Transform):
    """The distribution function of ``distribution``: draws become uniform.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> D.CumulativeDistributionTransform(D.Normal(0.0, 1.0))(tj.tensor(0.0))
    tensor(0.5000)
    """

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the density."""
        return self.distribution.log_prob(x)


class _Parts(Transform):
    """Transforms of parts along one dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = list(tseq)
        self.dim = dim
        self.event_dim = max((t.event_dim for t in self.transforms), default=0)
        self.bijective = all(t.bijective for t in self.transforms)

    def _cut(self, x: Any) -> list[Any]:
        raise NotImplementedError

    def _joined(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._joined([t(p) for t, p in zip(self.transforms, self._cut(x), strict=True)])

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._cut(y), strict=True)
        return self._joined([t._inv_call(p) for t, p in parts])

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Those of the parts side by side."""
        parts = zip(self.transforms, self._cut(x), self._cut(y), strict=True)
        return self._joined([t.log_abs_det_jacobian(a, b) for t, a, b in parts])


class CatTransform(_Parts):
    """Transforms of consecutive parts, ``lengths`` long (one each by default), of dimension ``dim``.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> D.CatTransform([D.ExpTransform(), D.identity_transform], lengths=[1, 2])(tj.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = list(lengths or [1] * len(self.transforms))

    @property
    def length(self) -> int:
        """Of all parts together."""
        return sum(self.lengths)

    def _cut(self, x: Any) -> list[Any]:
        return list(x.split(self.lengths, self.dim))

    def _joined(self, parts: list[Any]) -> Any:
        return cat(parts, self.dim)


class StackTransform(_Parts):
    """One transform for each position of dimension ``dim``.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> D.StackTransform([D.ExpTransform(), D.identity_transform])(tj.zeros(2))
    tensor([1., 0.])
    """

    def _cut(self, x: Any) -> list[Any]:
        return list(x.unbind(self.dim))

    def _joined(self, parts: list[Any]) -> Any:
        return stack(parts, self.dim)
