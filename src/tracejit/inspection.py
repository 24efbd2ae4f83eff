"""What compiled functions offer beside being called: waiting for their kernels, and their profile."""

from __future__ import annotations

from typing import Any


class Inspection:
    """Methods of :class:`~tracejit.CompiledFunction`."""

    def wait(self, timeout: float | None = None) -> bool:
        """With ``mode="background"``: wait until everything asked for is compiled; False when ``timeout`` is over.

        >>> import tracejit as tj
        >>> f = tj.compile(lambda x: x + 1, mode="background")
        >>> _ = f(tj.ones(3))
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
