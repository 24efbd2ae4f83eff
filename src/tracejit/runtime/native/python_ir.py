"""LLVM assembly of the launcher as Python built-ins.

A built-in costs a third of a call through ctypes. Each is bound to a table by its `self` (the
table's address as an int) and reports misuse as TypeError or ValueError.
"""

from __future__ import annotations

__all__ = ["PYTHON_IR"]

PYTHON_IR = """
@wrong.count = private constant [38 x i8] c"run() takes (first, last, slots) only\\00", align 1
@wrong.range = private constant [41 x i8] c"steps first..last are not in the program\\00", align 1
@wrong.slots = private constant [45 x i8] c"fewer slot values than the program refers to\\00", align 1

; Run steps, start the pool when asked to, give the GIL back: 1 and *code, or 0 when an exception is set.
define internal i1 @python_launch(ptr %table, i64 %first, i64 %last, ptr %slots, ptr %code) nounwind {
entry:
  %gil = alloca ptr
  br label %again
again:
  %from = phi i64 [ %first, %entry ], [ %step, %resume ]
  store ptr null, ptr %gil
  %result = call i64 @run(ptr %table, i64 %from, i64 %last, ptr %slots, ptr %gil)
  %state = load ptr, ptr %gil
  %held = icmp eq ptr %state, null
  br i1 %held, label %back, label %restore
restore:
  call void @tracejit_x_PyEval_RestoreThread(ptr %state)
  br label %back
back:
  %raised.inside = icmp eq i64 %result, -9223372036854775808
  br i1 %raised.inside, label %fail, label %judge
judge:
  %wants.pool = icmp slt i64 %result, 0
  br i1 %wants.pool, label %start, label %done
start:
  %step = xor i64 %result, -1
  %context.p = getelementptr i64, ptr %table, i64 2
  %context = load ptr, ptr %context.p
  %callable.p = getelementptr i64, ptr %context, i64 2
  %callable = load ptr, ptr %callable.p
  %none = call ptr @tracejit_x_PyObject_CallNoArgs(ptr %callable)
  %raised = icmp eq ptr %none, null
  br i1 %raised, label %fail, label %resume
resume:
  call void @tracejit_x_Py_DecRef(ptr %none)
  br label %again
fail:
  ret i1 0
done:
  store i64 %result, ptr %code
  ret i1 1
}

; The same as a Python object: the result as an int.
define internal ptr @python_run(ptr %table, i64 %first, i64 %last, ptr %slots) nounwind {
entry:
  %code = alloca i64
  %ok = call i1 @python_launch(ptr %table, i64 %first, i64 %last, ptr %slots, ptr %code)
  br i1 %ok, label %done, label %fail
fail:
  ret ptr null
done:
  %result = load i64, ptr %code
  %number = call ptr @tracejit_x_PyLong_FromLongLong(i64 %result)
  ret ptr %number
}

; args[0], args[1] -> *first, *last, checked against the table; 0 when an exception is set.
define internal i1 @python_range(ptr %table, ptr %args, ptr %first, ptr %last) nounwind {
entry:
  %a0 = load ptr, ptr %args
  %from = call i64 @tracejit_x_PyLong_AsLongLong(ptr %a0)
  store i64 %from, ptr %first
  %a1.p = getelementptr ptr, ptr %args, i64 1
  %a1 = load ptr, ptr %a1.p
  %to = call i64 @tracejit_x_PyLong_AsLongLong(ptr %a1)
  store i64 %to, ptr %last
  %steps = load i64, ptr %table
  %from.ok = icmp sge i64 %from, 0
  %to.ok = icmp sle i64 %to, %steps
  %order.ok = icmp sle i64 %from, %to
  %ends.ok = and i1 %from.ok, %to.ok
  %ok = and i1 %ends.ok, %order.ok
  br i1 %ok, label %good, label %bad
good:
  ret i1 1
bad:
  %error = call ptr @tracejit_x_PyErr_Occurred()
  %unset = icmp eq ptr %error, null
  br i1 %unset, label %set, label %out
set:
  call void @raise(ptr %table, i64 4, ptr @wrong.range)
  br label %out
out:
  ret i1 0
}

define internal void @raise(ptr %table, i64 %which, ptr %message) nounwind {
entry:
  %context.p = getelementptr i64, ptr %table, i64 2
  %context = load ptr, ptr %context.p
  %class.p = getelementptr i64, ptr %context, i64 %which
  %class = load ptr, ptr %class.p
  call void @tracejit_x_PyErr_SetString(ptr %class, ptr %message)
  ret void
}

; run(first, last, slots: bytes) -> int
define ptr @tracejit_run_bytes(ptr %self, ptr %args, i64 %n) nounwind {
entry:
  %first = alloca i64
  %last = alloca i64
  %data = alloca ptr
  %size = alloca i64
  %table = call ptr @tracejit_x_PyLong_AsVoidPtr(ptr %self)
  %three = icmp eq i64 %n, 3
  br i1 %three, label %range, label %count
count:
  call void @raise(ptr %table, i64 3, ptr @wrong.count)
  ret ptr null
range:
  %in = call i1 @python_range(ptr %table, ptr %args, ptr %first, ptr %last)
  br i1 %in, label %bytes, label %fail
bytes:
  %a2.p = getelementptr ptr, ptr %args, i64 2
  %a2 = load ptr, ptr %a2.p
  %r = call i32 @tracejit_x_PyBytes_AsStringAndSize(ptr %a2, ptr %data, ptr %size)
  %is.bytes = icmp eq i32 %r, 0
  br i1 %is.bytes, label %measure, label %fail
measure:
  %needed.p = getelementptr i64, ptr %table, i64 3
  %needed = load i64, ptr %needed.p
  %needed8 = shl i64 %needed, 3
  %have = load i64, ptr %size
  %enough = icmp sge i64 %have, %needed8
  br i1 %enough, label %go, label %short
short:
  call void @raise(ptr %table, i64 4, ptr @wrong.slots)
  ret ptr null
go:
  %first.v = load i64, ptr %first
  %last.v = load i64, ptr %last
  %slots = load ptr, ptr %data
  %result = call ptr @python_run(ptr %table, i64 %first.v, i64 %last.v, ptr %slots)
  ret ptr %result
fail:
  ret ptr null
}

; run_slots(first, last, *slots: int) -> int            -- spares the caller the struct.pack
define ptr @tracejit_run_ints(ptr %self, ptr %args, i64 %n) nounwind {
entry:
  %first = alloca i64
  %last = alloca i64
  %table = call ptr @tracejit_x_PyLong_AsVoidPtr(ptr %self)
  %needed.p = getelementptr i64, ptr %table, i64 3
  %needed = load i64, ptr %needed.p
  %given = sub i64 %n, 2
  %enough = icmp sge i64 %given, %needed
  br i1 %enough, label %least, label %short
least:
  %two = icmp sge i64 %n, 2
  br i1 %two, label %range, label %short
short:
  call void @raise(ptr %table, i64 4, ptr @wrong.slots)
  ret ptr null
range:
  %in = call i1 @python_range(ptr %table, ptr %args, ptr %first, ptr %last)
  br i1 %in, label %read, label %fail
read:
  %room = add i64 %given, 1
  %slots = alloca i64, i64 %room, align 16
  br label %loop
loop:
  %i = phi i64 [ 0, %read ], [ %i.next, %store ]
  %more = icmp slt i64 %i, %given
  br i1 %more, label %convert, label %go
convert:
  %i2 = add i64 %i, 2
  %a.p = getelementptr ptr, ptr %args, i64 %i2
  %a = load ptr, ptr %a.p
  %v = call i64 @tracejit_x_PyLong_AsLongLong(ptr %a)
  %suspect = icmp eq i64 %v, -1
  br i1 %suspect, label %ask, label %store
ask:
  %error = call ptr @tracejit_x_PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %fail, label %store
store:
  %v.p = getelementptr i64, ptr %slots, i64 %i
  store i64 %v, ptr %v.p
  %i.next = add i64 %i, 1
  br label %loop
go:
  %first.v = load i64, ptr %first
  %last.v = load i64, ptr %last
  %result = call ptr @python_run(ptr %table, i64 %first.v, i64 %last.v, ptr %slots)
  ret ptr %result
fail:
  ret ptr null
}
"""
