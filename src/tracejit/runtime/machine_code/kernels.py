"""From printed functions to machine code: in memory, from the store, or through LLVM, in that order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ...codegen.kernel import Function, KernelCode
from ...codegen.replaceable import cell_of, replace, unpacked
from ...locks import awaited_rlock, free_llvmlite
from ..ahead import NONE, Ahead, Job, Request
from ..behind import worker
from ..counts import COUNTS, gates
from .loader import load_object
from .promised import promise, settled
from .store import KernelStore, kernel_store

_COMMENT = re.compile(r"[ \t]*#[^\n]*")


_addresses: dict[str, int] = {}
_lock = awaited_rlock(0)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel in use: its text, its identity, and the addresses of its functions, or promises of them."""

    name: str
    code: KernelCode
    keys: tuple[str, ...]
    promised: tuple[int, ...]

    @property
    def addresses(self) -> tuple[int, ...]:
        """The addresses of its functions."""
        return tuple(map(settled, self.promised))

    @property
    def source(self) -> str:
        """The text of all functions."""
        return "\n\n".join(f.source for f in self.code.functions)


@lru_cache(maxsize=1)
def versions() -> str:
    """What machine code depends on besides the text of a kernel."""
    from ...codegen.identity import code_version, machine

    return f"{machine()}|{code_version()}"


def identity(source: str) -> str:
    """The text that identifies a function: without comments."""
    return _COMMENT.sub("", source)


@lru_cache(maxsize=512)  # plans ask several times, for every group that is like another
def kernel_key(source: str) -> str:
    """Content address of a function's machine code."""
    return hashlib.sha256(f"{versions()}|{identity(source)}".encode()).hexdigest()


def build(code: KernelCode, ahead: Ahead = NONE) -> Kernel:
    """Machine code for every function of a kernel, or promises of it where ``ahead`` compiles it."""
    keys = tuple([kernel_key(function.source) for function in code.functions])
    functions = zip(keys, code.functions, strict=True)
    return Kernel(code.name, code, keys, tuple([_promised(k, f, ahead) for k, f in functions]))


def _promised(key: str, function: Function, ahead: Ahead) -> int:
    if ahead is not NONE and key not in ahead and _is_new(key):
        ahead.add({key: _request(key, function)})
    if key in ahead:
        return promise(lambda: _address(key, function, ahead))
    return _address(key, function)


def address_of(function: Function) -> int:
    """Machine code for one function."""
    return _address(kernel_key(function.source), function)


#: Addresses of functions that take the place of others, and those.
_originals: dict[int, int] = {}


def stands_for(address: int, original: int) -> int:
    """Note that a function takes the place of a kernel's; its address."""
    _originals[address] = original
    return address


def original(address: int) -> int:
    """The address of the kernel's function that a program calls, or whose place another takes.

    >>> original(7), original(stands_for(7, 5))
    (7, 5)
    """
    return settled(_originals.get(settled(address), address))


def compiling(codes: Iterable[KernelCode], others: Mapping[str, Job]) -> Ahead:
    """The functions of some kernels that have to go through LLVM, and others, to be compiled beside this thread."""
    found: dict[str, Job] = dict(others)
    for function in (f for code in codes for f in code.functions):
        key = kernel_key(function.source)
        if key not in found and _is_new(key):
            found[key] = _request(key, function)
    return Ahead(found)


def _is_new(key: str) -> bool:
    """Has a function to go through LLVM?"""
    if key in _addresses:
        return False
    return key not in kernel_store() and _first(key) not in kernel_store()


def _request(key: str, function: Function) -> Request:
    symbol = _symbol(key, function)
    source = function.source.replace(f"def {function.name}(", f"def {symbol}(", 1)
    # LLVM 22 aborts without its own optimisations on `<4 x i32> & 0xFFFF0000`, which is bfloat16 rounding.
    return Request(source, symbol, "bf16" in source)


def _symbol(key: str, function: Function) -> str:
    return f"{function.name}_{key[:16]}"


def _address(key: str, function: Function, ahead: Ahead = NONE) -> int:
    try:
        return _made(key, function, ahead)
    except BaseException:
        free_llvmlite()
        raise


def _made(key: str, function: Function, ahead: Ahead) -> int:
    with _lock:
        known = _addresses.get(key)
        if known is not None:
            COUNTS.reused += 1
            return known
        store, symbol = kernel_store(), _symbol(key, function)
        data = store.get(key) or store.get(_first(key))
        if data is None:
            _pass_gates()
            data = ahead.take(key) if key in ahead else _request(key, function).prepare()()
            first = unpacked(data)
            store.put(key if first is None else _first(key), data)
            COUNTS.compiled += 1
        else:
            first = unpacked(data)
            COUNTS.loaded += 1
        code = data if first is None else first[0]
        address = _addresses[key] = load_object(code, symbol)
        if first is not None:
            cell, text = load_object(code, cell_of(symbol)), first[1]
            worker().submit_idle(lambda: _improve(key, symbol, text, store, cell))
        return address


def _pass_gates() -> None:
    for gate in gates:
        gate()


def _first(key: str) -> str:
    """The key of the code that was there first, where calls are to be led to better code."""
    return hashlib.sha256(f"{key} first".encode()).hexdigest()


def _improve(key: str, symbol: str, text: str, store: KernelStore, cell: int) -> None:
    """Lead calls to carefully compiled code, which the store keeps for the next process."""
    _pass_gates()
    data = store.get(key)
    if data is None:
        from ...codegen.llvm import compile_text

        data = compile_text(text)
        store.put(key, data)
    replace(cell, load_object(data, symbol))
