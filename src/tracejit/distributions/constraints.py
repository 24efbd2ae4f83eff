"""Where parameters and values may lie: every constraint answers ``check(value)`` with a bool tensor.

>>> import tracejit as tj
>>> tj.distributions.constraints.positive.check(tj.tensor([1.0, -1.0]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.functions import joining
from . import value_checks

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
        return f"{type(self).__name__[1:]}()"  # of a name with an underscore, as PyTorch's are


class _Test(Constraint):
    """A set that is one of its kind, given by a function of the value."""

    named = True
    _test: ClassVar[Any]  # a function of the value

    def check(self, value: Any) -> Any:
        """Does each value lie in it?"""
        return type(self)._test(value)


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


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint of an instance, and stands for a dependent one on the class."""

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__(fn)
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def __call__(self, fn: Any) -> _DependentProperty:  # type: ignore[override]
        """The property of ``fn``: used as a decorator with arguments."""
        return _DependentProperty(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _IndependentConstraint(Constraint):
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

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Bounded(Constraint):
    """Numbers between bounds."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        shown = ", ".join(f"{name}={b}" for name, b in bounds.items() if b is not None)
        return f"{type(self).__name__[1:]}({shown})"


class _GreaterThan(_Bounded):
    """Numbers above a bound."""

    def check(self, value: Any) -> Any:
        """Is each above?"""
        return value > self.lower_bound


class _GreaterThanEq(_Bounded):
    """Numbers not below a bound."""

    def check(self, value: Any) -> Any:
        """Is none below?"""
        return value >= self.lower_bound


class _LessThan(_Bounded):
    """Numbers below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)

    def check(self, value: Any) -> Any:
        """Is each below?"""
        return value < self.upper_bound


class _Interval(_Bounded):
    """Numbers from one bound to another, both included."""

    def check(self, value: Any) -> Any:
        """Is each inside?"""
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    """Numbers from one bound, included, to another, not included."""

    def check(self, value: Any) -> Any:
        """Is each inside?"""
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """Whole numbers from one bound to another, both included."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Is each whole and inside?"""
        return (value % 1 == 0) & super().check(value)


class _Multinomial(Constraint):
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


class _Cat(_Parts):
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


class _Stack(_Parts):
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


class _Real(_Test):
    """All numbers."""

    _test = staticmethod(lambda x: x == x)


class _Boolean(_Test):
    """0 and 1."""

    is_discrete = True
    _test = staticmethod(lambda x: (x == 0) | (x == 1))


class _OneHot(_Test):
    """One 1 among 0."""

    is_discrete = True
    event_dim = 1
    _test = staticmethod(value_checks.is_one_hot)


class _Simplex(_Test):
    """Numbers that are not negative and sum to 1."""

    event_dim = 1
    _test = staticmethod(value_checks.is_simplex)


class _Square(_Test):
    """Matrices with as many rows as columns."""

    event_dim = 2
    _test = staticmethod(lambda x: (x == x).flatten(-2).all(-1) & (x.shape[-1] == x.shape[-2]))


class _Symmetric(_Square):
    """Matrices that are their own transpose."""

    _test = staticmethod(value_checks.is_symmetric)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    _test = staticmethod(value_checks.is_definite)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    _test = staticmethod(value_checks.is_semidefinite)


class _LowerTriangular(_Test):
    """Matrices with zeros above the diagonal."""

    event_dim = 2
    _test = staticmethod(value_checks.is_lower)


class _LowerCholesky(_Test):
    """Lower triangles with a positive diagonal."""

    event_dim = 2
    _test = staticmethod(value_checks.is_root)


class _CorrCholesky(_Test):
    """Such triangles with rows of length 1."""

    event_dim = 2
    _test = staticmethod(value_checks.is_correlation_root)


class _IntegerGreaterThan(_Bounded):
    """Whole numbers not below a bound."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Is each whole and not below?"""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerLessThan(_LessThan):
    """Whole numbers not above a bound."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Is each whole and not above?"""
        return (value % 1 == 0) & (value <= self.upper_bound)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
multinomial, cat, stack = _Multinomial, _Cat, _Stack
real, boolean, one_hot, simplex = _Real(), _Boolean(), _OneHot(), _Simplex()
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
for _own in (positive, nonnegative, nonnegative_integer, positive_integer):
    _own.named = True
real_vector = _IndependentConstraint(real, 1)
square, symmetric = _Square(), _Symmetric()
positive_definite, positive_semidefinite = _PositiveDefinite(), _PositiveSemidefinite()
lower_triangular, lower_cholesky, corr_cholesky = (
    _LowerTriangular(),
    _LowerCholesky(),
    _CorrCholesky(),
)
