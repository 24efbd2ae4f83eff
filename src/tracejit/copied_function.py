"""Copies and pickles of compiled functions."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

#: What a compiled function is made with, in this order.
OPTIONS = ("strict", "verify", "background", "capture", "dynamic")


class Copies:
    """The part of a compiled function that is copied and pickled."""

    function: Callable[..., Any]

    @property
    def options(self) -> dict[str, Any]:
        """What it was made with, by name."""
        return {name: getattr(self, name) for name in OPTIONS}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Functions are not copied; other callables are, and start without recordings."""
        if isinstance(self.function, FunctionType):
            return self
        function = copy.deepcopy(self.function, memo)
        return type(self)(function, **self.options)  # type: ignore[call-arg]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By name where the name leads here, else as the function with the options."""
        from .jit import _compiled

        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in getattr(self, "__qualname__", "").split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return _compiled, (self.function, *self.options.values())
