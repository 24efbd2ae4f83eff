"""Kernel text to optimised machine code for this host, through LLVM.

One pass pipeline for every kernel, chosen by measurement. Nothing process-wide is set: the vector width is an attribute
of our functions, so a user's own Numba code compiles as before.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tracejit.codegen.lower import lower
from tracejit.codegen.lower_reference import as_python, compile_with_numba

if TYPE_CHECKING:
    import llvmlite.binding as binding

__all__ = [
    "COMPILATIONS",
    "as_python",
    "assembly",
    "compile_source",
    "compile_with_numba",
    "llvm_ir",
    "target_description",
    "vector_bits",
]


class Counter:
    """How many modules went through LLVM in this process."""

    def __init__(self) -> None:
        self.count = 0


COMPILATIONS = Counter()
_LOCK = threading.RLock()


@lru_cache(maxsize=1)
def _host() -> tuple[str, str]:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@lru_cache(maxsize=1)
def _target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = _host()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default"
    )


def target_description() -> str:
    """The host CPU, its features and LLVM's version: what machine code depends on besides the source."""
    import llvmlite.binding as llvm

    cpu, features = _host()
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return f"llvm {version} {llvm.get_default_triple()} {cpu} {features}"


def vector_bits() -> int:
    """The preferred vector width: 512 where AVX-512 exists (LLVM would choose 256), else LLVM's choice (0)."""
    return 512 if "+avx512f" in _host()[1].split(",") else 0


def _optimize(module: binding.ModuleRef) -> None:
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(_target_machine(), options)
    builder.getModulePassManager().run(module, builder)


def _module(source: str, entry: str, noalias: bool, optimized: bool = True) -> binding.ModuleRef:
    import llvmlite.binding as llvm

    text = lower(source, entry, noalias=noalias, vector_bits=vector_bits())
    machine = _target_machine()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if optimized:
        COMPILATIONS.count += 1
        _optimize(module)
    return module


def compile_source(source: str, entry: str, *, noalias: bool = True) -> bytes:
    """Object code of kernel `entry`: position independent, with the exported symbol `entry`."""
    with _LOCK:
        return bytes(_target_machine().emit_object(_module(source, entry, noalias)))


def assembly(source: str, entry: str, *, noalias: bool = True) -> str:
    """Assembly of the machine code `compile_source` makes."""
    with _LOCK:
        return str(_target_machine().emit_assembly(_module(source, entry, noalias)))


def llvm_ir(source: str, entry: str, optimized: bool = True, *, noalias: bool = True) -> str:
    """LLVM IR of a kernel, after (or before) optimisation."""
    with _LOCK:
        return str(_module(source, entry, noalias, optimized))
