"""LLVM assembly of the launcher: the steps of a program table in order, and BLAS around them.

The words of a table and of the context are named in `native_ir`.
"""

from __future__ import annotations

__all__ = ["BLAS_IR", "RUN_IR"]

RUN_IR = """
; Steps first..last-1 of a table, in order.
;   for (step = first; step < last; step++) {
;     for (k = 0; k < n_args; k++) args[k] = slot < 0 ? value : slots[slot] + value;
;     extent likewise;  if (extent <= 0) continue;
;     if ((extent > grain || flags & 1) && gil && !*gil) *gil = PyEval_SaveThread();
;     if (extent > grain && threads > 1) { if (!pool) return -(step + 1);   -- start it, come back
;                                          code = parallel(...); }
;     else code = fn(args, 0, extent, 0);
;     if (code) return (step + 1) << 32 | code;
;   } return 0;
; `gil` is where the released thread state is kept; null when the caller has no GIL to release.
define internal i64 @run(ptr %table, i64 %first, i64 %last, ptr %slots, ptr %gil) nounwind {
entry:
  %max.p = getelementptr i64, ptr %table, i64 1
  %max = load i64, ptr %max.p
  %context.p = getelementptr i64, ptr %table, i64 2
  %context = load ptr, ptr %context.p
  %threads.p = getelementptr i64, ptr %context, i64 1
  %args = alloca i64, i64 %max, align 16
  %any = icmp slt i64 %first, %last
  br i1 %any, label %step, label %done
step:
  %i = phi i64 [ %first, %entry ], [ %i.next, %next ]
  %i8 = shl i64 %i, 3
  %row.i = add i64 %i8, 4
  %row = getelementptr i64, ptr %table, i64 %row.i
  %fn = load ptr, ptr %row
  %a.p = getelementptr i64, ptr %row, i64 1
  %a = load i64, ptr %a.p
  %n.p = getelementptr i64, ptr %row, i64 2
  %n = load i64, ptr %n.p
  %pairs = getelementptr i64, ptr %table, i64 %a
  %has.args = icmp sgt i64 %n, 0
  br i1 %has.args, label %arg, label %packed
arg:
  %k = phi i64 [ 0, %step ], [ %k.next, %arg.stored ]
  %k2 = shl i64 %k, 1
  %pair = getelementptr i64, ptr %pairs, i64 %k2
  %slot = load i64, ptr %pair
  %value.p = getelementptr i64, ptr %pair, i64 1
  %value = load i64, ptr %value.p
  %fixed = icmp slt i64 %slot, 0
  br i1 %fixed, label %arg.stored, label %arg.slot
arg.slot:
  %slot.p = getelementptr i64, ptr %slots, i64 %slot
  %slot.v = load i64, ptr %slot.p, align 1
  %slot.sum = add i64 %slot.v, %value
  br label %arg.stored
arg.stored:
  %word = phi i64 [ %value, %arg ], [ %slot.sum, %arg.slot ]
  %word.p = getelementptr i64, ptr %args, i64 %k
  store i64 %word, ptr %word.p
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %n
  br i1 %k.more, label %arg, label %packed
packed:
  %e.slot.p = getelementptr i64, ptr %row, i64 3
  %e.slot = load i64, ptr %e.slot.p
  %e.value.p = getelementptr i64, ptr %row, i64 4
  %e.value = load i64, ptr %e.value.p
  %e.fixed = icmp slt i64 %e.slot, 0
  br i1 %e.fixed, label %extent.known, label %extent.slot
extent.slot:
  %e.p = getelementptr i64, ptr %slots, i64 %e.slot
  %e.v = load i64, ptr %e.p, align 1
  %e.sum = add i64 %e.v, %e.value
  br label %extent.known
extent.known:
  %extent = phi i64 [ %e.value, %packed ], [ %e.sum, %extent.slot ]
  %nonempty = icmp sgt i64 %extent, 0
  br i1 %nonempty, label %decide, label %next
decide:
  %grain.p = getelementptr i64, ptr %row, i64 5
  %grain = load i64, ptr %grain.p
  %flags.p = getelementptr i64, ptr %row, i64 6
  %flags = load i64, ptr %flags.p
  %large = icmp sgt i64 %extent, %grain
  %flag.release = trunc i64 %flags to i1
  %long = or i1 %large, %flag.release
  %owns.gil = icmp ne ptr %gil, null
  %could = and i1 %long, %owns.gil
  br i1 %could, label %release, label %where
release:
  %held = load ptr, ptr %gil
  %is.held = icmp eq ptr %held, null
  br i1 %is.held, label %let.go, label %where
let.go:
  %state = call ptr @tracejit_x_PyEval_SaveThread()
  store ptr %state, ptr %gil
  br label %where
where:
  %blas.bit = and i64 %flags, 4
  %blas = icmp ne i64 %blas.bit, 0
  %threads = load atomic i64, ptr %threads.p monotonic, align 8
  %several = icmp sgt i64 %threads, 1
  %spread = and i1 %large, %several
  br i1 %spread, label %pooled, label %serial
serial:
  br i1 %blas, label %serial.blas, label %serial.call
serial.blas:
  call void @blas_enter(ptr %context)
  br label %serial.call
serial.call:
  %code.serial = call i32 %fn(ptr %args, i64 0, i64 %extent, i64 0)
  br label %ran
pooled:
  %pool = load atomic ptr, ptr %context acquire, align 8
  %no.pool = icmp eq ptr %pool, null
  br i1 %no.pool, label %start, label %pooled.begin
start:
  %i.neg = xor i64 %i, -1
  ret i64 %i.neg
pooled.begin:
  br i1 %blas, label %pooled.blas, label %pooled.call
pooled.blas:
  call void @blas_enter(ptr %context)
  br label %pooled.call
pooled.call:
  %coarse.bit = and i64 %flags, 2
  %coarse = icmp ne i64 %coarse.bit, 0
  %code.pooled = call i32 @parallel(ptr %pool, ptr %fn, ptr %args, i64 %extent, i64 %grain,
                                    i1 %coarse)
  br label %ran
ran:
  %code = phi i32 [ %code.serial, %serial.call ], [ %code.pooled, %pooled.call ]
  br i1 %blas, label %ran.blas, label %judge
ran.blas:
  call void @blas_leave(ptr %context)
  br label %judge
judge:
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %next, label %failed
failed:
  %i.one = add i64 %i, 1
  %i.high = shl i64 %i.one, 32
  %code64 = zext i32 %code to i64
  %result = or i64 %i.high, %code64
  ret i64 %result
next:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %last
  br i1 %more, label %step, label %done
done:
  ret i64 0
}

; For ctypes: the caller deals with the GIL and with a negative result (start the pool, go on).
define i64 @tracejit_launch(ptr %table, i64 %first, i64 %last, ptr %slots) nounwind {
entry:
  %result = call i64 @run(ptr %table, i64 %first, i64 %last, ptr %slots, ptr null)
  ret i64 %result
}
"""

