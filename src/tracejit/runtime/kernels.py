"""From printed functions to machine code: in memory, from the store, or through LLVM, in that order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..codegen.kernel import Function, KernelCode
from ..locks import awaited_rlock, free_llvmlite
from .loader import load_object
from .store import kernel_store

_COMMENT = re.compile(r"[ \t]*#[^\n]*")


@dataclass
class Counts:
    """Where the machine code of this process came from."""

    compiled: int = 0
    loaded: int = 0
    reused: int = 0


COUNTS = Counts()
#: Called before a function goes through LLVM; what they raise gives the compilation up.
gates: list[Callable[[], None]] = []
_addresses: dict[str, int] = {}
_lock = awaited_rlock(0)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel in use: its text, its identity, and the addresses of its functions."""

    name: str
    code: KernelCode
    keys: tuple[str, ...]
    addresses: tuple[int, ...]

    @property
    def source(self) -> str:
        """The text of all functions."""
        return "\n\n".join(f.source for f in self.code.functions)


@lru_cache(maxsize=1)
def _versions() -> str:
    """What machine code depends on besides the text of a kernel."""
    from ..codegen.identity import code_version, machine

    return f"{machine()}|{code_version()}"


def identity(source: str) -> str:
    """The text that identifies a function: without comments."""
    return _COMMENT.sub("", source)


def kernel_key(source: str) -> str:
    """Content address of a function's machine code."""
    return hashlib.sha256(f"{_versions()}|{identity(source)}".encode()).hexdigest()


def build(code: KernelCode) -> Kernel:
    """Machine code for every function of a kernel."""
    keys, addresses = [], []
    for function in code.functions:
        key = kernel_key(function.source)
        keys.append(key)
        addresses.append(_address(key, function))
    return Kernel(code.name, code, tuple(keys), tuple(addresses))


def _address(key: str, function: Function) -> int:
    try:
        return _made(key, function)
    except BaseException:
        free_llvmlite()
        raise


def _made(key: str, function: Function) -> int:
    with _lock:
        known = _addresses.get(key)
        if known is not None:
            COUNTS.reused += 1
            return known
        symbol = f"{function.name}_{key[:16]}"
        data = kernel_store().get(key)
        if data is None:
            from ..codegen.llvm import compile_source

            for gate in gates:
                gate()
            source = function.source.replace(f"def {function.name}(", f"def {symbol}(", 1)
            # LLVM 22 aborts without its own optimisations on `<4 x i32> & 0xFFFF0000`, which is bfloat16 rounding.
            data = compile_source(source, symbol, thorough="bf16" in source)
            kernel_store().put(key, data)
            COUNTS.compiled += 1
        else:
            COUNTS.loaded += 1
        address = _addresses[key] = load_object(data, symbol)
        return address
