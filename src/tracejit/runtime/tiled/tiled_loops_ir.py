"""LLVM assembly of the step that does all rounds of a loop on one tile after the other.

What such steps are for, and where their arguments come from, is said in `tiled_loops`.
"""

from __future__ import annotations

from .tiles_ir import PARTS_IR

__all__ = ["tiled_loop_text"]

# The words of the argument block: rounds, elements per tile, most arguments of a kernel, kernels; then the
# kernels as parts of a tile (`tiles_ir`), whose factors are what every round and every odd round add.


def tiled_loop_text(triple: str) -> str:
    """The module with `tracejit_tiled_loop`.

    >>> tiled_loop_text("x86_64-unknown-linux-gnu").splitlines()[0]
    'target triple = "x86_64-unknown-linux-gnu"'
    """
    return f'target triple = "{triple}"\n{PARTS_IR}{_TILED_LOOP}'


_TILED_LOOP = """
; Elements [lo, hi), in tiles of `size`: all rounds on the first tile, all rounds on the next, ...
;   for (t = lo; t < hi; t += size)
;     for (i = 0; i < rounds; i++)
;       if ((code = run_parts(args + 4, kernels, local, i, i & 1, t, min(t + size, hi), worker))) return code;
define i32 @tracejit_tiled_loop(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {
entry:
  %rounds = load i64, ptr %args
  %size.p = getelementptr i64, ptr %args, i64 1
  %size = load i64, ptr %size.p
  %most.p = getelementptr i64, ptr %args, i64 2
  %most = load i64, ptr %most.p
  %kernels.p = getelementptr i64, ptr %args, i64 3
  %kernels = load i64, ptr %kernels.p
  %first = getelementptr i64, ptr %args, i64 4
  %local = alloca i64, i64 %most, align 16
  %some = icmp slt i64 %lo, %hi
  %any = icmp sgt i64 %rounds, 0
  %work = and i1 %some, %any
  br i1 %work, label %tile, label %done
tile:
  %t = phi i64 [ %lo, %entry ], [ %t.next, %tile.done ]
  %t.next = add i64 %t, %size
  %end = call i64 @llvm.smin.i64(i64 %t.next, i64 %hi)
  br label %round
round:
  %i = phi i64 [ 0, %tile ], [ %i.next, %ran ]
  %odd = and i64 %i, 1
  %code = call i32 @run_parts(ptr %first, i64 %kernels, ptr %local, i64 %i, i64 %odd, i64 %t, i64 %end,
                              i64 %worker)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %ran, label %failed
ran:
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %rounds
  br i1 %again, label %round, label %tile.done
tile.done:
  %on = icmp slt i64 %t.next, %hi
  br i1 %on, label %tile, label %done
failed:
  ret i32 %code
done:
  ret i32 0
}
"""
