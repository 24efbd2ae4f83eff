"""The receipt for a registered hook."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

_numbers = itertools.count()

#: How many hooks of any kind were ever registered, in a list so that a guard can hold the cell itself.
REGISTERED: list[int] = [0]


class _Registry(dict[int, Any]):
    """A dict that can be weakly referenced."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Takes a hook back with ``remove()``, or at the end of a ``with`` block.

    The hook runs after those that are registered, or before them with ``prepend``.
    """

    def __init__(
        self, registry: dict[int, Any], hook: Callable[..., Any], prepend: bool = False
    ) -> None:
        others = dict(registry) if prepend else {}
        if prepend:
            registry.clear()
        self.id = next(_numbers)
        self._registry: Any = weakref.ref(registry) if isinstance(registry, _Registry) else registry
        registry[self.id] = hook
        registry.update(others)
        REGISTERED[0] += 1

    def remove(self) -> None:
        """Unregister the hook; harmless when it is gone already."""
        registry = self._registry() if isinstance(self._registry, weakref.ref) else self._registry
        if registry is not None:
            registry.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def registry() -> dict[int, Any]:
    """An empty collection of hooks, which a handle does not keep alive."""
    return _Registry()
