"""LLVM assembly of the launcher's loops: what is asked before the first iteration, and after each.

CLOCK stands for reading a clock into %now, ENOUGH for what it gains in a small part of a second.
"""

from __future__ import annotations

__all__ = ["LOOPS_IR"]

LOOPS_IR = """
; Does one of the n > 0 steps from `rows` on, done `times` times, reach beyond its grain?
;   for (; n; n--, row++) if (extent > 0 && times > grain / extent) return 1;    return 0;
define internal i1 @reaches(ptr %rows, i64 %n, ptr %slots, i64 %times) nounwind noinline {
entry:
  br label %step
step:
  %row = phi ptr [ %rows, %entry ], [ %row.next, %next ]
  %left = phi i64 [ %n, %entry ], [ %left.next, %next ]
  %extent.p = getelementptr i64, ptr %row, i64 3
  %extent = call i64 @resolve(ptr %extent.p, ptr %slots)
  %nonempty = icmp sgt i64 %extent, 0
  br i1 %nonempty, label %measure, label %next
measure:
  %grain.p = getelementptr i64, ptr %row, i64 5
  %grain = load i64, ptr %grain.p
  %within = sdiv i64 %grain, %extent
  %beyond = icmp sgt i64 %times, %within
  br i1 %beyond, label %yes, label %next
yes:
  ret i1 1
next:
  %row.next = getelementptr i64, ptr %row, i64 8
  %left.next = sub i64 %left, 1
  %more = icmp sgt i64 %left.next, 0
  br i1 %more, label %step, label %no
no:
  ret i1 0
}

; Before the first iteration of a loop of n > 0 steps: 1 when the pool must be started first.
;   if (threads > 1 && !pool && reaches(steps, 1)) return 1;
;   if (gil && !*gil && (flags & 1 || times > 1024 / n || reaches(steps, times))) release(gil);
;   return 0;
define internal i1 @enter_loop(ptr %context, ptr %row, i64 %n, ptr %slots, ptr %gil, i64 %times)
    nounwind noinline {
entry:
  %rows = getelementptr i64, ptr %row, i64 8
  %threads.p = getelementptr i64, ptr %context, i64 1
  %threads = load atomic i64, ptr %threads.p monotonic, align 8
  %several = icmp sgt i64 %threads, 1
  %pool = load atomic ptr, ptr %context acquire, align 8
  %no.pool = icmp eq ptr %pool, null
  %might = and i1 %several, %no.pool
  br i1 %might, label %ask, label %gil.mine
ask:
  %wanted = call i1 @reaches(ptr %rows, i64 %n, ptr %slots, i64 1)
  br i1 %wanted, label %start, label %gil.mine
start:
  ret i1 1
gil.mine:
  %none = icmp eq ptr %gil, null
  br i1 %none, label %done, label %gil.held
gil.held:
  %state = load ptr, ptr %gil
  %held = icmp eq ptr %state, null
  br i1 %held, label %judge, label %done
judge:
  %flags.p = getelementptr i64, ptr %row, i64 6
  %flags = load i64, ptr %flags.p
  %flag.release = trunc i64 %flags to i1
  %few = sdiv i64 1024, %n
  %many = icmp sgt i64 %times, %few
  %long = or i1 %flag.release, %many
  br i1 %long, label %let.go, label %measure
measure:
  %far = call i1 @reaches(ptr %rows, i64 %n, ptr %slots, i64 %times)
  br i1 %far, label %let.go, label %done
let.go:
  call void @release(ptr %gil)
  br label %done
done:
  ret i1 0
}

; After iteration i of the loop whose row is `head`: 0 to go on, 1 to end, 2 to go on in an open loop.
;   if (!head[1]) return 0;
;   byte = *(resolve(pair) + i * per_iteration + (i & 1) * alternating);
;   return (byte != 0) == (flags >> 3 & 1) ? 1 : 2;
define internal i32 @ends(ptr %table, ptr %head, ptr %slots, i64 %i) nounwind alwaysinline {
entry:
  %a.p = getelementptr i64, ptr %head, i64 1
  %a = load i64, ptr %a.p
  %fixed = icmp eq i64 %a, 0
  br i1 %fixed, label %on, label %look
on:
  ret i32 0
look:
  %pair = getelementptr i64, ptr %table, i64 %a
  %word = call i64 @resolve(ptr %pair, ptr %slots)
  %each.p = getelementptr i64, ptr %pair, i64 2
  %each = load i64, ptr %each.p
  %other.p = getelementptr i64, ptr %pair, i64 3
  %other = load i64, ptr %other.p
  %odd = and i64 %i, 1
  %far = mul i64 %i, %each
  %swap = mul i64 %odd, %other
  %moved = add i64 %word, %far
  %address = add i64 %moved, %swap
  %byte.p = inttoptr i64 %address to ptr
  %byte = load i8, ptr %byte.p
  %true = icmp ne i8 %byte, 0
  %flags.p = getelementptr i64, ptr %head, i64 6
  %flags = load i64, ptr %flags.p
  %bit = lshr i64 %flags, 3
  %wanted = trunc i64 %bit to i1
  %done = icmp eq i1 %true, %wanted
  %result = select i1 %done, i32 1, i32 2
  ret i32 %result
}

; An open loop may never end: now and then it looks for signals, so that it can be interrupted.
; 1 when an exception is set.
;   if (!gil || clock() - *last < enough) return 0;   *last = clock();
;   if (*gil) PyEval_RestoreThread(*gil);  raised = PyErr_CheckSignals();
;   if (*gil) *gil = PyEval_SaveThread();  return raised != 0;
define internal i1 @interrupted(ptr %gil, ptr %last) nounwind noinline {
entry:
  %none = icmp eq ptr %gil, null
  br i1 %none, label %no, label %time
no:
  ret i1 0
time:
  %before = load i64, ptr %last
  CLOCK
  %passed = sub i64 %now, %before
  %soon = icmp ult i64 %passed, ENOUGH
  br i1 %soon, label %no, label %look
look:
  store i64 %now, ptr %last
  %state = load ptr, ptr %gil
  %mine = icmp eq ptr %state, null
  br i1 %mine, label %ask, label %take
take:
  call void @tracejit_x_PyEval_RestoreThread(ptr %state)
  br label %ask
ask:
  %found = call i32 @tracejit_x_PyErr_CheckSignals()
  br i1 %mine, label %tell, label %let.go
let.go:
  %again = call ptr @tracejit_x_PyEval_SaveThread()
  store ptr %again, ptr %gil
  br label %tell
tell:
  %raised = icmp ne i32 %found, 0
  ret i1 %raised
}
"""
