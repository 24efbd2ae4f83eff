"""Kernel text to optimised machine code for this host, through LLVM.

Kernels whose loops the lowering printed as vector code get the few passes that such code needs. All others get one
pipeline, chosen by measurement: level 2 with the loop vectoriser and without the SLP vectoriser, which costs a fifth
of the optimisation time and has nothing to find in loops. With AVX-512, code generation is quick for most kernels
(`quick`): it skips the code generator's own loop optimisations, which takes half its time or less and costs 0-10 % of
speed. Short kernels that evaluate elementary functions only begin with it (`prepared`), because polynomials whose
coefficients stay in registers gain 3-30 % there, and so do long ones, which gain up to 20 %: those go without the
search for equal computations at first, a third of LLVM's time. Kernels that take vectors of narrow numbers
apart are careful at once, and so is everything under `thorough=True`. With AVX2 alone, whose 16 registers careful code
makes more of, nothing stays with quick code. A user's own Numba code compiles as
before: the vector width is an attribute of our functions, and what is set for all of the process concerns machines of
level 0.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tracejit.codegen.identity import code_version, host, target_description
from tracejit.codegen.llvm_threads import (
    Compiler,
    compiler,
    emit_object,
    run_passes,
)
from tracejit.codegen.lone_lanes import may_store_lone_lanes, store_lone_lanes_alone
from tracejit.codegen.lower.lower import LoweredKernel, lower_kernel
from tracejit.codegen.lower.reference import as_python, compile_with_numba
from tracejit.codegen.lower.widen import transparent
from tracejit.codegen.quick import quick_machine
from tracejit.codegen.replaceable import made_replaceable, packed
from tracejit.locks import awaited_rlock, renewed_lock

if TYPE_CHECKING:
    import llvmlite.binding as binding

__all__ = [
    "COMPILATIONS",
    "Compilations",
    "as_python",
    "assembly",
    "assembly_of",
    "code_version",
    "compile_source",
    "compile_text",
    "compile_with_numba",
    "llvm_ir",
    "object_code",
    "prepared",
    "rehearse",
    "target_description",
    "vector_bits",
    "vector_code",
]


class Compilations:
    """How many modules LLVM has optimised in this process: zero in a process served by a warm store."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = renewed_lock()

    def add(self) -> None:
        """One more."""
        with self._lock:
            self.count += 1


COMPILATIONS = Compilations()
#: A bit of what kernels are made of: rows, a sum of each, elementary functions.
_REHEARSED = """
def rehearsed(
    n: "i64", scale: "f64", x: "f32*", kept: "f32*", out: "f32*", lo: "i64", hi: "i64", worker: "i64"
) -> "i32":
    for row in range(lo, hi):
        v1 = kept[row]
        total = float32(0)
        for i in range(n):
            v2 = exp_f32((x[row * n + i] - v1) * float32(scale))
            out[row * n + i] = v2
            total += v2
        kept[row] = float32(1.0) / sqrt_f32(total)
    return 0
"""
_lock = awaited_rlock(3)


def compiler_lock() -> Any:
    """The lock under which this process uses LLVM's shared context, which is not for several threads."""
    return _lock


def vector_bits() -> int:
    """The preferred vector width: 512 where AVX-512 exists (LLVM would choose 256), else LLVM's choice (0).

    >>> vector_bits() in (0, 512)
    True
    """
    return 512 if "+avx512f" in host()[1].split(",") else 0


@lru_cache(maxsize=1)
def _lacking() -> tuple[str, ...]:
    """The instructions for which this host, or its LLVM, needs the lowering's substitutes."""
    import llvmlite.binding as llvm

    features = host()[1].split(",")
    fused = "+fma" in features or platform.machine() in ("aarch64", "arm64")
    # Before LLVM 22 powers of two are scaled by a call of the C library's, number by number.
    scales = "+avx512f" in features and llvm.llvm_version_info[0] >= 22
    return (() if fused else ("fma.f32",)) + (() if scales else ("ldexp.f32.i32", "ldexp.f64.i32"))


