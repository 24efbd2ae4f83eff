"""Invertible functions and how they stretch: what :class:`TransformedDistribution` is made with."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..number_limits import finfo
from ..ops.functions.activations import softplus
from ..ops.functions.factories import full_like
from ..ops.functions.shaping import broadcast_shapes
from .distribution import broadcast
from .utils import _clipped_sigmoid as _clipped_sigmoid
from .utils import _sum_rightmost as _sum_rightmost

__all__ = [
    "AffineTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "Transform",
]

_OTHERS = ("composed", "joined_transforms", "one_way")  # which build upon these


def __getattr__(name: str) -> Any:
    for other in _OTHERS:
        module = importlib.import_module(f"{__package__}.{other}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Transform:
    """An invertible function: ``t(x)``, ``t.inv(y)`` and the logarithm of its slope.

    >>> import tracejit as tj
    >>> exp = tj.distributions.ExpTransform()
    >>> exp(tj.tensor(0.0)), exp.inv(tj.tensor(1.0))
    (tensor(1.), tensor(0.))
    """

    event_dim = 0
    bijective = True
    domain: Any = None
    codomain: Any = None
    #: The attributes by which two of a kind are equal; None where only a transform itself is.
    _compared: ClassVar[tuple[str, ...] | None] = None
    _cache_size = 0
    _cached_x_y: tuple[Any, Any] = (None, None)  # programs look at it

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        super().__init__()  # that of a module, say, which a program derives from as well

    def __init_subclass__(cls) -> None:
        """Whoever says where values come from and go to says with it how many dimensions one has."""
        if "domain" in vars(cls) and "event_dim" not in vars(cls):
            cls.event_dim = property(_event_dim)  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _dims(self) -> tuple[int, int]:
        """How many dimensions a value has before, and after."""
        before, after = self.domain, self.codomain
        return (
            self.event_dim if before is None else before.event_dim,
            self.event_dim if after is None else after.event_dim,
        )

    def __eq__(self, other: object) -> bool:
        if self is other or self._compared is None or type(self) is not type(other):
            return self is other
        return all(_are_equal(getattr(self, n), getattr(other, n)) for n in self._compared)

    def __hash__(self) -> int:
        return hash(type(self))

    def __call__(self, x: Any) -> Any:
        """The function; with a cache, the latest result for the same tensor."""
        if not self._cache_size:
            return self._call(x)
        before, after = self._cached_x_y
        if x is before:
            return after
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        """The inverse; with a cache, what the latest result came from."""
        if not self._cache_size:
            return self._inverse(y)
        before, after = self._cached_x_y
        if y is after:
            return before
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        """What subclasses define."""
        raise NotImplementedError

    def _numbers(self) -> tuple[Any, ...]:
        """Numbers and tensors that values are combined with, element by element."""
        return ()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of what becomes of a tensor of this shape."""
        others = [tuple(getattr(x, "shape", ())) for x in self._numbers()]
        return broadcast_shapes(tuple(shape), *others) if others else shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of what a tensor of this shape came from."""
        return Transform.forward_shape(self, shape)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same function with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        made = copy.copy(self)
        Transform.__init__(made, cache_size)
        made._cached_x_y = (None, None)
        return made

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy / dx|."""
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 where values keep their order, -1 where they turn it around; ``NotImplementedError`` without inverse."""
        if not self.bijective:
            raise NotImplementedError(f"{type(self).__name__} has no inverse")
        return 1


def _are_equal(x: Any, y: Any) -> bool:
    same = x == y
    return same if isinstance(same, bool) else bool(same.all())


def _event_dim(transform: Transform) -> Any:
    """How many dimensions a value has; raises ``ValueError`` where they are others before and after."""
    before, after = transform.domain.event_dim, transform.codomain.event_dim
    if before != after:
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
    return before


class _InverseTransform(Transform):
    """The inverse of a transform, as its ``inv`` gives it."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform
        self.bijective = transform.bijective
        self.domain, self.codomain = transform.codomain, transform.domain
        self.event_dim = transform.event_dim

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    _compared = ("_inv",)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.forward_shape(shape)

    def _call(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inverse(self, y: Any) -> Any:
        return self._inv(y)

    @property
    def sign(self) -> Any:
        return self._inv.sign

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    @property
    def inv(self) -> Transform:
        return self._inv


class AffineTransform(Transform):
    """``loc + scale * x``.

    >>> import tracejit as tj
    >>> tj.distributions.AffineTransform(1.0, 2.0)(tj.tensor(3.0))
    tensor(7.)
    """

    _compared = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    def _numbers(self) -> tuple[Any, ...]:
        return self.loc, self.scale

    def _call(self, x: Any) -> Any:
        """The function."""
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    @property
    def sign(self) -> Any:
        """That of ``scale``."""
        return self.scale.sign() if hasattr(self.scale, "sign") else math.copysign(1, self.scale)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |scale|, summed over the last ``event_dim`` dimensions."""
        if isinstance(self.scale, (int, float)):
            found = full_like(x, math.log(abs(self.scale)))
        else:
            found = self.scale.abs().log().expand(broadcast_shapes(self.scale.shape, x.shape))
        return found.sum(tuple(range(-self.event_dim, 0))) if self.event_dim else found


class ExpTransform(Transform):
    """exp(x).

    >>> import tracejit as tj
    >>> tj.distributions.ExpTransform()(tj.tensor(0.0))
    tensor(1.)
    """

    _compared = ()

    def _call(self, x: Any) -> Any:
        """The function."""
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """x."""
        return x


class PowerTransform(Transform):
    """x to the power ``exponent``, for positive x.

    >>> import tracejit as tj
    >>> tj.distributions.PowerTransform(2.0)(tj.tensor(3.0))
    tensor(9.)
    """

    _compared = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast(exponent)

    def _numbers(self) -> tuple[Any, ...]:
        return (self.exponent,)

    @property
    def sign(self) -> Any:
        """That of the exponent."""
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        """The function."""
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |exponent * y / x|."""
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)).

    >>> import tracejit as tj
    >>> tj.distributions.SigmoidTransform()(tj.tensor(0.0))
    tensor(0.5000)
    """

    _compared = ()

    def _call(self, x: Any) -> Any:
        """The function, kept from 0 and 1."""
        return _clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        limits = finfo(y.dtype)
        kept = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return kept.log() - (-kept).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """-softplus(-x) - softplus(x)."""
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """tanh(x).

    >>> import tracejit as tj
    >>> tj.distributions.TanhTransform()(tj.tensor(0.0))
    tensor(0.)
    """

    _compared = ()

    def _call(self, x: Any) -> Any:
        """The function."""
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """2 (log 2 - x - softplus(-2x)), exact for large x too."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """log(1 + exp(x)).

    >>> import tracejit as tj
    >>> tj.distributions.SoftplusTransform()(tj.tensor(0.0))
    tensor(0.6931)
    """

    _compared = ()

    def _call(self, x: Any) -> Any:
        """The function."""
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """-softplus(-x)."""
        return -softplus(-x)
