"""Work to be done when another package is imported, by whoever imports it, without importing it here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["around_import"]

#: Gets a module, and what fills it; calls that, and does what is to be done before and after.
Around = Callable[[ModuleType, Callable[[], None]], None]


def around_import(name: str, run: Around) -> None:
    """Have ``run(module, load)`` called wherever the module ``name`` is loaded; ``load()`` is what an import does.

    For a module that is there already it is called at once, with nothing left to load; of one that another thread
    imports meanwhile it may be told twice.

    >>> around_import("json", lambda module, load: print(module.__name__))
    json
    """
    _FINDER.runs[name] = run
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    # A thread that is importing it may have found it before there was the finder.
    importlib._bootstrap._lock_unlock_module(name)  # type: ignore[attr-defined]
    module = sys.modules.get(name)
    if module is not None:
        run(module, lambda: None)


class _Finder:
    """Lets those behind it find the modules it waits for, and puts a loader of its own around theirs.

    It stays where it is. Importing walks the very list: an entry that is taken away while another thread walks makes
    that thread miss the next one. And a module may be loaded again.
    """

    def __init__(self) -> None:
        self.runs: dict[str, Around] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the others find, for the names it waits for; nothing for all other names."""
        run = self.runs.get(name)
        if run is None:
            return None
        finders = tuple(sys.meta_path)
        behind = finders[finders.index(self) + 1 :] if self in finders else ()
        for finder in behind:  # those before it have been asked
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, run)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """A loader for one import, which leaves the module with the loader that it would have had."""

    def __init__(self, loader: Any, run: Around) -> None:
        self.loader, self.run = loader, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Fill ``module``."""
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.run(module, lambda: self.loader.exec_module(module))


_FINDER = _Finder()
