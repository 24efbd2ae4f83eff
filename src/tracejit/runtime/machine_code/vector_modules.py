"""Vector code that the package writes for this CPU: made once and kept in the kernel store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...codegen.identity import machine
from ..ahead import NONE, Ahead
from .loader import load_object
from .store import kernel_store

__all__ = ["VectorModule", "address", "known_address", "missing"]

_addresses: dict[tuple[str, str], int] = {}


@dataclass(frozen=True)
class VectorModule:
    """A module in LLVM's assembly language, and the function of it that is called."""

    symbol: str
    source: str

    def compile(self) -> bytes:
        """The object code."""
        from ...codegen.llvm import vector_code

        return vector_code(self.source)

    def prepare(self) -> Callable[[], bytes]:
        """What makes the object code: nothing else is to be done."""
        return self.compile

    @property
    def key(self) -> str:
        """Its name in the kernel store."""
        return hashlib.sha256(f"vectors {machine()}\n{self.source}".encode()).hexdigest()


def missing(modules: Iterable[VectorModule]) -> dict[str, VectorModule]:
    """Those that have to go through LLVM, by key.

    >>> len(missing([VectorModule("f", "define void @f() { ret void } ; in no store")]))
    1
    """
    return {
        module.key: module
        for module in dict.fromkeys(modules)
        if known_address(module) is None and module.key not in kernel_store()
    }


def known_address(module: VectorModule) -> int | None:
    """Where the function is, None where nobody has asked for it yet.

    >>> known_address(VectorModule("f", "define void @f() { ret void } ; never asked for")) is None
    True
    """
    return _addresses.get((module.symbol, module.source))


def address(module: VectorModule, ahead: Ahead = NONE) -> int:
    """Where the function is; what ``ahead`` compiles is taken from there.

    >>> module = VectorModule("f", "define void @f() { ret void }")
    >>> address(module) == address(module)
    True
    """
    known = known_address(module)
    if known is not None:
        return known
    key = module.key
    code = kernel_store().get(key)
    if code is None:
        code = ahead.take(key) if key in ahead else module.compile()
        kernel_store().put(key, code)
    found = _addresses[module.symbol, module.source] = load_object(code, module.symbol)
    return found
