"""Where parameters and values may lie: every constraint answers ``check(value)`` with a bool tensor.

>>> import tracejit as tj
>>> tj.distributions.constraints.positive.check(tj.tensor([1.0, -1.0]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..number_limits import finfo
from ..ops.functions import joining

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values; the last ``event_dim`` dimensions are one value."""

    is_discrete = False
    event_dim = 0
    #: Is it one of its kind, so that what is registered for it holds for no other?
    named = False

    def check(self, value: Any) -> Any:
        """Does each value lie in it?"""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


class _Test(Constraint):
    """A set given by a function of the value."""

    named = True

    def __init__(
        self, name: str, test: Callable[[Any], Any], *, discrete: bool = False, event_dim: int = 0
    ) -> None:
        self.name = name
        self._test = test
        self.is_discrete = discrete
        self.event_dim = event_dim

    def check(self, value: Any) -> Any:
        """Does each value lie in it?"""
        return self._test(value)

    def __repr__(self) -> str:
        return self.name


class _Dependent(Constraint):
    """A set that depends on other parameters, so that nothing can be checked by itself."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        """One with these facts."""
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Any) -> Any:
        """Refused. Raises ``ValueError``."""
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):  # noqa: N801  (PyTorch's spelling)
    """A property that gives a constraint of an instance, and stands for a dependent one on the class."""

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__(fn)
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def __call__(self, fn: Any) -> dependent_property:  # type: ignore[override]
        """The property of ``fn``: used as a decorator with arguments."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class independent(Constraint):  # noqa: N801  (PyTorch's spelling)
    """Values whose last dimensions lie in ``base_constraint`` all together."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        """Does each event lie in it?"""
        found = self.base_constraint.check(value)
        for _ in range(self.reinterpreted_batch_ndims):
            found = found.all(-1)
        return found


class _Bounded(Constraint):
    """Numbers between bounds."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        bounds = [b for b in (self.lower_bound, self.upper_bound) if b is not None]
        return f"{type(self).__name__}({', '.join(map(str, bounds))})"


class greater_than(_Bounded):  # noqa: N801
    """Numbers above a bound."""

    def check(self, value: Any) -> Any:
        """Is each above?"""
        return value > self.lower_bound


class greater_than_eq(_Bounded):  # noqa: N801
    """Numbers not below a bound."""

    def check(self, value: Any) -> Any:
        """Is none below?"""
        return value >= self.lower_bound


class less_than(_Bounded):  # noqa: N801
    """Numbers below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)

    def check(self, value: Any) -> Any:
        """Is each below?"""
        return value < self.upper_bound


class interval(_Bounded):  # noqa: N801
    """Numbers from one bound to another, both included."""

    def check(self, value: Any) -> Any:
        """Is each inside?"""
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class half_open_interval(_Bounded):  # noqa: N801
    """Numbers from one bound, included, to another, not included."""

    def check(self, value: Any) -> Any:
        """Is each inside?"""
        return (value >= self.lower_bound) & (value < self.upper_bound)


class integer_interval(interval):  # noqa: N801
    """Whole numbers from one bound to another, both included."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Is each whole and inside?"""
        return (value % 1 == 0) & super().check(value)


class multinomial(Constraint):  # noqa: N801
    """Counts, whose sums along the last dimension are at most ``upper_bound``."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """Are they?"""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Parts(Constraint):
    """Constraints of parts along dimension ``dim``."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim
        self.is_discrete = any(part.is_discrete for part in self.cseq)
        self.event_dim = max(part.event_dim for part in self.cseq)


class cat(_Parts):  # noqa: N801
    """Constraints of consecutive parts, ``lengths`` long."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = list(lengths or [1] * len(self.cseq))

    def check(self, value: Any) -> Any:
        """Does each part lie in its own?"""
        parts = zip(self.cseq, value.split(self.lengths, self.dim), strict=True)
        return joining.cat([one.check(part) for one, part in parts], self.dim)


class stack(_Parts):  # noqa: N801
    """One constraint for each position."""

    def check(self, value: Any) -> Any:
        """Does each part lie in its own?"""
        parts = zip(self.cseq, value.unbind(self.dim), strict=True)
        return joining.stack([one.check(part) for one, part in parts], self.dim)


def is_dependent(constraint: Any) -> bool:
    """Does the constraint depend on other parameters?

    >>> is_dependent(dependent), is_dependent(real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


def _is_symmetric(x: Any) -> Any:
    return ((x - x.mT).abs() <= 1e-6).flatten(-2).all(-1)


def _is_definite(x: Any) -> Any:
    from ..ops.functions.linear_algebra import eigvalsh

    return _is_symmetric(x) & (eigvalsh(x) > 0).all(-1)


def _is_semidefinite(x: Any) -> Any:
    from ..ops.functions.linear_algebra import eigvalsh

    return _is_symmetric(x) & (eigvalsh(x) >= 0).all(-1)


def _is_correlation_root(x: Any) -> Any:
    apart = ((x * x).sum(-1) - 1).abs()
    tolerance = 10 * x.shape[-1] * finfo(x.dtype).eps
    return lower_cholesky.check(x) & (apart < tolerance).all(-1)


def _is_lower(x: Any) -> Any:
    return (x.tril() == x).flatten(-2).all(-1)


def _is_simplex(x: Any) -> Any:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _is_one_hot(x: Any) -> Any:
    return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)


dependent = _Dependent()
real = _Test("Real()", lambda x: x == x)
boolean = _Test("Boolean()", lambda x: (x == 0) | (x == 1), discrete=True)
one_hot = _Test("OneHot()", _is_one_hot, discrete=True, event_dim=1)
nonnegative_integer = _Test(
    "IntegerGreaterThan(lower_bound=0)", lambda x: (x % 1 == 0) & (x >= 0), discrete=True
)
positive_integer = _Test(
    "IntegerGreaterThan(lower_bound=1)", lambda x: (x % 1 == 0) & (x >= 1), discrete=True
)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
positive.named = nonnegative.named = True
unit_interval = interval(0.0, 1.0)
real_vector = independent(real, 1)
simplex = _Test("Simplex()", _is_simplex, event_dim=1)
square = _Test(
    "Square()", lambda x: (x == x).flatten(-2).all(-1) & (x.shape[-1] == x.shape[-2]), event_dim=2
)
symmetric = _Test("Symmetric()", _is_symmetric, event_dim=2)
positive_definite = _Test("PositiveDefinite()", _is_definite, event_dim=2)
lower_triangular = _Test("LowerTriangular()", _is_lower, event_dim=2)
lower_cholesky = _Test(
    "LowerCholesky()",
    lambda x: _is_lower(x) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1),
    event_dim=2,
)
positive_semidefinite = _Test("PositiveSemidefinite()", _is_semidefinite, event_dim=2)
corr_cholesky = _Test("CorrCholesky()", _is_correlation_root, event_dim=2)
