"""LLVM assembly of the step that does all rounds of a loop on one tile after the other.

What such steps are for, and where their arguments come from, is said in `tiled_loops`.
"""

from __future__ import annotations

__all__ = ["tiled_loop_text"]

# The words of the argument block: rounds, elements per tile, most arguments of a kernel, kernels. Then for
# each kernel its function, the number of its arguments, and for each of these its value in the first round,
# and what every round and every odd round add.


def tiled_loop_text(triple: str) -> str:
    """The module with `tracejit_tiled_loop`.

    >>> tiled_loop_text("x86_64-unknown-linux-gnu").splitlines()[0]
    'target triple = "x86_64-unknown-linux-gnu"'
    """
    return f'target triple = "{triple}"\n{_TILED_LOOP}'


_TILED_LOOP = """
declare i64 @llvm.smin.i64(i64, i64)

; Elements [lo, hi), in tiles of `size`: all rounds on the first tile, all rounds on the next, ...
;   for (t = lo; t < hi; t += size) { end = min(t + size, hi);
;     for (i = 0; i < rounds; i++) { p = args + 4;
;       for (n = kernels; n; n--) { fn = p[0]; count = p[1]; p += 2;
;         for (k = 0; k < count; k++, p += 3) local[k] = p[0] + i * p[1] + (i & 1) * p[2];
;         if ((code = fn(local, t, end, worker))) return code; } } }
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
  %i = phi i64 [ 0, %tile ], [ %i.next, %round.done ]
  %odd = and i64 %i, 1
  br label %kernel
kernel:
  %p = phi ptr [ %first, %round ], [ %p.next, %ran ]
  %n = phi i64 [ %kernels, %round ], [ %n.next, %ran ]
  %fn = load ptr, ptr %p
  %count.p = getelementptr i64, ptr %p, i64 1
  %count = load i64, ptr %count.p
  %arguments = getelementptr i64, ptr %p, i64 2
  %words = mul i64 %count, 3
  %p.next = getelementptr i64, ptr %arguments, i64 %words
  br label %more
more:
  %k = phi i64 [ 0, %kernel ], [ %k.next, %argument ]
  %k.more = icmp slt i64 %k, %count
  br i1 %k.more, label %argument, label %call
argument:
  %k3 = mul i64 %k, 3
  %value.p = getelementptr i64, ptr %arguments, i64 %k3
  %value = load i64, ptr %value.p
  %each.p = getelementptr i64, ptr %value.p, i64 1
  %each = load i64, ptr %each.p
  %other.p = getelementptr i64, ptr %value.p, i64 2
  %other = load i64, ptr %other.p
  %far = mul i64 %i, %each
  %swap = mul i64 %odd, %other
  %moved = add i64 %value, %far
  %word = add i64 %moved, %swap
  %word.p = getelementptr i64, ptr %local, i64 %k
  store i64 %word, ptr %word.p
  %k.next = add i64 %k, 1
  br label %more
call:
  %code = call i32 %fn(ptr %local, i64 %t, i64 %end, i64 %worker)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %ran, label %failed
ran:
  %n.next = sub i64 %n, 1
  %others = icmp sgt i64 %n.next, 0
  br i1 %others, label %kernel, label %round.done
round.done:
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
