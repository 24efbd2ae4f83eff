"""From printed functions to machine code: in memory, from the store, or through LLVM, in that order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ... import config
from ...codegen.kernel import Function, KernelCode
from ...codegen.replaceable import cell_of, replace, unpacked
from ...locks import awaited_rlock, free_llvmlite
from ..ahead import NONE, Ahead, Job, Request
from ..behind import worker
from ..counts import COUNTS, gates
from .loader import load_object
from .promised import located, promise, settled
from .store import KernelStore, kernel_store

_COMMENT = re.compile(r"[ \t]*#[^\n]*")


_addresses: dict[str, int] = {}
_lock = awaited_rlock(0)


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        return self.source.rstrip()


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
        return promise(lambda: _address(key, function, ahead), *_origin(key, function))
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
    _, _, symbol = _origin(key, function)
    source = function.source.replace(f"def {function.name}(", f"def {symbol}(", 1)
    # LLVM 22 aborts without its own optimisations on `<4 x i32> & 0xFFFF0000`, which is bfloat16 rounding.
    return Request(source, symbol, "bf16" in source)


def _origin(key: str, function: Function) -> tuple[str, str, str]:
    """What the address of a function is the address of: it is called differently in every object file."""
    return "kernel", key, f"{function.name}_{key[:16]}"


def _address(key: str, function: Function, ahead: Ahead = NONE) -> int:
    try:
        return _made(key, function, ahead)
    except BaseException:
        free_llvmlite()
        raise


def _made(key: str, function: Function, ahead: Ahead) -> int:
    with _lock:
        _, _, symbol = _origin(key, function)
        found = stored_address(key, symbol)
        if found is None:
            _pass_gates()
            data = ahead.take(key) if key in ahead else _request(key, function).prepare()()
            first = unpacked(data)
            kernel_store().put(key if first is None else _first(key), data)
            COUNTS.compiled += 1
            found = _loaded(key, symbol, data)
        return found


def stored_address(key: str, symbol: str) -> int | None:
    """Machine code for a function that is in memory or in the store; None where it has to go through LLVM.

    >>> stored_address("0" * 64, "no_such_function") is None
    True
    """
    with _lock:
        known = _addresses.get(key)
        if known is not None:
            COUNTS.reused += 1
            return known
        store = kernel_store()
        data = store.get(key) or store.get(_first(key))
        if data is None:
            return None
        COUNTS.loaded += 1
        return _loaded(key, symbol, data)


def _loaded(key: str, symbol: str, data: bytes) -> int:
    """The address of a function in memory; one that was compiled quickly is led to better code later."""
    first = unpacked(data)
    code = data if first is None else first[0]
    address = _addresses[key] = located(load_object(code, symbol), "kernel", key, symbol)
    if first is not None and config.improves:
        cell, text, store = load_object(code, cell_of(symbol)), first[1], kernel_store()
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
