"""LLVM assembly of ``CompiledFunction.__call__``: take the first route that fits and holds, else ask Python."""

from __future__ import annotations

__all__ = ["CALL_IR"]

CALL_IR = """
; Call a Python function of the context with `lead` objects before the arguments of the call.
define internal ptr @hand_over(i64 %function, ptr %lead, i64 %leading, ptr %args, i64 %n, i64 %total,
                               ptr %names) nounwind noinline {
entry:
  %all = add i64 %leading, %total
  %buffer = alloca ptr, i64 %all, align 16
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.up, %head.one ]
  %i.more = icmp slt i64 %i, %leading
  br i1 %i.more, label %head.one, label %tail
head.one:
  %from = getelementptr ptr, ptr %lead, i64 %i
  %object = load ptr, ptr %from
  %to = getelementptr ptr, ptr %buffer, i64 %i
  store ptr %object, ptr %to
  %i.up = add i64 %i, 1
  br label %head
tail:
  %j = phi i64 [ 0, %head ], [ %j.up, %tail.one ]
  %j.more = icmp slt i64 %j, %total
  br i1 %j.more, label %tail.one, label %call
tail.one:
  %arg.p = getelementptr ptr, ptr %args, i64 %j
  %arg = load ptr, ptr %arg.p
  %at = add i64 %leading, %j
  %arg.to = getelementptr ptr, ptr %buffer, i64 %at
  store ptr %arg, ptr %arg.to
  %j.up = add i64 %j, 1
  br label %tail
call:
  %positional = add i64 %leading, %n
  %callable = call ptr @object(i64 %function)
  %result = call ptr @tracejit_x_PyObject_Vectorcall(ptr %callable, ptr %buffer, i64 %positional,
                                                     ptr %names)
  ret ptr %result
}

; The exception that is set, taken away, with its traceback; null when there is none.
define internal ptr @caught() nounwind noinline {
entry:
  %type.p = alloca ptr
  %value.p = alloca ptr
  %trace.p = alloca ptr
  call void @tracejit_x_PyErr_Fetch(ptr %type.p, ptr %value.p, ptr %trace.p)
  call void @tracejit_x_PyErr_NormalizeException(ptr %type.p, ptr %value.p, ptr %trace.p)
  %type = load ptr, ptr %type.p
  %value = load ptr, ptr %value.p
  %trace = load ptr, ptr %trace.p
  %traced = icmp ne ptr %trace, null
  br i1 %traced, label %attach, label %type.drop
attach:
  %r = call i32 @tracejit_x_PyException_SetTraceback(ptr %value, ptr %trace)
  call void @tracejit_x_Py_DecRef(ptr %trace)
  br label %type.drop
type.drop:
  %typed = icmp ne ptr %type, null
  br i1 %typed, label %drop, label %done
drop:
  call void @tracejit_x_Py_DecRef(ptr %type)
  br label %done
done:
  ret ptr %value
}

; The found objects as a list; null with an exception set.
define internal ptr @listed(ptr %found, i64 %n) nounwind {
entry:
  %list = call ptr @tracejit_x_PyList_New(i64 %n)
  %failed = icmp eq ptr %list, null
  br i1 %failed, label %done, label %begin
begin:
  %items.p = getelementptr i8, ptr %list, i64 24
  %items = load ptr, ptr %items.p
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.up, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %from = getelementptr ptr, ptr %found, i64 %i
  %tensor = load ptr, ptr %from
  call void @tracejit_x_Py_IncRef(ptr %tensor)
  %to = getelementptr ptr, ptr %items, i64 %i
  store ptr %tensor, ptr %to
  %i.up = add i64 %i, 1
  br label %next
done:
  ret ptr %list
}

; Does a function say True? An error in asking is for Python to meet again: no.
define internal i1 @says_yes(ptr %function, ptr %argument) nounwind {
entry:
  %none = call ptr @object(i64 $none)
  %absent = icmp eq ptr %function, %none
  br i1 %absent, label %yes, label %ask
ask:
  %place = alloca ptr
  store ptr %argument, ptr %place
  %given = icmp ne ptr %argument, null
  %n = zext i1 %given to i64
  %answer = call ptr @tracejit_x_PyObject_Vectorcall(ptr %function, ptr %place, i64 %n, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %clear, label %judge
clear:
  call void @tracejit_x_PyErr_Clear()
  br label %no
judge:
  %true = call ptr @object(i64 $true)
  %held = icmp eq ptr %answer, %true
  call void @tracejit_x_Py_DecRef(ptr %answer)
  ret i1 %held
yes:
  ret i1 1
no:
  ret i1 0
}

; Does a route serve these tensors in the present Python state? Functions of a route may be None.
define internal i1 @state_holds(ptr %route, ptr %tensors) nounwind {
entry:
  %holds = call ptr @item(ptr %route, i64 6)
  %held = call i1 @says_yes(ptr %holds, ptr null)
  br i1 %held, label %more, label %no
more:
  %accepts = call ptr @item(ptr %route, i64 9)
  %accepted = call i1 @says_yes(ptr %accepts, ptr %tensors)
  ret i1 %accepted
no:
  ret i1 0
}

; serve(tensors) or, where numbers vary, serve(tensors, numbers).
define internal ptr @serve(ptr %route, ptr %tensors, ptr %numbers, i64 %n) nounwind {
entry:
  %both = alloca [2 x ptr]
  store ptr %tensors, ptr %both
  %function = call ptr @item(ptr %route, i64 7)
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %list, label %plain
plain:
  %result = call ptr @tracejit_x_PyObject_Vectorcall(ptr %function, ptr %both, i64 1, ptr null)
  ret ptr %result
list:
  %listed = call ptr @listed(ptr %numbers, i64 %n)
  %failed = icmp eq ptr %listed, null
  br i1 %failed, label %fail, label %call
fail:
  ret ptr null
call:
  %second = getelementptr ptr, ptr %both, i64 1
  store ptr %listed, ptr %second
  %found = call ptr @tracejit_x_PyObject_Vectorcall(ptr %function, ptr %both, i64 2, ptr null)
  call void @tracejit_x_Py_DecRef(ptr %listed)
  ret ptr %found
}

; CompiledFunction.__call__(self, *args, **kwargs)
define ptr @tracejit_call(ptr %self, ptr %args, i64 %n, ptr %names) nounwind {
entry:
  %grad.p = alloca ptr
  %inference.p = alloca ptr
  %count.p = alloca [3 x i64]
  %found = alloca [128 x ptr], align 16
  %lead = alloca [5 x ptr], align 16
  %named = icmp ne ptr %names, null
  br i1 %named, label %names.count, label %counted
names.count:
  %names.n = call i64 @length(ptr %names)
  br label %counted
counted:
  %more.n = phi i64 [ 0, %entry ], [ %names.n, %names.count ]
  %total = add i64 %n, %more.n
  store ptr %self, ptr %lead
  %routes = call ptr @get(ptr %self, i64 $function_routes)
  %unset = icmp eq ptr %routes, null
  br i1 %unset, label %slow, label %any
any:
  %m = call i64 @length(ptr %routes)
  %some = icmp sgt i64 %m, 0
  br i1 %some, label %modes, label %slow
modes:
  %allowed = call i1 @modes_allow(ptr %grad.p, ptr %inference.p)
  br i1 %allowed, label %begin, label %slow
begin:
  %grad = load ptr, ptr %grad.p
  %inference = load ptr, ptr %inference.p
  call void @tracejit_x_Py_IncRef(ptr %routes)
  br label %next
next:
  %k = phi i64 [ 0, %begin ], [ %k.up, %other ]
  %more = icmp slt i64 %k, %m
  br i1 %more, label %one, label %none.fits
one:
  %route = call ptr @item(ptr %routes, i64 %k)
  %fit = call i1 @fits(ptr %route, ptr %grad, ptr %inference, ptr %args, i64 %total, ptr %names,
                       ptr %found, ptr %count.p)
  br i1 %fit, label %gather, label %other
gather:
  %count = load i64, ptr %count.p
  %list = call ptr @listed(ptr %found, i64 %count)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %fail, label %state
fail:
  call void @tracejit_x_Py_DecRef(ptr %routes)
  ret ptr null
state:
  %held = call i1 @state_holds(ptr %route, ptr %list)
  br i1 %held, label %serve, label %unheld
unheld:
  call void @tracejit_x_Py_DecRef(ptr %list)
  br label %other
other:
  %k.up = add i64 %k, 1
  br label %next
none.fits:
  call void @tracejit_x_Py_DecRef(ptr %routes)
  br label %slow
slow:
  %slow.result = call ptr @hand_over(i64 $slow_call, ptr %lead, i64 1, ptr %args, i64 %n, i64 %total,
                                     ptr %names)
  ret ptr %slow.result
serve:
  %list.p = getelementptr ptr, ptr %lead, i64 3
  store ptr %list, ptr %list.p
  %numbers = getelementptr ptr, ptr %found, i64 64
  %numbers.n.p = getelementptr i64, ptr %count.p, i64 1
  %numbers.n = load i64, ptr %numbers.n.p
  %result = call ptr @serve(ptr %route, ptr %list, ptr %numbers, i64 %numbers.n)
  %ended = icmp eq ptr %result, null
  br i1 %ended, label %end, label %served
served:
  %words.o = call ptr @item(ptr %route, i64 5)
  %words = call ptr @tracejit_x_PyLong_AsVoidPtr(ptr %words.o)
  %counter = load ptr, ptr %words
  %calls = load i64, ptr %counter
  %calls.up = add i64 %calls, 1
  store i64 %calls.up, ptr %counter
  br label %leave
end:
  %error = call ptr @caught()
  %error.p = getelementptr ptr, ptr %lead, i64 1
  store ptr %error, ptr %error.p
  %entry.o = call ptr @item(ptr %route, i64 8)
  %entry.p = getelementptr ptr, ptr %lead, i64 2
  store ptr %entry.o, ptr %entry.p
  %none = call ptr @object(i64 $none)
  %names.given = select i1 %named, ptr %names, ptr %none
  %names.p = getelementptr ptr, ptr %lead, i64 4
  store ptr %names.given, ptr %names.p
  %end.result = call ptr @hand_over(i64 $ended, ptr %lead, i64 5, ptr %args, i64 %total, i64 %total,
                                    ptr null)
  call void @tracejit_x_Py_DecRef(ptr %error)
  br label %leave
leave:
  %answer = phi ptr [ %result, %served ], [ %end.result, %end ]
  call void @tracejit_x_Py_DecRef(ptr %list)
  call void @tracejit_x_Py_DecRef(ptr %routes)
  ret ptr %answer
}
"""
