"""What can be asked of a compiled function: counts, graphs, kernels, source, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bound_function import Stats
    from .trace.entry import Entry


class Inspection:
    """The part of a compiled function that tells about it."""

    function: Any
    name: str
    stats: Stats
    entries: dict[Any, list[Entry]]
    reasons: list[str]

    def _all(self) -> list[Entry]:
        return [entry for entries in list(self.entries.values()) for entry in entries]

    @property
    def graphs(self) -> list[Any]:
        """The recorded graphs: forward and backward of every path, in order of recording."""
        return [g for e in self._all() for g in e.graphs()]

    @property
    def kernels(self) -> list[Any]:
        """Every kernel in use, each once, with ``name`` and ``source``."""
        return list({k.keys: k for e in self._all() for k in e.kernels()}.values())

    def source(self) -> str:
        """The source of every kernel, then the Python of every program and of every generated replay."""
        parts = [k.source for k in self.kernels]
        parts += [p.source for e in self._all() for p in e.programs()]
        parts += [e.source for e in self._all() if e.source]
        return "\n\n".join(part.rstrip() for part in parts) + "\n" if parts else ""

    def code_for(self, line: int, file: str | None = None) -> list[str]:
        """The kernel lines that compute what line ``line`` says; of the function's own file unless ``file`` is given.

        >>> import tracejit as tj
        >>> f = tj.compile(lambda x: x.exp() * 2)
        >>> _ = f(tj.ones(2)), f(tj.ones(2))
        >>> f.code_for(999)
        []
        """
        from .explain import lines_for

        return lines_for(self, line, file)

    def explain(self) -> Any:
        """What was recorded, compiled and run eagerly, and why; ``str()`` of it is a report."""
        from .explain import Explanation

        return Explanation.of(self)

    def __repr__(self) -> str:
        return f"<compiled {self.name}: {self.stats}>"
