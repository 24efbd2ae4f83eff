"""A compiled ``nn.Module``: calls run compiled, everything else is the module's own."""

from __future__ import annotations

from typing import Any

from .jit import CompiledFunction
from .nn.module import Module


class CompiledModule:
    """What ``compile(module)`` returns; shares parameters, state and training mode with the module.

    >>> import tracejit as tj
    >>> model = tj.compile(tj.nn.Linear(2, 1))
    >>> model.weight is model._orig_mod.weight
    True
    """

    def __init__(self, module: Module, *, strict: bool = False, verify: bool = False) -> None:
        call = _Call(module)
        self.__dict__["_orig_mod"] = module
        self.__dict__["compiled"] = CompiledFunction(call, strict=strict, verify=verify)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        compiled = self.__dict__["compiled"]
        if name in ("explain", "graphs", "kernels", "source", "code_for", "stats", "reasons"):
            return getattr(compiled, name)
        return getattr(self.__dict__["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_orig_mod"], name)

    def __repr__(self) -> str:
        return f"Compiled({self.__dict__['_orig_mod']!r})"


class _Call:
    """The module's call as a plain callable with its own name and signature."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.__name__ = type(module).__name__
        self.__wrapped__ = module.forward
        self.__doc__ = type(module).__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)
