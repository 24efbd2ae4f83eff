"""Quick code generation: for which modules it may be had, and which machine of LLVM's does it.

With AVX-512, code generation skips its own loop optimisations for most kernels. A machine of level 0 does that in half
the time that level 2 needs for functions marked ``optnone``, looking at all that it then leaves out. But it keeps what
blocks share in memory, not in registers. How registers are allocated is an option of the process, whose default is the
machine's level: once it is set, machines of level 0 use registers as all others do. Other users of LLVM only have that
where they ask for such machines (``NUMBA_OPT=0``). Decisions 0034 and 0085 have figures.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracejit.codegen.llvm_threads import Compiler
from tracejit.locks import renewed_lock

if TYPE_CHECKING:
    import llvmlite.binding as binding

__all__ = ["allow_options", "quick_machine"]

#: The latest LLVM whose option is known to do that; what is not known is ignored in silence.
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


def quick_machine(made: Compiler, module: binding.ModuleRef) -> Any:
    """The machine for quick code of an optimised module, which may be marked for that; None where it has to be careful.

    The caller knows that the host has AVX-512. Quick code generation of LLVM 22 ends the process (a failed assertion)
    for many kernels of other hosts, and everywhere for some that take vectors apart: 16-bit numbers seven steps from
    one another, truth values of narrow rows. Decision 0034 has what was tried.

    >>> from tracejit.codegen.llvm_threads import compiler
    >>> with compiler() as made:
    ...     module = made.parse("define void @f() { ret void }")
    ...     machine = quick_machine(made, module)
    >>> machine is None
    False
    """
    if _APART.search(str(module)) is not None:
        return None
    for function in module.functions:  # instructions stay in the order that they were written in
        if not function.is_declaration:
            function.add_function_attribute("noinline")
            function.add_function_attribute("optnone")
    return made.at_level(0) if _registers_at_all_levels() else made.machine


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
