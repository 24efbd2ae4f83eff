"""What a compiled function tells: counts, graphs, kernels, source, reports, and why it runs eagerly."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

from . import config
from .errors import CaptureError, CompileWarning, user_depth

if TYPE_CHECKING:
    from .bound_function import Stats
    from .explain import Explanation
    from .ir import Graph
    from .runtime.machine_code.kernels import Kernel
    from .trace.entry import Entry
    from .trace.numbers.uses import NumberUses
    from .trace.sizes.shape_uses import ShapeUses

LOG = logging.getLogger("tracejit")


class Inspection:
    """The part of a compiled function that tells about it."""

    function: Any
    name: str
    stats: Stats
    entries: dict[Any, list[Entry]]
    reasons: list[str]
    uses: NumberUses
    shapes: ShapeUses
    strict: bool
    _warned: set[str]

    def _all(self) -> list[Entry]:
        return [entry for entries in list(self.entries.values()) for entry in entries]

    @property
    def graphs(self) -> list[Graph]:
        """The recorded graphs: forward and backward of every path, in order of recording."""
        return [g for e in self._all() for g in e.graphs()]

    @property
    def kernels(self) -> list[Kernel]:
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

    def explain(self) -> Explanation:
        """What was recorded, compiled and run eagerly, and why; ``str()`` of it is a report."""
        from .explain import Explanation

        return Explanation.of(self)

    def _explain(self, reason: str) -> None:
        if self.strict:
            raise CaptureError(
                f"{self.name}: {reason}", "Without strict=True the function would run eagerly here."
            )
        self._note(reason)

    def _note(self, reason: str) -> None:
        """A reason to run eagerly that is nobody's fault, and no error with ``strict``."""
        if reason not in self.reasons and len(self.reasons) < config.max_signatures:
            self.reasons.append(reason)
            LOG.info("%s runs eagerly: %s", self.name, reason)

    def compile_failed(self, reason: str) -> None:
        """A path could not be turned into kernels: say so once."""
        if self.strict:
            raise CaptureError(f"{self.name} could not be compiled: {reason}")
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(
                f"{self.name} runs eagerly: {reason}", CompileWarning, stacklevel=user_depth()
            )
        self._explain(reason)

    def wait(self, timeout: float | None = None) -> bool:
        """With ``mode="background"``: wait until everything asked for is compiled; False when ``timeout`` is over.

        The second call of a signature asks for its kernels.

        >>> import tracejit as tj
        >>> f = tj.compile(lambda x: x + 1, mode="background")
        >>> _ = f(tj.ones(3)), f(tj.ones(3))
        >>> f.wait(60.0), f(tj.ones(3)), f.stats.compiled_calls
        (True, tensor([2., 2., 2.]), 1)
        """
        from .runtime.behind import worker

        return worker().wait(timeout)

    def profile(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function some times with these arguments and tell where the time goes.

        Returns a :class:`~tracejit.profiling.Profile`: time, bytes and operations of every kernel, its distance to what
        the machine can do, launches and allocations; ``trace(path)`` and ``roofline(path)`` write pictures of it.
        For code around several calls, or with backward passes, use :func:`tracejit.profile`.

        >>> import tracejit as tj
        >>> f = tj.compile(lambda x: (x * 2).exp())
        >>> [kernel.name for kernel in f.profile(tj.ones(100)).kernels]
        ['k_mul_exp']
        """
        from .profiling.profiles import profile_calls

        return profile_calls(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<compiled {self.name}: {self.stats}>"