# BLAS may have threads of its own, which would fight with the pool. While any step calls BLAS its
# threads are set to one; the last to leave restores what it found.
BLAS_IR = """
define internal void @blas_lock(ptr %context) nounwind {
entry:
  %lock.p = getelementptr i64, ptr %context, i64 7
  br label %try
try:
  PAUSE
  %was = atomicrmw xchg ptr %lock.p, i64 1 acquire
  %taken = icmp eq i64 %was, 0
  br i1 %taken, label %done, label %try
done:
  ret void
}

; if (set) { lock; if (depth++ == 0) { saved = get(); if (saved != 1) set(1); } unlock; }
define internal void @blas_enter(ptr %context) nounwind {
entry:
  %set.p = getelementptr i64, ptr %context, i64 6
  %set = load ptr, ptr %set.p
  %none = icmp eq ptr %set, null
  br i1 %none, label %done, label %locked
locked:
  call void @blas_lock(ptr %context)
  %depth.p = getelementptr i64, ptr %context, i64 8
  %depth = load i64, ptr %depth.p
  %depth.next = add i64 %depth, 1
  store i64 %depth.next, ptr %depth.p
  %outer = icmp eq i64 %depth, 0
  br i1 %outer, label %save, label %unlock
save:
  %get.p = getelementptr i64, ptr %context, i64 5
  %get = load ptr, ptr %get.p
  %saved = call i32 %get()
  %saved64 = sext i32 %saved to i64
  %saved.p = getelementptr i64, ptr %context, i64 9
  store i64 %saved64, ptr %saved.p
  %already = icmp eq i32 %saved, 1
  br i1 %already, label %unlock, label %change
change:
  call void %set(i32 1)
  br label %unlock
unlock:
  %lock.p = getelementptr i64, ptr %context, i64 7
  store atomic i64 0, ptr %lock.p release, align 8
  br label %done
done:
  ret void
}

; if (set) { lock; if (--depth == 0 && saved != 1) set(saved); unlock; }
define internal void @blas_leave(ptr %context) nounwind {
entry:
  %set.p = getelementptr i64, ptr %context, i64 6
  %set = load ptr, ptr %set.p
  %none = icmp eq ptr %set, null
  br i1 %none, label %done, label %locked
locked:
  call void @blas_lock(ptr %context)
  %depth.p = getelementptr i64, ptr %context, i64 8
  %depth = load i64, ptr %depth.p
  %depth.next = sub i64 %depth, 1
  store i64 %depth.next, ptr %depth.p
  %saved.p = getelementptr i64, ptr %context, i64 9
  %saved = load i64, ptr %saved.p
  %outer = icmp eq i64 %depth.next, 0
  %changed = icmp ne i64 %saved, 1
  %restores = and i1 %outer, %changed
  br i1 %restores, label %restore, label %unlock
restore:
  %saved32 = trunc i64 %saved to i32
  call void %set(i32 %saved32)
  br label %unlock
unlock:
  %lock.p = getelementptr i64, ptr %context, i64 7
  store atomic i64 0, ptr %lock.p release, align 8
  br label %done
done:
  ret void
}
"""
