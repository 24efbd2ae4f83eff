"""A compiled ``nn.Module``: calls run compiled, everything else is the module's own.

The compiled module *shares the attributes* of the module it was made from (one ``__dict__``) and is an instance of its
class, so parameters, modes, hooks and state dicts are the same whichever of the two is used.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .jit import CompiledFunction, compile
from .nn.module import Module
from .trace.replay.tracebacks import shortened


class CompiledModule(Module):
    """What ``compile(module)`` returns.

    >>> import tracejit as tj
    >>> model = tj.compile(tj.nn.Linear(2, 1))
    >>> model.weight is model._orig_mod.weight
    True
    >>> isinstance(model, tj.nn.Linear)
    True
    """

    __slots__ = ("_orig_mod", "compiled")

    _orig_mod: Module
    compiled: CompiledFunction

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module compiled."""
        try:
            return self.compiled(*args, **kwargs)
        except Exception as error:
            error.__traceback__ = shortened(error)
            raise

    def __getattr__(self, name: str) -> Any:
        if name in _INSPECTION:
            return getattr(self.compiled, name)
        return super().__getattr__(name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        call = self.compiled
        return compile_module, (self._orig_mod, *call.options.values())

    def __repr__(self) -> str:
        return f"Compiled({self._orig_mod!r})"


_INSPECTION = (
    "explain",
    "graphs",
    "kernels",
    "source",
    "code_for",
    "profile",
    "wait",
    "stats",
    "reasons",
)


def compile_module(
    module: Module,
    strict: bool = False,
    verify: bool = False,
    background: bool = False,
    capture: bool = False,
    dynamic: bool | None = None,
) -> CompiledModule:
    """A compiled twin of ``module``."""
    cls: Any = type(module)
    twin: CompiledModule = object.__new__(_class_for(cls))
    object.__setattr__(twin, "__dict__", module.__dict__)
    object.__setattr__(twin, "_orig_mod", module)
    options: dict[str, Any] = {
        "verify": verify,
        "background": background,
        "capture": capture,
        "dynamic": dynamic,
    }
    call = CompiledFunction(_Call(module), strict=strict, **options)
    object.__setattr__(twin, "compiled", call)
    return twin


def compiled_call(module: Module, *args: Any, **kwargs: Any) -> Any:
    """The call of ``module`` as a compiled function; ``compile`` is told the other arguments.

    >>> import tracejit as tj
    >>> tuple(compiled_call(tj.nn.Flatten(), fullgraph=True)(tj.zeros(2, 3, 4)).shape)
    (2, 12)
    """
    return compile(_Call(module, plainly=True), *args, **kwargs)


@lru_cache(maxsize=256)
def _class_for(cls: type[Module]) -> type[CompiledModule]:
    """The class of compiled instances of ``cls``."""
    return type(
        f"Compiled{cls.__name__}",
        (CompiledModule, cls),
        {"__module__": cls.__module__, "__slots__": ()},
    )


class _Call:
    """The module's call as a plain callable with its own name and signature.

    ``plainly``: whatever else calls of the module have been told to run.
    """

    def __init__(self, module: Module, plainly: bool = False) -> None:
        self.module, self.plainly = module, plainly
        self.__name__ = type(module).__name__
        self.__wrapped__ = module.forward
        self.__doc__ = type(module).__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self.module._call_impl if self.plainly else self.module)(*args, **kwargs)
