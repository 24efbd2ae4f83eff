"""Modules whose first values nobody will read."""

from __future__ import annotations

from typing import Any


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """``module_cls(*args, **kwargs)``, for a module whose parameters are set afterwards.

    Raises ``RuntimeError`` for what is no module class.

    >>> import tracejit as tj
    >>> tj.nn.utils.skip_init(tj.nn.Linear, 2, 3).weight.shape
    tracejit.Size([3, 2])
    """
    from ..module import Module

    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    return module_cls(*args, **kwargs)
