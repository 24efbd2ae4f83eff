"""A function that code of LLVM may call, and that a process need not have: a double rounded to half precision.

No kernel asks for it. But where the sign of a number that is rounded to single and then to half precision is all that
is wanted, LLVM rounds at once, and few processors have an instruction for that. Newer C compilers bring the function
along, in a library that is linked statically.
"""

from __future__ import annotations

from tracejit.runtime.assembled import assembled, process_triple
from tracejit.runtime.machine_code.loader import load_object

__all__ = ["missing_function"]

_NAME = "__truncdfhf2"
#: To single precision first, with the last bit set where that was not exact: so the second rounding is that of the
#: whole number (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding
#: to odd", IEEE Transactions on Computers 57, 2008).
_TEXT = """
declare double @llvm.fabs.f64(double)

define half @__truncdfhf2(double %x) #0 {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %exact = fcmp ueq double %back, %x
  %size = call double @llvm.fabs.f64(double %x)
  %found = call double @llvm.fabs.f64(double %back)
  %beyond = fcmp ogt double %found, %size
  %step = sext i1 %beyond to i32
  %bits = bitcast float %near to i32
  %inside = add i32 %bits, %step
  %odd = or i32 %inside, 1
  %kept = select i1 %exact, i32 %bits, i32 %odd
  %single = bitcast i32 %kept to float
  %half = fptrunc float %single to half
  ret half %half
}

define void @halves(ptr %from, ptr %to, i64 %count) #0 {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %end
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %there = getelementptr double, ptr %from, i64 %i
  %x = load double, ptr %there
  %half = call half @__truncdfhf2(double %x)
  %here = getelementptr half, ptr %to, i64 %i
  store half %half, ptr %here
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}

attributes #0 = { nounwind "target-features"="+avx,+f16c" }
"""


def missing_function(name: str) -> int:
    """The address of a function that code of LLVM may call; 0 for those that are not made here.

    ``halves(from, to, count)`` does to many numbers what the function does to one.

    >>> missing_function("nobody_knows_this")
    0
    """
    return load_object(_code(), name) if name in (_NAME, "halves") else 0


def _code() -> bytes:
    triple = process_triple()
    return assembled(f'target triple = "{triple}"\n{_TEXT}', triple)
