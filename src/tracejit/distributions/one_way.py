"""Transforms that several values lead to one of: their inverse is any of those."""

from __future__ import annotations

from typing import Any

from .transforms import Transform

__all__ = ["AbsTransform", "SoftmaxTransform"]


class AbsTransform(Transform):
    """The absolute value, which has no single inverse: the positive one is taken.

    >>> import tracejit as tj
    >>> tj.distributions.AbsTransform()(tj.tensor(-2.0))
    tensor(2.)
    """

    _compared = ()

    bijective = False

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class SoftmaxTransform(Transform):
    """Shares of a whole from unnormalised logarithms, which they tell but for a constant.

    >>> import tracejit as tj
    >>> tj.distributions.SoftmaxTransform()(tj.zeros(2))
    tensor([0.5000, 0.5000])
    """

    _compared = ()

    bijective = False
    event_dim = 1

    def _call(self, x: Any) -> Any:
        shifted = (x - x.max(-1, True)[0]).exp()
        return shifted / shifted.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()
