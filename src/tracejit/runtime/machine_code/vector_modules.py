"""Vector code that the package writes for this CPU: made once and kept in the kernel store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...codegen.identity import machine
from ..ahead import NONE, Ahead
from .loader import load_object
from .promised import located
from .store import kernel_store

__all__ = ["VectorModule", "address", "known_address", "missing", "stored_address"]

#: By symbol and text, which are compared sooner than a key is made of them; and by key.
_addresses: dict[tuple[str, str], int] = {}
_by_key: dict[str, int] = {}


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
    found = stored_address(key, module.symbol)
    if found is None:
        code = ahead.take(key) if key in ahead else module.compile()
        kernel_store().put(key, code)
        found = _loaded(key, module.symbol, code)
    _addresses[module.symbol, module.source] = found
    return found


def stored_address(key: str, symbol: str) -> int | None:
    """Where the function of a module is that the store has under ``key``, None where it has none.

    >>> stored_address("0" * 64, "f") is None
    True
    """
    known = _by_key.get(key)
    if known is not None:
        return known
    code = kernel_store().get(key)
    return None if code is None else _loaded(key, symbol, code)


def _loaded(key: str, symbol: str, code: bytes) -> int:
    found = _by_key[key] = located(load_object(code, symbol), "vector", key, symbol)
    return found
