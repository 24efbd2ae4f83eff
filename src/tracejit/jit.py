"""``tracejit.compile``: look up, replay or record.

A compiled function keeps an entry per signature. An entry holds the trace tree of the paths seen so far, the tensors it
captured, and a guard on the Python state it was recorded under. A call looks up its entry, checks the guard, and runs
the tree's programs; whatever is new is run eagerly, recorded, and added.
"""

from __future__ import annotations

import functools
import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

from . import config
from .errors import CaptureError, CompileWarning
from .modes import MODES
from .tensor import Tensor
from .trace.entry import Entry, NotReplayable
from .trace.signature import flatten, leaf_names, tensor_key

log = logging.getLogger("tracejit")


class Stats:
    """Counts of one compiled function since it was made."""

    def __init__(self) -> None:
        self.calls = 0
        self.compiled_calls = 0
        self.eager_calls = 0
        self.recordings = 0

    def __repr__(self) -> str:
        return (
            f"Stats(calls={self.calls}, compiled_calls={self.compiled_calls}, eager_calls={self.eager_calls}, "
            f"recordings={self.recordings})"
        )


class CompiledFunction:
    """A function that records itself and replays fused kernels; made by :func:`compile`."""

    def __init__(self, function: Callable[..., Any], *, strict: bool = False, verify: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.strict = strict
        self.verify = verify
        self.name = getattr(function, "__name__", type(function).__name__)
        self.stats = Stats()
        self.entries: dict[Any, list[Entry]] = {}
        self.reasons: list[str] = []
        self._lock = threading.RLock()
        self._warned: set[str] = set()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        modes = MODES
        if modes.recorder is not None or modes.builder is not None or config.disabled:
            return self.function(*args, **kwargs)
        self.stats.calls += 1
        tensors: list[Tensor] = []
        structure = None
        for x in args:
            if not isinstance(x, Tensor):
                structure = flatten((args, kwargs), tensors)
                break
        else:
            if kwargs:
                structure = flatten((args, kwargs), tensors)
            else:
                tensors = list(args)
        key = (modes.grad, modes.inference, structure, *map(tensor_key, tensors))
        count = len(tensors)
        if count > 1 and len(set(map(id, tensors))) != count:
            key = (*key, tuple([_first(tensors, t) for t in tensors]))
        found = self.entries.get(key)
        if found is not None:
            for entry in found:
                if entry.holds():
                    try:
                        result = entry.replay(tensors)
                    except NotReplayable as reason:
                        return self._beside(entry, str(reason), tensors, args, kwargs)
                    self.stats.compiled_calls += 1
                    return result if not self.verify else self._verified(result, args, kwargs)
        return self._record(key, tensors, args, kwargs)

    # --- everything that is not the fast path --------------------------------------------------------------------

    def _beside(self, entry: Entry, reason: str, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """The entry cannot serve this call: extend it, or run eagerly and say why."""
        if entry.open:
            return self._extend(entry, tensors, args, kwargs)
        self._explain(reason)
        return self._eager(args, kwargs)

    def _eager(self, args: Any, kwargs: Any) -> Any:
        self.stats.eager_calls += 1
        return self.function(*args, **kwargs)

    def _explain(self, reason: str) -> None:
        if self.strict:
            raise CaptureError(f"{self.name}: {reason}", "Without strict=True the function would run eagerly here.")
        if reason not in self.reasons:
            self.reasons.append(reason)
            log.info("%s runs eagerly: %s", self.name, reason)

    def _record(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """A new signature, or a known one under new Python state."""
        names = leaf_names(self.function, args, kwargs)
        with self._lock:
            variants = self.entries.setdefault(key, [])
            if len(variants) >= config.max_variants:
                variants.pop(0)
            if len(self.entries) > config.max_signatures:
                self.entries.pop(next(iter(self.entries)))
            entry = Entry(self, key, names, tensors)
        return self._extend(entry, tensors, args, kwargs, variants)

    def _extend(
        self, entry: Entry, tensors: list[Tensor], args: Any, kwargs: Any, variants: list[Entry] | None = None
    ) -> Any:
        """Run eagerly, recording a new path into ``entry``."""
        with self._lock:
            self.stats.recordings += 1
            self.stats.eager_calls += 1
            result = entry.record(tensors, args, kwargs)
            if variants is not None and entry.usable:
                variants.append(entry)
            if entry.failure is not None:
                self._explain(entry.failure)
        return result

    def compile_failed(self, reason: str) -> None:
        """A path could not be turned into kernels: say so once."""
        if self.strict:
            raise CaptureError(f"{self.name} could not be compiled: {reason}")
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"{self.name} runs eagerly: {reason}", CompileWarning, stacklevel=4)
        self._explain(reason)

    def _verified(self, result: Any, args: Any, kwargs: Any) -> Any:
        from .testing.verify import check_against_eager

        check_against_eager(self, result, args, kwargs)
        return result

    # --- inspection ------------------------------------------------------------------------------------------------

    @property
    def graphs(self) -> list[Any]:
        """The recorded graphs: forward and backward of every path, in order of recording."""
        return [g for entries in self.entries.values() for e in entries for g in e.graphs()]

    @property
    def kernels(self) -> list[Any]:
        """Every kernel in use, each once, with ``name`` and ``source``."""
        found = {k.keys: k for entries in self.entries.values() for e in entries for k in e.kernels()}
        return list(found.values())

    def source(self) -> str:
        """The source of every kernel and program."""
        parts = [k.source for k in self.kernels]
        parts += [p.source for entries in self.entries.values() for e in entries for p in e.programs()]
        return "\n\n".join(parts)

    def code_for(self, line: int) -> list[str]:
        """The kernel lines that compute what the user's source line ``line`` says."""
        found = []
        for kernel in self.kernels:
            for text in kernel.source.splitlines():
                if f":{line}   " in text or text.rstrip().endswith(f":{line}"):
                    found.append(text.strip())
        return found

    def explain(self) -> Any:
        """What was recorded, compiled and run eagerly, and why; ``str()`` of it is a report."""
        from .explain import Explanation

        return Explanation.of(self)

    def __repr__(self) -> str:
        return f"<compiled {self.name}: {self.stats}>"


def _first(tensors: list[Tensor], tensor: Tensor) -> int:
    """Position of the first leaf that is the same tensor."""
    return next(i for i, t in enumerate(tensors) if t is tensor)


def compile(  # noqa: A001
    model: Any = None, *, strict: bool = False, verify: bool = False, **ignored: Any
) -> Any:
    """Make a function, method or module record itself and replay as fused kernels.

    Usable as ``@compile``, ``@compile(...)``, ``compile(function)`` and ``compile(module)``. The first call per signature
    (dtypes, shapes, layouts, requires_grad, grad mode, other arguments) runs eagerly and is recorded; later calls run
    compiled forward and backward kernels with the same results.

    Args:
        model: a callable or an ``nn.Module``; None to make a decorator.
        strict: raise :class:`~tracejit.errors.CaptureError` instead of running eagerly.
        verify: run eagerly too at every call, compare, and raise on the first difference.

    Raises:
        TypeError: ``model`` is not callable.

    >>> import tracejit as tj
    >>> @tj.compile
    ... def f(x):
    ...     return (x * 2).relu().sum()
    >>> f(tj.ones(3)), f(tj.ones(3))
    (tensor(6.), tensor(6.))
    """
    del ignored  # PyTorch's backend=, mode=, fullgraph=, dynamic=: accepted, without meaning here
    if model is None:
        return functools.partial(compile, strict=strict, verify=verify)
    if isinstance(model, CompiledFunction):
        return model
    if not callable(model):
        raise TypeError(
            f"compile() takes a function, a method or a module, not {type(model).__name__}. "
            "Write @tj.compile above a def, or tj.compile(model)."
        )
    from .nn.module import Module

    if isinstance(model, Module):
        from .compiled_module import CompiledModule

        return CompiledModule(model, strict=strict, verify=verify)
    return CompiledFunction(model, strict=strict, verify=verify)