def _lower(source: str, entry: str, noalias: bool, widening: int) -> LoweredKernel:
    return lower_kernel(
        source,
        entry,
        noalias=noalias,
        vector_bits=vector_bits(),
        lacking=_lacking(),
        widen=widening,
    )


def _widening() -> int:
    """The bits of the vectors that loops are printed for, 0 where LLVM shall choose."""
    features = host()[1].split(",")
    return 512 if "+avx512bw" in features else 256 if "+avx2" in features else 0


def _finish(module: binding.ModuleRef, machine: Any, written_out: bool = False) -> None:
    """What vector code needs: functions inline, slots as values; what is equal is one unless it is `written_out`."""
    import llvmlite.binding as llvm

    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    if not written_out:
        passes.add_new_gvn_pass()
        passes.add_instruction_combine_pass()
    run_passes(passes, module, builder)


def _optimize(module: binding.ModuleRef, machine: Any) -> None:
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    run_passes(builder.getModulePassManager(), module, builder)


def _module(
    source: str, entry: str, noalias: bool, thorough: bool, made: Compiler
) -> tuple[Any, binding.ModuleRef]:
    """The machine that makes its code, which is quick unless that is to be thorough, and the optimised module."""
    lowered = _lower(source, entry, noalias, _widening())
    module = _optimized(lowered.widened, lowered.text, made)
    return _machine(made, module, not thorough and _good_enough(lowered))[0], module


def _good_enough(lowered: LoweredKernel) -> bool:
    """Is quick code of a kernel to stay?"""
    replaced = lowered.short_mathematics or (lowered.widened and lowered.is_long)
    return _widening() == 512 and not replaced


def _good_at_first(lowered: LoweredKernel) -> bool:
    """Is a kernel to have quick code until careful code is there?"""
    return lowered.widened and _widening() > 0 and not _good_enough(lowered)


def _optimized(
    widened: bool, text: str, made: Compiler, written_out: bool = False
) -> binding.ModuleRef:
    module = made.parse(text)
    if widened:
        _finish(module, made.machine, written_out)
    else:
        _optimize(module, made.machine)
    COMPILATIONS.add()
    if widened and not may_store_lone_lanes(text):
        return module
    return store_lone_lanes_alone(module, made)


def _machine(
    made: Compiler, module: binding.ModuleRef, quick: bool, text: str = ""
) -> tuple[Any, bool]:
    """The machine that makes code of an optimised module, and whether that is quick, as it is wanted to be."""
    bits = _widening()
    machine = quick_machine(made, module, bits, text) if quick and bits else None
    return machine or made.machine, machine is not None


def object_code(module_text: str) -> bytes:
    """Optimised object code of any LLVM module given as text.

    >>> len(object_code("define i32 @one() { ret i32 1 }")) > 0
    True
    """
    with compiler() as made:
        return emit_object(made.machine, _optimized(False, module_text, made))


def vector_code(module_text: str) -> bytes:
    """Object code of an LLVM module whose loops are written out as vector code: in a third of the time.

    >>> len(vector_code("define i32 @one() { ret i32 1 }")) > 0
    True
    """
    with compiler() as made:
        return emit_object(*_vectors(module_text, made))


def _vectors(text: str, made: Compiler) -> tuple[Any, binding.ModuleRef]:
    module = _optimized(True, text, made, written_out=True)
    return _machine(made, module, _widening() == 512)[0], module


def compile_source(
    source: str, entry: str, *, noalias: bool = True, thorough: bool = False
) -> bytes:
    """Object code of kernel `entry` of `source`, exporting the symbol `entry` with the entry ABI.

    The code is position independent and needs nothing but what every process has (memset, memcpy, fmod, fma).
    `noalias` promises that pointer parameters do not overlap; `thorough` doubles the time of code generation for
    0-10 % of speed (short kernels of elementary functions gain more, and always get it). Raises `LoweringError` for
    text outside the kernel language.

    >>> code = compile_source('''
    ... def fill(out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = float32(1.5)
    ...     return 0
    ... ''', "fill")
    >>> isinstance(code, bytes)
    True
    """
    with compiler() as made:
        return emit_object(*_module(source, entry, noalias, thorough, made))


