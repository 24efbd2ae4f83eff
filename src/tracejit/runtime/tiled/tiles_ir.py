"""LLVM assembly of the step that runs several kernels and products on one tile after the other.

What such steps are for, and where their arguments come from, is said in `tiles`.
"""

from __future__ import annotations

__all__ = ["PARTS_IR", "tiles_module_text"]

# The words of a part: its function, its range per unit, the number of its arguments, and for each of these a
# value and two factors. The words of the argument block: parts, units per tile, most arguments of a part; then
# the parts, whose factors are bytes per unit (of a worker's own memory) and bytes per worker.


def tiles_module_text(triple: str) -> str:
    """The module with `tracejit_tiles`.

    >>> tiles_module_text("x86_64-unknown-linux-gnu").splitlines()[0]
    'target triple = "x86_64-unknown-linux-gnu"'
    """
    return f'target triple = "{triple}"\n{PARTS_IR}{_TILES}'


PARTS_IR = """
declare i64 @llvm.smin.i64(i64, i64)

; Units [from, to) by every part: the code of the first that refuses, or 0.
;   for (n = parts; n; n--) { fn = p[0]; each = p[1]; count = p[2]; p += 3;
;     for (k = 0; k < count; k++, p += 3) local[k] = p[0] + a * p[1] + b * p[2];
;     if ((code = fn(local, from * each, to * each, worker))) return code; }
define internal i32 @run_parts(ptr %first, i64 %parts, ptr %local, i64 %a, i64 %b, i64 %from, i64 %to,
                               i64 %worker) alwaysinline nounwind {
entry:
  br label %part
part:
  %p = phi ptr [ %first, %entry ], [ %p.next, %ran ]
  %n = phi i64 [ %parts, %entry ], [ %n.next, %ran ]
  %fn = load ptr, ptr %p
  %each.p = getelementptr i64, ptr %p, i64 1
  %each = load i64, ptr %each.p
  %count.p = getelementptr i64, ptr %p, i64 2
  %count = load i64, ptr %count.p
  %arguments = getelementptr i64, ptr %p, i64 3
  %words = mul i64 %count, 3
  %p.next = getelementptr i64, ptr %arguments, i64 %words
  br label %more
more:
  %k = phi i64 [ 0, %part ], [ %k.next, %argument ]
  %k.more = icmp slt i64 %k, %count
  br i1 %k.more, label %argument, label %call
argument:
  %k3 = mul i64 %k, 3
  %value.p = getelementptr i64, ptr %arguments, i64 %k3
  %value = load i64, ptr %value.p
  %one.p = getelementptr i64, ptr %value.p, i64 1
  %one = load i64, ptr %one.p
  %other.p = getelementptr i64, ptr %value.p, i64 2
  %other = load i64, ptr %other.p
  %by.a = mul i64 %a, %one
  %by.b = mul i64 %b, %other
  %moved = add i64 %value, %by.a
  %word = add i64 %moved, %by.b
  %word.p = getelementptr i64, ptr %local, i64 %k
  store i64 %word, ptr %word.p
  %k.next = add i64 %k, 1
  br label %more
call:
  %lo = mul i64 %from, %each
  %hi = mul i64 %to, %each
  %code = call i32 %fn(ptr %local, i64 %lo, i64 %hi, i64 %worker)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %ran, label %done
ran:
  %n.next = sub i64 %n, 1
  %again = icmp sgt i64 %n.next, 0
  br i1 %again, label %part, label %done
done:
  ret i32 %code
}
"""

_TILES = """
; Units [lo, hi), in tiles of `size` units: every part on the first tile, every part on the next, ...
;   for (t = lo; t < hi; t += size)
;     if ((code = run_parts(args + 3, parts, local, -t, worker, t, min(t + size, hi), worker))) return code;
define i32 @tracejit_tiles(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {
entry:
  %parts = load i64, ptr %args
  %size.p = getelementptr i64, ptr %args, i64 1
  %size = load i64, ptr %size.p
  %most.p = getelementptr i64, ptr %args, i64 2
  %most = load i64, ptr %most.p
  %local = alloca i64, i64 %most, align 16
  %first = getelementptr i64, ptr %args, i64 3
  %any = icmp slt i64 %lo, %hi
  br i1 %any, label %tile, label %done
tile:
  %t = phi i64 [ %lo, %entry ], [ %t.next, %ran ]
  %t.next = add i64 %t, %size
  %end = call i64 @llvm.smin.i64(i64 %t.next, i64 %hi)
  %back = sub i64 0, %t
  %code = call i32 @run_parts(ptr %first, i64 %parts, ptr %local, i64 %back, i64 %worker, i64 %t, i64 %end,
                              i64 %worker)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %ran, label %failed
ran:
  %on = icmp slt i64 %t.next, %hi
  br i1 %on, label %tile, label %done
failed:
  ret i32 %code
done:
  ret i32 0
}
"""
