"""Random numbers written in place."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from .. import elementwise as e
from .. import transcendental as t
from ..table import function
from .common import Tensor, as_type, is_tensor, refuse, shape_of
from .draw_bounds import exact_limit, refuse_bounds
from .sampling import (
    check_std,
    coin,
    draw_integers,
    draw_normal,
    draw_uniform,
    exponential,
)


@function(namespace=False)
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **keyword: float
) -> Tensor:
    """Overwrite ``self`` with uniform numbers in [from, to).

    >>> import tracejit as tj
    >>> x = tj.empty(100).uniform_(2, 3)
    >>> bool((x >= 2).all())
    True
    """
    low = keyword.get("from", from_)
    if low > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}"
        )
    u = draw_uniform(shape_of(self), self.dtype, generator, self)
    return self._assign(e.add(e.mul(u, to - low), low))


@function(namespace=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite ``self`` with normal numbers.

    >>> import tracejit as tj
    >>> tj.empty(2).normal_().shape
    tracejit.Size([2])
    """
    check_std(std)
    z = draw_normal(shape_of(self), self.dtype, generator, self)
    return self._assign(e.add(e.mul(z, std), mean))


@function(namespace=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Overwrite ``self`` with ones of probability ``p`` and zeros.

    >>> import tracejit as tj
    >>> tj.empty(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    refuse("bernoulli_scalar_cpu_", self.dtype, "complex")
    if not is_tensor(p) and not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    dtype = p.dtype if is_tensor(p) else dtypes.float32
    return self._assign(as_type(coin(shape_of(self), dtype, p, generator, self), self.dtype))


@function(namespace=False)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite ``self`` with exponential numbers of rate ``lambd``.

    Raises ``RuntimeError`` unless ``lambd`` is positive.

    >>> import tracejit as tj
    >>> bool((tj.empty(100).exponential_() > 0).all())
    True
    """
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return self._assign(exponential(shape_of(self), self.dtype, lambd, generator, self))


@function(namespace=False)
def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Any = None
) -> Tensor:
    """Overwrite ``self`` with integers in [from, to), or as far as its dtype holds them exactly.

    Raises ``RuntimeError`` for none, and for integers beyond those of the dtype.

    >>> import tracejit as tj
    >>> bool((tj.empty(100).random_(3) < 3).all())
    True
    """
    refuse("random_kernel_cpu", self.dtype, "complex")
    low, high = (0, from_) if to is None else (from_ or 0, to)
    limit = exact_limit(self.dtype) if high is None else high
    refuse_bounds(low, limit, self.dtype)
    drawn = draw_integers(shape_of(self), low, limit, self.dtype, generator, self)
    return self._assign(drawn)


@function(namespace=False)
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None
) -> Tensor:
    """Overwrite ``self`` with the exponentials of normal numbers.

    Raises ``RuntimeError`` unless ``std`` is positive.

    >>> import tracejit as tj
    >>> bool((tj.empty(10).log_normal_() > 0).all())
    True
    """
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    z = draw_normal(shape_of(self), self.dtype, generator, self)
    return self._assign(t.exp(e.add(e.mul(z, std), mean)))