def prepared(source: str, entry: str, *, thorough: bool = False) -> Callable[[], bytes]:
    """A function that makes object code of kernel `entry`: what is left to do without Python's lock, in any thread.

    The code is what `compile_source` makes, or comes sooner where calls can be led to that later (unless `thorough`).
    That is so for kernels whose loops are vector code: with AVX-512 for short ones of elementary functions, which are
    3 to 15 % slower without the code generator's loop optimisations, and for long ones, which LLVM works on for
    longest; with AVX2 alone for all of them, up to 25 % slower. Calls of such a function go through a cell, and it
    comes with what `compile_text` makes careful code of (`tracejit.codegen.replaceable.unpacked`). Raises
    `LoweringError` for text outside the kernel language.

    >>> from tracejit.codegen.quick import allow_options
    >>> from tracejit.codegen.replaceable import unpacked
    >>> allow_options()
    >>> code = prepared('''
    ... def exponential(x: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         x[i] = exp_f32(x[i])
    ...     return 0
    ... ''', "exponential")()
    >>> (unpacked(code) is None) == (_widening() < 256)
    True
    """
    lowered = _lower(source, entry, True, _widening())
    first = not thorough and _good_at_first(lowered)
    quick = first or (not thorough and _good_enough(lowered))
    brief = first and lowered.is_long
    text = transparent(lowered.text) if brief else lowered.text
    text = made_replaceable(text, entry) if first else text

    def compile_now() -> bytes:
        with compiler() as made:
            module = _optimized(lowered.widened, text, made, written_out=brief)
            machine, hastened = _machine(made, module, quick, text if brief else "")
            if brief and not hastened:  # it is to stay
                module = _optimized(True, lowered.text, made)
            code = emit_object(machine, module)
            return packed(code, lowered.text) if first and hastened else code

    return compile_now


def compile_text(text: str) -> bytes:
    """Careful object code of a lowered kernel whose loops are vector code.

    >>> len(compile_text("define i32 @one() { ret i32 1 }")) > 0
    True
    """
    with compiler() as made:
        return emit_object(made.machine, _optimized(True, text, made))


def assembly_of(module_text: str) -> str:
    """Assembly of the machine code that `vector_code` makes.

    >>> "ret" in assembly_of("define i32 @one() { ret i32 1 }")
    True
    """
    with compiler() as made:
        machine, module = _vectors(module_text, made)
        return str(machine.emit_assembly(module))


def rehearse(threads: int = 2) -> None:
    """Go through a compilation for nothing with what so many threads need: the first ones take 5 to 30 ms longer.

    >>> rehearse(1)
    """
    text = _lower(_REHEARSED, "rehearsed", True, _widening()).text
    with ExitStack() as stack:
        for made in [stack.enter_context(compiler()) for _ in range(threads)]:
            module = made.parse(text)
            _finish(module, made.machine)
            machine, _ = _machine(made, module, True)
            emit_object(machine, module)


def assembly(source: str, entry: str, *, noalias: bool = True, thorough: bool = False) -> str:
    """Assembly of the machine code that `compile_source` makes.

    >>> text = '''
    ... def double(x: "f32*", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = x[i] + x[i]
    ...     return 0
    ... '''
    >>> "double" in assembly(text, "double")
    True
    """
    with compiler() as made:
        machine, module = _module(source, entry, noalias, thorough, made)
        return str(machine.emit_assembly(module))


def llvm_ir(source: str, entry: str, optimized: bool = True, *, noalias: bool = True) -> str:
    """LLVM IR of a kernel, after (or before) optimisation and before its loops become vector code.

    >>> text = '''
    ... def double(x: "f32*", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = x[i] + x[i]
    ...     return 0
    ... '''
    >>> "fadd float" in llvm_ir(text, "double", optimized=False)
    True
    """
    if not optimized:
        return _lower(source, entry, noalias, widening=0).text
    with compiler() as made:
        return str(_module(source, entry, noalias, thorough=True, made=made)[1])
