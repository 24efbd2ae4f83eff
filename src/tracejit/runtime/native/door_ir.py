"""LLVM assembly of the call of a compiled function: find what serves it, or leave it to Python.

A function keeps *routes*: tuples (grad, inference, default dtype, keywords, arguments, words, holds, serve,
entry, accepts) of signatures that were served before. A call whose modes, arguments and Python state are those of a
route is served by it; any other call, and every call under a mode that compiled code does not know, goes to
the Python of the function. How arguments are described is said in `routes`.
"""

from __future__ import annotations

__all__ = ["DOOR_IR"]

DOOR_IR = """
; A mode of this thread: its value, or what the class says where the thread has set none.
define internal ptr @mode(ptr %modes, i64 %name, i64 %default) nounwind alwaysinline {
  %key = call ptr @object(i64 %name)
  %value = call ptr @tracejit_x_PyDict_GetItem(ptr %modes, ptr %key)
  %unset = icmp eq ptr %value, null
  %other = call ptr @object(i64 %default)
  %mode = select i1 %unset, ptr %other, ptr %value
  ret ptr %mode
}

; Is an attribute of a module, kept in the context as (namespace, name), this object?
define internal i1 @is_global(i64 %namespace, i64 %name, ptr %expected) nounwind alwaysinline {
  %dict = call ptr @object(i64 %namespace)
  %key = call ptr @object(i64 %name)
  %value = call ptr @tracejit_x_PyDict_GetItem(ptr %dict, ptr %key)
  %same = icmp eq ptr %value, %expected
  ret i1 %same
}

; Can compiled code serve anything now? *grad, *inference receive these modes of the thread.
define internal i1 @modes_allow(ptr %grad, ptr %inference) nounwind {
entry:
  %false = call ptr @object(i64 $false)
  %enabled = call i1 @is_global(i64 $config, i64 $name_disabled, ptr %false)
  br i1 %enabled, label %look, label %no
look:
  %holder = call ptr @object(i64 $modes)
  %name = call ptr @object(i64 $name_dict)
  %modes = call ptr @tracejit_x_PyObject_GetAttr(ptr %holder, ptr %name)
  %failed = icmp eq ptr %modes, null
  br i1 %failed, label %clear, label %read
clear:
  call void @tracejit_x_PyErr_Clear()
  br label %no
read:
  %none = call ptr @object(i64 $none)
  %empty = call ptr @object(i64 $empty_tuple)
  %recorder = call ptr @mode(ptr %modes, i64 $name_recorder, i64 $none)
  %builder = call ptr @mode(ptr %modes, i64 $name_builder, i64 $none)
  %unusual = call ptr @mode(ptr %modes, i64 $name_unusual, i64 $none)
  %hooks = call ptr @mode(ptr %modes, i64 $name_saved_hooks, i64 $empty_tuple)
  %grad.v = call ptr @mode(ptr %modes, i64 $name_grad, i64 $true)
  %inference.v = call ptr @mode(ptr %modes, i64 $name_inference, i64 $false)
  store ptr %grad.v, ptr %grad
  store ptr %inference.v, ptr %inference
  call void @tracejit_x_Py_DecRef(ptr %modes)
  %a = icmp eq ptr %recorder, %none
  %b = icmp eq ptr %builder, %none
  %c = icmp eq ptr %hooks, %empty
  %d = icmp eq ptr %unusual, %none
  %ab = and i1 %a, %b
  %cd = and i1 %c, %d
  %all = and i1 %ab, %cd
  ret i1 %all
no:
  ret i1 0
}

; Add an object to list[*count], if there is room: for 64.
define internal i1 @append(ptr %object, ptr %list, ptr %count) nounwind alwaysinline {
entry:
  %n = load i64, ptr %count
  %room = icmp slt i64 %n, 64
  br i1 %room, label %put, label %full
put:
  %place = getelementptr ptr, ptr %list, i64 %n
  store ptr %object, ptr %place
  %n.up = add i64 %n, 1
  store i64 %n.up, ptr %count
  ret i1 1
full:
  ret i1 0
}

; Have a tensor whose layout nobody asked for find it, which runs Python: what was borrowed until then may be
; gone, so the caller begins anew (count[2]).
define internal void @lay_out(ptr %tensor, ptr %count) nounwind noinline {
entry:
  %again = getelementptr i64, ptr %count, i64 2
  store i64 1, ptr %again
  call void @tracejit_x_Py_IncRef(ptr %tensor)
  %function = call ptr @object(i64 $layout_of)
  %layout = call ptr @tracejit_x_PyObject_CallOneArg(ptr %function, ptr %tensor)
  call void @tracejit_x_Py_DecRef(ptr %tensor)
  %failed = icmp eq ptr %layout, null
  br i1 %failed, label %clear, label %drop
clear:
  call void @tracejit_x_PyErr_Clear()
  store i64 0, ptr %again
  ret void
drop:
  call void @tracejit_x_Py_DecRef(ptr %layout)
  ret void
}

; Does an argument look as described? Adds tensors to found[*count], numbers that may vary to the 64 behind.
;   (None, layout, requires_grad, inference, class): a tensor, not a view;  (True, object): this object
;   (False, class, object): a number of this class, and this one unless that is None
;   (class, descriptions): a list or tuple of so many;  (dict, descriptions, keys): with these keys in order
define internal i1 @matches(ptr %spec, ptr %value, ptr %found, ptr %count) nounwind {
entry:
  %kind = call ptr @item(ptr %spec, i64 0)
  %second = call ptr @item(ptr %spec, i64 1)
  %none = call ptr @object(i64 $none)
  %wants.tensor = icmp eq ptr %kind, %none
  br i1 %wants.tensor, label %tensor, label %other
tensor:
  %is = call i1 @is_tensor(ptr %value)
  br i1 %is, label %tensor.look, label %no
tensor.look:
  %third = call ptr @item(ptr %spec, i64 2)
  %fourth = call ptr @item(ptr %spec, i64 3)
  %fifth = call ptr @item(ptr %spec, i64 4)
  %layout = call ptr @get(ptr %value, i64 $tensor_layout)
  %unknown = icmp eq ptr %layout, %none
  br i1 %unknown, label %tensor.lay, label %tensor.compare
tensor.lay:
  call void @lay_out(ptr %value, ptr %count)
  ret i1 0
tensor.compare:
  %gradient = call ptr @get(ptr %value, i64 $tensor_requires_grad)
  %inference = call ptr @get(ptr %value, i64 $tensor_inference)
  %base = call ptr @get(ptr %value, i64 $tensor_base)
  %a = icmp eq ptr %layout, %second
  %b = icmp eq ptr %gradient, %third
  %c = icmp eq ptr %inference, %fourth
  %d = icmp eq ptr %base, %none
  %ab = and i1 %a, %b
  %cd = and i1 %c, %d
  %abcd = and i1 %ab, %cd
  %tensor.class = call ptr @type_of(ptr %value)
  %e = icmp eq ptr %tensor.class, %fifth
  %abcde = and i1 %abcd, %e
  br i1 %abcde, label %tensor.add, label %no
tensor.add:
  %added = call i1 @append(ptr %value, ptr %found, ptr %count)
  ret i1 %added
other:
  %true = call ptr @object(i64 $true)
  %wants.object = icmp eq ptr %kind, %true
  br i1 %wants.object, label %object, label %no.object
object:
  %same = icmp eq ptr %value, %second
  ret i1 %same
no.object:
  %false = call ptr @object(i64 $false)
  %wants.number = icmp eq ptr %kind, %false
  br i1 %wants.number, label %number, label %container
number:
  %number.class = call ptr @type_of(ptr %value)
  %number.right = icmp eq ptr %number.class, %second
  %required = call ptr @item(ptr %spec, i64 2)
  %any = icmp eq ptr %required, %none
  %is.required = icmp eq ptr %value, %required
  %number.fits = or i1 %any, %is.required
  %number.ok = and i1 %number.right, %number.fits
  br i1 %number.ok, label %number.add, label %no
number.add:
  %numbers = getelementptr ptr, ptr %found, i64 64
  %numbers.count = getelementptr i64, ptr %count, i64 1
  %number.added = call i1 @append(ptr %value, ptr %numbers, ptr %numbers.count)
  ret i1 %number.added
container:
  %class = call ptr @type_of(ptr %value)
  %right = icmp eq ptr %class, %kind
  br i1 %right, label %container.kind, label %no
container.kind:
  %dict = call ptr @object(i64 $dict_type)
  %is.dict = icmp eq ptr %class, %dict
  br i1 %is.dict, label %mapping, label %container.length
mapping:
  %keys = call ptr @item(ptr %spec, i64 2)
  %mapped = call i1 @matches_dict(ptr %second, ptr %keys, ptr %value, ptr %found, ptr %count)
  ret i1 %mapped
container.length:
  %have = call i64 @length(ptr %value)
  %want = call i64 @length(ptr %second)
  %fits = icmp eq i64 %have, %want
  br i1 %fits, label %container.items, label %no
container.items:
  %list = call ptr @object(i64 $list_type)
  %is.list = icmp eq ptr %class, %list
  br label %next
next:
  %i = phi i64 [ 0, %container.items ], [ %i.up, %good ]
  %more = icmp slt i64 %i, %want
  br i1 %more, label %one, label %yes
one:
  br i1 %is.list, label %from.list, label %from.tuple
from.list:
  %in.list = call ptr @list_item(ptr %value, i64 %i)
  br label %compare
from.tuple:
  %in.tuple = call ptr @item(ptr %value, i64 %i)
  br label %compare
compare:
  %child = phi ptr [ %in.list, %from.list ], [ %in.tuple, %from.tuple ]
  %child.spec = call ptr @item(ptr %second, i64 %i)
  %good.one = call i1 @matches(ptr %child.spec, ptr %child, ptr %found, ptr %count)
  br i1 %good.one, label %good, label %no
good:
  %i.up = add i64 %i, 1
  br label %next
yes:
  ret i1 1
no:
  ret i1 0
}

; The same for the values of a dict, whose keys have to be the same objects in the same order.
define internal i1 @matches_dict(ptr %specs, ptr %keys, ptr %dict, ptr %found, ptr %count) nounwind {
entry:
  %position = alloca i64
  %key.p = alloca ptr
  %value.p = alloca ptr
  store i64 0, ptr %position
  %n = call i64 @length(ptr %keys)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.up, %good ]
  %r = call i32 @tracejit_x_PyDict_Next(ptr %dict, ptr %position, ptr %key.p, ptr %value.p)
  %any = icmp ne i32 %r, 0
  %expected = icmp slt i64 %i, %n
  %both = and i1 %any, %expected
  br i1 %both, label %one, label %ended
one:
  %key = load ptr, ptr %key.p
  %known = call ptr @item(ptr %keys, i64 %i)
  %same = icmp eq ptr %key, %known
  br i1 %same, label %compare, label %no
compare:
  %spec = call ptr @item(ptr %specs, i64 %i)
  %value = load ptr, ptr %value.p
  %fits = call i1 @matches(ptr %spec, ptr %value, ptr %found, ptr %count)
  br i1 %fits, label %good, label %no
good:
  %i.up = add i64 %i, 1
  br label %next
ended:
  %either = or i1 %any, %expected
  %equal = xor i1 %either, 1
  ret i1 %equal
no:
  ret i1 0
}

; Are the same tensors repeated as in the route? firsts[j] is the first position of the tensor at j.
define internal i1 @repeats(ptr %firsts, ptr %found, i64 %n) nounwind {
entry:
  br label %next
next:
  %j = phi i64 [ 0, %entry ], [ %j.up, %fine ]
  %more = icmp slt i64 %j, %n
  br i1 %more, label %one, label %yes
one:
  %mine.p = getelementptr ptr, ptr %found, i64 %j
  %mine = load ptr, ptr %mine.p
  %first.p = getelementptr i64, ptr %firsts, i64 %j
  %first = load i64, ptr %first.p
  br label %search
search:
  %i = phi i64 [ 0, %one ], [ %i.up, %differs ]
  %theirs.p = getelementptr ptr, ptr %found, i64 %i
  %theirs = load ptr, ptr %theirs.p
  %same = icmp eq ptr %mine, %theirs
  br i1 %same, label %met, label %differs
differs:
  %i.up = add i64 %i, 1
  br label %search
met:
  %right = icmp eq i64 %i, %first
  br i1 %right, label %fine, label %no
fine:
  %j.up = add i64 %j, 1
  br label %next
yes:
  ret i1 1
no:
  ret i1 0
}

; The names of keyword arguments are those of the route: null for None, or the same strings.
define internal i1 @same_names(ptr %names, ptr %expected) nounwind {
entry:
  %none = call ptr @object(i64 $none)
  %wants.none = icmp eq ptr %expected, %none
  %is.none = icmp eq ptr %names, null
  %both = and i1 %wants.none, %is.none
  %either = or i1 %wants.none, %is.none
  br i1 %either, label %plain, label %lengths
plain:
  ret i1 %both
lengths:
  %n = call i64 @length(ptr %names)
  %m = call i64 @length(ptr %expected)
  %fits = icmp eq i64 %n, %m
  br i1 %fits, label %next, label %no
next:
  %i = phi i64 [ 0, %lengths ], [ %i.up, %same ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %yes
one:
  %a = call ptr @item(ptr %names, i64 %i)
  %b = call ptr @item(ptr %expected, i64 %i)
  %is = icmp eq ptr %a, %b
  br i1 %is, label %same, label %no
same:
  %i.up = add i64 %i, 1
  br label %next
yes:
  ret i1 1
no:
  ret i1 0
}

; As @fits_now, for tensors whose layouts were never asked for too.
define internal i1 @fits(ptr %route, ptr %grad, ptr %inference, ptr %args, i64 %n, ptr %names,
                         ptr %found, ptr %count) nounwind {
entry:
  %again.p = getelementptr i64, ptr %count, i64 2
  br label %try
try:
  store i64 0, ptr %again.p
  %fit = call i1 @fits_now(ptr %route, ptr %grad, ptr %inference, ptr %args, i64 %n, ptr %names,
                           ptr %found, ptr %count)
  %again = load i64, ptr %again.p
  %once.more = icmp ne i64 %again, 0
  br i1 %once.more, label %try, label %done
done:
  ret i1 %fit
}

; Does a route fit the modes, the names and the arguments? Fills `found` and the two counts.
define internal i1 @fits_now(ptr %route, ptr %grad, ptr %inference, ptr %args, i64 %n, ptr %names,
                         ptr %found, ptr %count) nounwind {
entry:
  %route.grad = call ptr @item(ptr %route, i64 0)
  %route.inference = call ptr @item(ptr %route, i64 1)
  %route.dtype = call ptr @item(ptr %route, i64 2)
  %route.names = call ptr @item(ptr %route, i64 3)
  %specs = call ptr @item(ptr %route, i64 4)
  %m = call i64 @length(ptr %specs)
  %a = icmp eq ptr %route.grad, %grad
  %b = icmp eq ptr %route.inference, %inference
  %c = icmp eq i64 %n, %m
  %ab = and i1 %a, %b
  %abc = and i1 %ab, %c
  br i1 %abc, label %dtype, label %no
dtype:
  %d = call i1 @is_global(i64 $dtypes, i64 $name_default, ptr %route.dtype)
  br i1 %d, label %keywords, label %no
keywords:
  %e = call i1 @same_names(ptr %names, ptr %route.names)
  br i1 %e, label %begin, label %no
begin:
  store i64 0, ptr %count
  %numbers.count = getelementptr i64, ptr %count, i64 1
  store i64 0, ptr %numbers.count
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.up, %good ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %all
one:
  %spec = call ptr @item(ptr %specs, i64 %i)
  %arg.p = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.p
  %ok = call i1 @matches(ptr %spec, ptr %arg, ptr %found, ptr %count)
  br i1 %ok, label %good, label %no
good:
  %i.up = add i64 %i, 1
  br label %next
all:
  %words.o = call ptr @item(ptr %route, i64 5)
  %words = call ptr @tracejit_x_PyLong_AsVoidPtr(ptr %words.o)
  %firsts = getelementptr i64, ptr %words, i64 1
  %tensors = load i64, ptr %count
  %f = call i1 @repeats(ptr %firsts, ptr %found, i64 %tensors)
  ret i1 %f
no:
  ret i1 0
}
"""
