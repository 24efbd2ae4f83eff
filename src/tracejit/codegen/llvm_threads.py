"""LLVM in several threads at once: each compilation has a context and a target machine of its own.

LLVM lets threads work side by side that share no context. llvmlite takes one lock around every call; the two calls that
take long, the passes and code generation, are made without it where llvmlite shows them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tracejit.codegen.identity import host
from tracejit.locks import awaited_rlock

__all__ = ["Compiler", "compiler", "emit_object", "run_passes", "target_machine"]

_free: list[Compiler] = []


class Compiler:
    """What one compilation needs; made by :func:`compiler`."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self.lock = awaited_rlock(3)
        self.context = llvm.create_context()
        self.context._owned = (
            True  # by the process: at its end llvmlite can no longer dispose of it
        )
        self.machine = target_machine()
        self._others: dict[int, Any] = {}

    def at_level(self, level: int) -> Any:
        """A machine for another level of code generation."""
        if level not in self._others:
            self._others[level] = target_machine(level)
        return self._others[level]

    def parse(self, text: str) -> Any:
        """The module that ``text`` is, for this machine."""
        import llvmlite.binding as llvm

        module = llvm.parse_assembly(text, self.context)
        module.triple = self.machine.triple
        module.data_layout = str(self.machine.target_data)
        return module


@contextmanager
def compiler() -> Iterator[Compiler]:
    """A compiler for this thread alone; a fork waits until it is given back.

    >>> with compiler() as found:
    ...     found.parse("define void @f() { ret void }").get_function("f").name
    'f'
    """
    try:
        found = _free.pop()
    except IndexError:
        found = Compiler()
    with found.lock:
        try:
            yield found
        finally:
            _free.append(found)


def target_machine(level: int = 2) -> Any:
    """A machine that makes code for this CPU, at a level of code generation.

    >>> target_machine().triple == target_machine().triple
    True
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = host()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="default"
    )


def run_passes(manager: Any, module: Any, builder: Any) -> None:
    """``manager.run(module, builder)``, other threads being free to use LLVM meanwhile.

    >>> import llvmlite.binding as llvm
    >>> with compiler() as found:
    ...     module = found.parse("define void @f() { ret void }")
    ...     builder = llvm.create_pass_builder(found.machine, llvm.create_pipeline_tuning_options(2))
    ...     run_passes(builder.getModulePassManager(), module, builder)
    """
    function = _unlocked("LLVMPY_RunNewModulePassManager", 3)
    if function is None:
        manager.run(module, builder)
    else:
        function(manager, module, builder)


def emit_object(machine: Any, module: Any) -> bytes:
    """``machine.emit_object(module)``, other threads being free to use LLVM meanwhile.

    >>> with compiler() as found:
    ...     len(emit_object(found.machine, found.parse("define void @f() { ret void }"))) > 0
    True
    """
    from llvmlite.binding import ffi

    function = _unlocked("LLVMPY_TargetMachineEmitToMemory", 4)
    if function is None:
        return bytes(machine.emit_object(module))
    with ffi.OutputString() as error:
        buffer = function(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _unlocked(name: str, arguments: int) -> Callable[..., Any] | None:
    """A function of llvmlite's library without the lock around it; None where it is not what is known of it."""
    from llvmlite.binding import ffi

    function = getattr(getattr(ffi.lib, name, None), "_cfn", None)
    declared = getattr(function, "argtypes", None)
    return function if declared is not None and len(declared) == arguments else None
