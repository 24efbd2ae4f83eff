"""Quick code generation: for which modules it may be had, and which machine of LLVM's does it.

It is code generation without the code generator's own loop optimisations. A machine of level 0 does that in half the
time that level 2 needs for functions marked ``optnone``, looking at all that it then leaves out. But it keeps what
blocks share in memory, not in registers. How registers are allocated is an option of the process, whose default is the
machine's level: once it is set, machines of level 0 use registers as all others do. Other users of LLVM only have that
where they ask for such machines (``NUMBA_OPT=0``). Decisions 0034, 0085 and 0087 have figures.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracejit.codegen.llvm_threads import Compiler
from tracejit.locks import renewed_lock

if TYPE_CHECKING:
    import llvmlite.binding as binding

__all__ = ["allow_options", "quick_machine"]

#: The latest LLVM whose option is known to do that; what is not known is ignored in silence. It is also the one whose
#: quick code was tried on hosts without AVX-512.
_LATEST = 22

#: A vector of narrow numbers that come from several places, or in another order; one number spread over it is none.
_NARROW = r"<\d+ x (?:i1|i8|i16|half|bfloat)> "
_APART = re.compile(
    rf"= (?:shufflevector {_NARROW}(?!.*<\d+ x i32> zeroinitializer$)"
    rf"|(?:insert|extract)element {_NARROW}.*, i64 [1-9]\d*$)",
    re.MULTILINE,
)


class _Options:
    """Are options of the process allowed by now, and set?"""

    def __init__(self) -> None:
        self.allowed = self.set = False
        self.lock = renewed_lock()


_options = _Options()


def allow_options() -> None:
    """From now on machines of level 0 may use registers: nothing is left that has to be compiled as soon as can be.

    >>> allow_options()
    """
    _options.allowed = True


def quick_machine(made: Compiler, module: binding.ModuleRef, bits: int, text: str = "") -> Any:
    """The machine for quick code of an optimised module, which may be marked for that; None where it has to be careful.

    ``bits`` are those of the host's vectors: 512 with AVX-512, 256 with AVX2 alone. ``text`` is the module's, where its
    passes make no other vectors than those written in there. Functions marked ``optnone`` end
    the process at level 2 of LLVM 22 (a failed assertion) where vectors are taken apart: 16-bit numbers seven steps
    from one another, truth values of narrow rows; with AVX2, many more that have narrow numbers, which is why quick
    code is only that of level 0 there. Decisions 0034, 0087 and 0096 have what was tried.

    >>> from tracejit.codegen.llvm_threads import compiler
    >>> with compiler() as made:
    ...     module = made.parse("define void @f() { ret void }")
    ...     machine = quick_machine(made, module, 512)
    >>> machine is None
    False
    """
    registers = _registers_at_all_levels()
    if bits < 512 and not (registers and _is_tried()):
        return None
    if bits == 512 and _APART.search(text or str(module)) is not None:
        return None
    for function in module.functions:  # instructions stay in the order that they were written in
        if not function.is_declaration:
            function.add_function_attribute("noinline")
            function.add_function_attribute("optnone")
    return made.at_level(0) if registers else made.machine


def _is_tried() -> bool:
    import llvmlite.binding as llvm

    return bool(llvm.llvm_version_info[0] == _LATEST)


def _registers_at_all_levels() -> bool:
    """Do machines of level 0 use registers for what blocks share?"""
    if not _options.allowed:
        return False
    with _options.lock:
        if not _options.set:
            import llvmlite.binding as llvm

            if llvm.llvm_version_info[0] > _LATEST:
                return False
            llvm.set_option("tracejit", "-optimize-regalloc=true")
            _options.set = True
    return True
