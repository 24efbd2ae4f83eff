"""Parameters that follow from others, when they are asked for."""

from __future__ import annotations

from functools import update_wrapper
from typing import Any, cast

from ..autograd.grad_mode import enable_grad

__all__ = ["lazy_property"]


class lazy_property:  # noqa: N801  (PyTorch's spelling)
    """A property that is computed once, when it is first asked for.

    >>> class Once:
    ...     @lazy_property
    ...     def value(self):
    ...         return object()
    >>> once = Once()
    >>> once.value is once.value
    True
    """

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        update_wrapper(cast("Any", self), wrapped)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():  # it outlives this mode
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
