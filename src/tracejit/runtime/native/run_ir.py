"""LLVM assembly of the launcher: the steps and loops of a program table, in order.

The words of a table and of the context are named in `launcher_ir`. What happens rarely or takes long
anyway is kept out of line (noinline): a short step then finds its numbers in registers.
"""

from __future__ import annotations

__all__ = ["RUN_IR"]

RUN_IR = """
@zero = private constant i64 0

; A word of a program: (slot < 0 ? 0 : slots[slot]) + value, both at `pair`. Without a branch: which
; words are constants changes from one to the next.
define internal i64 @resolve(ptr %pair, ptr %slots) nounwind alwaysinline {
entry:
  %slot = load i64, ptr %pair
  %value.p = getelementptr i64, ptr %pair, i64 1
  %value = load i64, ptr %value.p
  %fixed = icmp slt i64 %slot, 0
  %slot.p = getelementptr i64, ptr %slots, i64 %slot
  %word.p = select i1 %fixed, ptr @zero, ptr %slot.p
  %word = load i64, ptr %word.p, align 1
  %result = add i64 %word, %value
  ret i64 %result
}

; The arguments of the step at `row`, as they are in iteration i.
;   for (k = 0; k < n_args; k++) args[k] = resolve(pairs[k]);
;   if (increments) for (k = 0; k < n_args; k++)
;     args[k] += i * increments[k].per_iteration + (i & 1) * increments[k].alternating;
define internal void @pack(ptr %table, ptr %row, ptr %slots, ptr %args, i64 %i) nounwind
    alwaysinline {
entry:
  %a.p = getelementptr i64, ptr %row, i64 1
  %a = load i64, ptr %a.p
  %n.p = getelementptr i64, ptr %row, i64 2
  %n = load i64, ptr %n.p
  %pairs = getelementptr i64, ptr %table, i64 %a
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %arg, label %done
arg:
  %k = phi i64 [ 0, %entry ], [ %k.next, %arg ]
  %k2 = shl i64 %k, 1
  %pair = getelementptr i64, ptr %pairs, i64 %k2
  %word = call i64 @resolve(ptr %pair, ptr %slots)
  %word.p = getelementptr i64, ptr %args, i64 %k
  store i64 %word, ptr %word.p
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %n
  br i1 %k.more, label %arg, label %packed
packed:
  %b.p = getelementptr i64, ptr %row, i64 7
  %b = load i64, ptr %b.p
  %plain = icmp eq i64 %b, 0
  br i1 %plain, label %done, label %move
move:
  %increments = getelementptr i64, ptr %table, i64 %b
  %odd = and i64 %i, 1
  %odd.mask = sub i64 0, %odd
  br label %moved
moved:
  %m = phi i64 [ 0, %move ], [ %m.next, %moved ]
  %m2 = shl i64 %m, 1
  %each.p = getelementptr i64, ptr %increments, i64 %m2
  %each = load i64, ptr %each.p
  %other.p = getelementptr i64, ptr %each.p, i64 1
  %other = load i64, ptr %other.p
  %far = mul i64 %i, %each
  %swap = and i64 %odd.mask, %other
  %shift = add i64 %far, %swap
  %at.p = getelementptr i64, ptr %args, i64 %m
  %at = load i64, ptr %at.p
  %at.new = add i64 %at, %shift
  store i64 %at.new, ptr %at.p
  %m.next = add i64 %m, 1
  %m.more = icmp slt i64 %m.next, %n
  br i1 %m.more, label %moved, label %done, !llvm.loop !0
done:
  ret void
}

; if (gil && !*gil) *gil = PyEval_SaveThread();
define internal void @release(ptr %gil) nounwind noinline {
entry:
  %none = icmp eq ptr %gil, null
  br i1 %none, label %done, label %look
look:
  %held = load ptr, ptr %gil
  %is.held = icmp eq ptr %held, null
  br i1 %is.held, label %let.go, label %done
let.go:
  %state = call ptr @tracejit_x_PyEval_SaveThread()
  store ptr %state, ptr %gil
  br label %done
done:
  ret void
}

; One step, in iteration i: the kernel's code, or -1 when the pool must be started first. A loop is
; not left for that (the pool may have gone since it began): the step then runs on this thread.
;   pack(...);  extent = resolve(...);  if (extent <= 0) return 0;
;   if (extent > grain || flags & 1) release(gil);
;   if (extent > grain && threads > 1 && (pool || !looping)) { if (!pool) return -1;
;                                                              code = parallel(..., flags >> 8); }
;   else code = fn(args, 0, extent, 0);
;   return code;                                           -- as an unsigned number
define internal i64 @step(ptr %table, ptr %context, ptr %row, ptr %slots, ptr %gil, ptr %args,
                          i64 %i, i1 %looping) nounwind alwaysinline {
entry:
  call void @pack(ptr %table, ptr %row, ptr %slots, ptr %args, i64 %i)
  %extent.p = getelementptr i64, ptr %row, i64 3
  %extent = call i64 @resolve(ptr %extent.p, ptr %slots)
  %nonempty = icmp sgt i64 %extent, 0
  br i1 %nonempty, label %decide, label %skip
skip:
  ret i64 0
decide:
  %fn = load ptr, ptr %row
  %grain.p = getelementptr i64, ptr %row, i64 5
  %grain = load i64, ptr %grain.p
  %flags.p = getelementptr i64, ptr %row, i64 6
  %flags = load i64, ptr %flags.p
  %blas.bit = and i64 %flags, 4
  %blas = icmp ne i64 %blas.bit, 0
  %large = icmp sgt i64 %extent, %grain
  %flag.release = trunc i64 %flags to i1
  %long = or i1 %large, %flag.release
  br i1 %long, label %let.go, label %where
let.go:
  call void @release(ptr %gil)
  br label %where
where:
  %threads.p = getelementptr i64, ptr %context, i64 1
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
  br i1 %no.pool, label %alone, label %pooled.begin
alone:
  br i1 %looping, label %serial, label %start
start:
  ret i64 -1
pooled.begin:
  br i1 %blas, label %pooled.blas, label %pooled.call
pooled.blas:
  call void @blas_enter(ptr %context)
  br label %pooled.call
pooled.call:
  %coarse.bit = and i64 %flags, 2
  %coarse = icmp ne i64 %coarse.bit, 0
  %most = lshr i64 %flags, 8
  %code.pooled = call i32 @parallel(ptr %pool, ptr %fn, ptr %args, i64 %extent, i64 %grain,
                                    i1 %coarse, i64 %most) noinline
  br label %ran
ran:
  %code = phi i32 [ %code.serial, %serial.call ], [ %code.pooled, %pooled.call ]
  br i1 %blas, label %ran.blas, label %judge
ran.blas:
  call void @blas_leave(ptr %context)
  br label %judge
judge:
  %code64 = zext i32 %code to i64
  ret i64 %code64
}

; Rows first..last-1 of a table, in order.
;   for (row = first, back = -1; row < last; row++) {   -- back: the last row of the loop we are in
;     if (!fn) {                                           -- a loop's header
;       times = resolve(...);
;       if (times <= 0 || n <= 0) row += n;
;       else { if (enter_loop(...)) return -(row + 1);       -- start the pool, come back
;              begin = row + 1;  back = row + n;  i = 0; }
;     } else {
;       code = step(row, i, back >= 0);
;       if (code < 0) return -(row + 1);                  -- likewise; never inside a loop
;       if (code) return (row + 1) << 32 | code;
;       if (row == back) {
;         end = ends(header, i);  i++;
;         if (end != 1 && i < times) {
;           if (end == 2 && interrupted(gil, &clock)) return INT64_MIN;   -- an exception is set
;           row = begin - 1;
;         } else back = -1;                               -- what comes after finds i as it is
;       }
;   } } return 0;
; `gil` is where the released thread state is kept; null when the caller has no GIL to release.
define internal i64 @run(ptr %table, i64 %first, i64 %last, ptr %slots, ptr %gil) nounwind {
entry:
  %max.p = getelementptr i64, ptr %table, i64 1
  %max = load i64, ptr %max.p
  %context.p = getelementptr i64, ptr %table, i64 2
  %context = load ptr, ptr %context.p
  %rows = getelementptr i64, ptr %table, i64 4
  %args = alloca i64, i64 %max, align 16
  %clock = alloca i64
  store i64 0, ptr %clock
  %any = icmp slt i64 %first, %last
  br i1 %any, label %item, label %done
item:
  %s = phi i64 [ %first, %entry ], [ %s.next, %next ]
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %begin = phi i64 [ 0, %entry ], [ %begin.next, %next ]
  %back = phi i64 [ -1, %entry ], [ %back.next, %next ]
  %times = phi i64 [ 0, %entry ], [ %times.next, %next ]
  %s8 = shl i64 %s, 3
  %row = getelementptr i64, ptr %rows, i64 %s8
  %after = add i64 %s, 1
  %fn = load ptr, ptr %row
  %is.loop = icmp eq ptr %fn, null
  br i1 %is.loop, label %loop, label %step
loop:
  %n.p = getelementptr i64, ptr %row, i64 2
  %n = load i64, ptr %n.p
  %loop.back = add i64 %s, %n
  %loop.after = add i64 %loop.back, 1
  %count.p = getelementptr i64, ptr %row, i64 3
  %count = call i64 @resolve(ptr %count.p, ptr %slots)
  %no.count = icmp sle i64 %count, 0
  %no.steps = icmp sle i64 %n, 0
  %empty = or i1 %no.count, %no.steps
  br i1 %empty, label %next, label %loop.enter
loop.enter:
  %wants.pool = call i1 @enter_loop(ptr %context, ptr %row, i64 %n, ptr %slots, ptr %gil,
                                    i64 %count)
  br i1 %wants.pool, label %start, label %next
step:
  %looping = icmp sge i64 %back, 0
  %code = call i64 @step(ptr %table, ptr %context, ptr %row, ptr %slots, ptr %gil, ptr %args,
                         i64 %i, i1 %looping)
  %ok = icmp eq i64 %code, 0
  br i1 %ok, label %ran, label %stop
ran:
  %turns = icmp eq i64 %s, %back
  br i1 %turns, label %turn, label %next
turn:
  %i.up = add i64 %i, 1
  %head = sub i64 %begin, 1
  %head8 = shl i64 %head, 3
  %head.row = getelementptr i64, ptr %rows, i64 %head8
  %end = call i32 @ends(ptr %table, ptr %head.row, ptr %slots, i64 %i)
  %ended = icmp eq i32 %end, 1
  br i1 %ended, label %left, label %count.up
count.up:
  %again = icmp slt i64 %i.up, %times
  br i1 %again, label %onward, label %left
onward:
  %is.open = icmp eq i32 %end, 2
  br i1 %is.open, label %watch, label %back.up
watch:
  %raised = call i1 @interrupted(ptr %gil, ptr %clock)
  br i1 %raised, label %broken, label %back.up
broken:
  ret i64 -9223372036854775808
back.up:
  br label %next
left:
  br label %next
next:
  %s.next = phi i64 [ %loop.after, %loop ], [ %after, %loop.enter ], [ %after, %ran ],
                    [ %begin, %back.up ], [ %after, %left ]
  %i.next = phi i64 [ 0, %loop ], [ 0, %loop.enter ], [ %i, %ran ], [ %i.up, %back.up ],
                    [ %i.up, %left ]
  %begin.next = phi i64 [ 0, %loop ], [ %after, %loop.enter ], [ %begin, %ran ],
                        [ %begin, %back.up ], [ 0, %left ]
  %back.next = phi i64 [ -1, %loop ], [ %loop.back, %loop.enter ], [ %back, %ran ],
                       [ %back, %back.up ], [ -1, %left ]
  %times.next = phi i64 [ 0, %loop ], [ %count, %loop.enter ], [ %times, %ran ],
                        [ %times, %back.up ], [ 0, %left ]
  %more = icmp slt i64 %s.next, %last
  br i1 %more, label %item, label %done
stop:
  %must.start = icmp slt i64 %code, 0
  br i1 %must.start, label %start, label %failed
start:
  %s.neg = xor i64 %s, -1
  ret i64 %s.neg
failed:
  %s.high = shl i64 %after, 32
  %result = or i64 %s.high, %code
  ret i64 %result
done:
  ret i64 0
}

; A step has a handful of arguments: vector code for them would only cost.
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.vectorize.enable", i1 false}

; For ctypes: the caller deals with the GIL and with a negative result (start the pool, go on).
define i64 @tracejit_launch(ptr %table, i64 %first, i64 %last, ptr %slots) nounwind {
entry:
  %result = call i64 @run(ptr %table, i64 %first, i64 %last, ptr %slots, ptr null)
  ret i64 %result
}
"""
