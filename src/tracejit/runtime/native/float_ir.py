"""LLVM assembly that reads and sets how the floating-point unit of a thread treats subnormal numbers.

Subnormal operands and results cost some CPUs a hundred cycles each. Whether they count as zero is a setting of each
thread; a job of the pool runs under that of the thread it is run for.
"""

from __future__ import annotations

__all__ = ["float_ir"]

# Read the setting, change it, and the bits that count subnormal operands and results as zero. On x86 the word also
# notes what went wrong in the past, which is not part of the setting.
_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @float_mode() nounwind {
  %p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  %word = load i32, ptr %p
  %mode = and i32 %word, 65472
  %wide = zext i32 %mode to i64
  ret i64 %wide
}
define internal void @set_float_mode(i64 %mode) nounwind {
  %p = alloca i32
  %word = trunc i64 %mode to i32
  store i32 %word, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret void
}
"""
_ARM = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal i64 @float_mode() nounwind {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}
define internal void @set_float_mode(i64 %mode) nounwind {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""
_OTHER = """
define internal i64 @float_mode() nounwind {
  ret i64 0
}
define internal void @set_float_mode(i64 %mode) nounwind {
  ret void
}
"""
_MODES = {"x86": (_X86, 0x8040), "arm": (_ARM, 1 << 24), "other": (_OTHER, 0)}

_FLUSH = """
; Count subnormal numbers as zero in this thread, or keep them again.
;   mode = float_mode();  set_float_mode(on ? mode | BITS : mode & ~BITS);  return BITS != 0 || !on;
define i64 @tracejit_flush(i64 %on) nounwind {
  %mode = call i64 @float_mode()
  %flushing = or i64 %mode, BITS
  %keeping = xor i64 %flushing, BITS
  %wanted = icmp ne i64 %on, 0
  %next = select i1 %wanted, i64 %flushing, i64 %keeping
  call void @set_float_mode(i64 %next)
  %possible = icmp ne i64 BITS, 0
  %unwanted = xor i1 %wanted, true
  %done = or i1 %possible, %unwanted
  %result = zext i1 %done to i64
  ret i64 %result
}
"""


def float_ir(architecture: str) -> str:
    """The functions for ``"x86"``, ``"arm"`` or any ``"other"`` architecture, where subnormal numbers stay.

    >>> "ldmxcsr" in float_ir("x86"), "ldmxcsr" in float_ir("other")
    (True, False)
    """
    functions, bits = _MODES[architecture]
    return functions + _FLUSH.replace("BITS", str(bits))
