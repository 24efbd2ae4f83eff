"""Transforms from all real numbers onto constrained sets: what unconstrained optimisers and samplers work with.

``biject_to(constraint)`` gives a transform that can be inverted; ``transform_to(constraint)`` one that is the better
for optimisation, and may reach a value from several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints as c
from .composed import ComposeTransform, identity_transform
from .joined_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    StackTransform,
    StickBreakingTransform,
)
from .one_way import SoftmaxTransform
from .transforms import (
    AffineTransform,
    ExpTransform,
    SigmoidTransform,
    Transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Functions from constraints to transforms, by the class of the constraint or for a single one.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> D.biject_to(D.constraints.positive)(tj.tensor(0.0))
    tensor(1.)
    """

    def __init__(self) -> None:
        self._factories: dict[Any, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Use ``factory(constraint)`` for a constraint or a class of them; without ``factory``, a decorator.

        Raises ``TypeError`` for what is neither.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = isinstance(constraint, type) and issubclass(constraint, c.Constraint)
        if not kind and not isinstance(constraint, c.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        key = constraint if kind or constraint.named else type(constraint)
        self._factories[key] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """The transform onto ``constraint``; ``NotImplementedError`` where none is known."""
        for key in (constraint, type(constraint)):
            if key in self._factories:
                return self._factories[key](constraint)
        raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


def _under(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _made_of(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others."""

    def independent(constraint: Any) -> Transform:
        base = registry(constraint.base_constraint)
        return IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def joined(constraint: Any) -> Transform:
        parts = [registry(part) for part in constraint.cseq]
        return CatTransform(parts, constraint.dim, constraint.lengths)

    def stacked(constraint: Any) -> Transform:
        return StackTransform([registry(part) for part in constraint.cseq], constraint.dim)

    registry.register(c.independent, independent)
    registry.register(c.cat, joined)
    registry.register(c.stack, stacked)


for _registry in (biject_to, transform_to):
    _made_of(_registry)
    _registry.register(c.real, lambda constraint: identity_transform)
    _registry.register(c.greater_than, _above)
    _registry.register(c.greater_than_eq, _above)
    _registry.register(c.positive, lambda constraint: ExpTransform())
    _registry.register(c.nonnegative, lambda constraint: ExpTransform())
    _registry.register(c.less_than, _under)
    _registry.register(c.interval, _between)
    _registry.register(c.half_open_interval, _between)
    _registry.register(c.corr_cholesky, lambda constraint: CorrCholeskyTransform())

biject_to.register(c.simplex, lambda constraint: StickBreakingTransform())
transform_to.register(c.simplex, lambda constraint: SoftmaxTransform())
for _matrix in (c.positive_definite, c.positive_semidefinite):
    transform_to.register(_matrix, lambda constraint: PositiveDefiniteTransform())
transform_to.register(c.lower_cholesky, lambda constraint: LowerCholeskyTransform())
