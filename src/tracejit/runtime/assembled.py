"""Object code of what the package brings along in LLVM's assembly language, from the kernel store or from LLVM.

These modules are the same for all programs and compiled once per machine, but the first program waits for them. So they
can be had with the least effort, which takes a sixth of the time and makes code that is a few percent slower.
"""

from __future__ import annotations

import enum
import hashlib
import platform
import sys

from tracejit.codegen.identity import compiler as compiler_version
from tracejit.runtime.machine_code.store import kernel_store

__all__ = ["Effort", "assembled", "is_stored", "process_triple"]


class Effort(enum.Enum):
    """LLVM's level of code generation."""

    LEAST = 0
    FULL = 2


def assembled(text: str, triple: str, effort: Effort = Effort.FULL) -> bytes:
    """Object code of a module given as LLVM assembly: from the kernel store, else from LLVM.

    >>> triple = process_triple()
    >>> text = f'target triple = "{triple}"\\ndefine i32 @one() {{ ret i32 1 }}'
    >>> len(assembled(text, triple)) > 0, len(assembled(text, triple, Effort.LEAST)) > 0
    (True, True)
    """
    key = _key(text, effort)
    code = kernel_store().get(key)
    if code is None:
        code = _compile(text, triple, effort)
        kernel_store().put(key, code)
    return code


def is_stored(text: str, effort: Effort) -> bool:
    """Has the kernel store such object code?

    >>> is_stored("not stored", Effort.LEAST)
    False
    """
    return _key(text, effort) in kernel_store()


def process_triple() -> str:
    """LLVM's name of the machine this process runs on.

    >>> len(process_triple().split("-")) >= 3
    True
    """
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
        return f"{platform.machine()}-unknown-linux-gnu"  # what LLVM would say, without loading it
    import llvmlite.binding as llvm

    return str(llvm.get_process_triple())


def _key(text: str, effort: Effort) -> str:
    return hashlib.sha256(
        f"native {effort.value} {compiler_version()}\n{text}".encode()
    ).hexdigest()


def _compile(text: str, triple: str, effort: Effort) -> bytes:
    import llvmlite.binding as llvm

    from tracejit.codegen.llvm_threads import compiler, emit_object, run_passes

    with compiler() as made:
        # For the generic CPU of the architecture: the object is shared through the store and gains
        # nothing from vector instructions.
        target = llvm.Target.from_triple(triple)
        machine = target.create_target_machine(opt=effort.value, reloc="pic", codemodel="default")
        module = llvm.parse_assembly(text, made.context)
        module.verify()
        # The text is written as an optimiser would leave it: only what is marked for it is put inline.
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0))
        run_passes(builder.getModulePassManager(), module, builder)
        return emit_object(machine, module)
