"""LLVM assembly of what goes around the steps that call BLAS.

BLAS may have threads of its own, which would fight with the pool. While any step calls BLAS its
threads are set to one; the last to leave restores what it found. The words of the context are
named in `launcher_ir`.
"""

from __future__ import annotations

__all__ = ["BLAS_IR"]

BLAS_IR = """
define internal void @blas_lock(ptr %context) nounwind {
entry:
  %lock.p = getelementptr i64, ptr %context, i64 7
  br label %try
try:
  %was = atomicrmw xchg ptr %lock.p, i64 1 acquire
  %taken = icmp eq i64 %was, 0
  br i1 %taken, label %done, label %wait
wait:
  PAUSE
  br label %try
done:
  ret void
}

; if (set) { lock; if (depth++ == 0) { saved = get(); if (saved != 1) set(1); } unlock; }
define internal void @blas_enter(ptr %context) nounwind noinline {
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
define internal void @blas_leave(ptr %context) nounwind noinline {
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
