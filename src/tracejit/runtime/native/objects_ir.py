"""LLVM assembly for Python objects: memory blocks taken from the allocator's lists, tensors made on them.

Python's own structures are read where that is all there is to do: the slots of a tensor, the length and the
items of a list or tuple. Where they lie is found out at run time (see `layout`) and stands in the
context; `$name` is the number of the context's word of that name.
"""

from __future__ import annotations

__all__ = ["OBJECTS_IR"]

OBJECTS_IR = """
@tracejit_x_context = external global [96 x i64]

define internal i64 @word(i64 %number) nounwind alwaysinline {
  %p = getelementptr i64, ptr @tracejit_x_context, i64 %number
  %word = load i64, ptr %p
  ret i64 %word
}

define internal ptr @object(i64 %number) nounwind alwaysinline {
  %p = getelementptr i64, ptr @tracejit_x_context, i64 %number
  %object = load ptr, ptr %p
  ret ptr %object
}

; The place of a slot, whose offset is a word of the context, in an object.
define internal ptr @slot(ptr %object, i64 %number) nounwind alwaysinline {
  %offset = call i64 @word(i64 %number)
  %p = getelementptr i8, ptr %object, i64 %offset
  ret ptr %p
}

define internal ptr @get(ptr %object, i64 %number) nounwind alwaysinline {
  %p = call ptr @slot(ptr %object, i64 %number)
  %value = load ptr, ptr %p
  ret ptr %value
}

; Fill an empty slot; the object has one reference more.
define internal void @set(ptr %object, i64 %number, ptr %value) nounwind alwaysinline {
  call void @tracejit_x_Py_IncRef(ptr %value)
  %p = call ptr @slot(ptr %object, i64 %number)
  store ptr %value, ptr %p
  ret void
}

define internal ptr @type_of(ptr %object) nounwind alwaysinline {
  %p = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %p
  ret ptr %type
}

define internal i64 @length(ptr %sequence) nounwind alwaysinline {
  %p = getelementptr i8, ptr %sequence, i64 16
  %n = load i64, ptr %p
  ret i64 %n
}

; Item `i` of a tuple, borrowed.
define internal ptr @item(ptr %tuple, i64 %i) nounwind alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 24
  %p = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %p
  ret ptr %item
}

; Item `i` of a list, borrowed.
define internal ptr @list_item(ptr %list, i64 %i) nounwind alwaysinline {
  %items.p = getelementptr i8, ptr %list, i64 24
  %items = load ptr, ptr %items.p
  %p = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %p
  ret ptr %item
}

; The number in a slot that holds a small int.
define internal i64 @number(ptr %object, i64 %number) nounwind alwaysinline {
  %value = call ptr @get(ptr %object, i64 %number)
  %n = call i64 @tracejit_x_PyLong_AsLongLong(ptr %value)
  ret i64 %n
}

; Count `bytes` more in blocks: counters are {allocations, bytes in blocks, the most there were}.
define internal void @count(i64 %bytes) nounwind alwaysinline {
  %counters = call ptr @object(i64 $counters)
  %allocations = load i64, ptr %counters
  %allocations.up = add i64 %allocations, 1
  store i64 %allocations.up, ptr %counters
  %live.p = getelementptr i64, ptr %counters, i64 1
  %live = load i64, ptr %live.p
  %live.up = add i64 %live, %bytes
  store i64 %live.up, ptr %live.p
  %peak.p = getelementptr i64, ptr %counters, i64 2
  %peak = load i64, ptr %peak.p
  %above = icmp sgt i64 %live.up, %peak
  %most = select i1 %above, i64 %live.up, i64 %peak
  store i64 %most, ptr %peak.p
  ret void
}

define internal void @uncount(i64 %bytes) nounwind alwaysinline {
  %counters = call ptr @object(i64 $counters)
  %live.p = getelementptr i64, ptr %counters, i64 1
  %live = load i64, ptr %live.p
  %less = sub i64 %live, %bytes
  store i64 %less, ptr %live.p
  ret void
}

; A cell (array, address) of a bucket, owned by the caller; null with an exception set.
;   cell = bucket.free.pop() if bucket.free else fresh(bucket)
define internal ptr @take(ptr %bucket) nounwind {
entry:
  %free = call ptr @get(ptr %bucket, i64 $bucket_free)
  %n = call i64 @length(ptr %free)
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %pop, label %new
pop:
  %last = sub i64 %n, 1
  %kept = call ptr @list_item(ptr %free, i64 %last)
  %n.p = getelementptr i8, ptr %free, i64 16
  store i64 %last, ptr %n.p
  br label %taken
new:
  %fresh = call ptr @object(i64 $fresh)
  %made = call ptr @tracejit_x_PyObject_CallOneArg(ptr %fresh, ptr %bucket)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %taken
taken:
  %cell = phi ptr [ %kept, %pop ], [ %made, %new ]
  %size = call i64 @number(ptr %bucket, i64 $bucket_size)
  call void @count(i64 %size)
  br label %done
done:
  %result = phi ptr [ null, %new ], [ %cell, %taken ]
  ret ptr %result
}

; Put a cell into the list of its bucket while there is room.
define internal void @keep(ptr %bucket, ptr %cell) nounwind alwaysinline {
entry:
  %free = call ptr @get(ptr %bucket, i64 $bucket_free)
  %n = call i64 @length(ptr %free)
  %capacity = call i64 @number(ptr %bucket, i64 $bucket_capacity)
  %room = icmp slt i64 %n, %capacity
  br i1 %room, label %append, label %done
append:
  %r = call i32 @tracejit_x_PyList_Append(ptr %free, ptr %cell)
  %failed = icmp slt i32 %r, 0
  br i1 %failed, label %forget, label %done
forget:
  call void @tracejit_x_PyErr_Clear()
  br label %done
done:
  ret void
}

; Give back a cell that nobody else has seen, with the caller's reference.
define internal void @give(ptr %bucket, ptr %cell) nounwind {
  %size = call i64 @number(ptr %bucket, i64 $bucket_size)
  call void @uncount(i64 %size)
  call void @keep(ptr %bucket, ptr %cell)
  call void @tracejit_x_Py_DecRef(ptr %cell)
  ret void
}

define internal i64 @address(ptr %cell) nounwind alwaysinline {
  %number = call ptr @item(ptr %cell, i64 1)
  %address = call i64 @tracejit_x_PyLong_AsLongLong(ptr %number)
  ret i64 %address
}

; A block of a bucket; null with an exception set.
define internal ptr @new_block(ptr %bucket) nounwind {
entry:
  %cell = call ptr @take(ptr %bucket)
  %none = icmp eq ptr %cell, null
  br i1 %none, label %fail, label %make
make:
  %type = call ptr @object(i64 $block_type)
  %block = call ptr @tracejit_x_PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %back, label %fill
back:
  call void @give(ptr %bucket, ptr %cell)
  br label %fail
fail:
  ret ptr null
fill:
  %array = call ptr @item(ptr %cell, i64 0)
  call void @set(ptr %block, i64 $block_array, ptr %array)
  %number = call ptr @item(ptr %cell, i64 1)
  call void @set(ptr %block, i64 $block_ptr, ptr %number)
  call void @set(ptr %block, i64 $block_bucket, ptr %bucket)
  %cell.p = call ptr @slot(ptr %block, i64 $block_cell)
  store ptr %cell, ptr %cell.p
  ret ptr %block
}

; Block.__del__: what Python's does, where nothing but the block and its cell refers to the array.
define ptr @tracejit_block_del(ptr %block, ptr %nothing) nounwind {
entry:
  %bucket = call ptr @get(ptr %block, i64 $block_bucket)
  %empty = icmp eq ptr %bucket, null
  br i1 %empty, label %none, label %full
full:
  %array = call ptr @get(ptr %block, i64 $block_array)
  %references = load i32, ptr %array
  %viewed = icmp ugt i32 %references, 2
  %size = call i64 @number(ptr %bucket, i64 $bucket_size)
  %large = icmp sgt i64 %size, 65536
  %slow = or i1 %viewed, %large
  br i1 %slow, label %ask, label %back
ask:
  %release = call ptr @object(i64 $release)
  %asked = call ptr @tracejit_x_PyObject_CallOneArg(ptr %release, ptr %block)
  ret ptr %asked
back:
  call void @uncount(i64 %size)
  %cell = call ptr @get(ptr %block, i64 $block_cell)
  call void @keep(ptr %bucket, ptr %cell)
  br label %none
none:
  %result = call ptr @object(i64 $none)
  call void @tracejit_x_Py_IncRef(ptr %result)
  ret ptr %result
}

; A tensor on a block, whose reference goes to it; null with an exception set.
define internal ptr @new_tensor(ptr %block, ptr %kind, ptr %layout) nounwind {
entry:
  %version.type = call ptr @object(i64 $version_type)
  %version = call ptr @tracejit_x_PyType_GenericAlloc(ptr %version.type, i64 0)
  %no.version = icmp eq ptr %version, null
  br i1 %no.version, label %fail, label %make
make:
  %type = call ptr @object(i64 $tensor_type)
  %tensor = call ptr @tracejit_x_PyType_GenericAlloc(ptr %type, i64 0)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %undo, label %fill
undo:
  call void @tracejit_x_Py_DecRef(ptr %version)
  br label %fail
fail:
  call void @tracejit_x_Py_DecRef(ptr %block)
  ret ptr null
fill:
  %none = call ptr @object(i64 $none)
  %false = call ptr @object(i64 $false)
  %pointer = call ptr @get(ptr %block, i64 $block_ptr)
  call void @set(ptr %tensor, i64 $tensor_array, ptr %none)
  call void @set(ptr %tensor, i64 $tensor_base, ptr %none)
  call void @set(ptr %tensor, i64 $tensor_grad_fn, ptr %none)
  call void @set(ptr %tensor, i64 $tensor_requires_grad, ptr %false)
  call void @set(ptr %tensor, i64 $tensor_inference, ptr %false)
  call void @set(ptr %tensor, i64 $tensor_pointer, ptr %pointer)
  call void @set(ptr %tensor, i64 $tensor_type_slot, ptr %kind)
  call void @set(ptr %tensor, i64 $tensor_layout, ptr %layout)
  %block.p = call ptr @slot(ptr %tensor, i64 $tensor_block)
  store ptr %block, ptr %block.p
  %writes.p = call ptr @slot(ptr %tensor, i64 $tensor_writes)
  store ptr %version, ptr %writes.p
  ret ptr %tensor
}

; Is it a tensor, of the class itself or one below?
define internal i1 @is_tensor(ptr %object) nounwind alwaysinline {
entry:
  %type = call ptr @type_of(ptr %object)
  %tensor = call ptr @object(i64 $tensor_type)
  %same = icmp eq ptr %type, %tensor
  br i1 %same, label %yes, label %ask
ask:
  %r = call i32 @tracejit_x_PyType_IsSubtype(ptr %type, ptr %tensor)
  %is = icmp ne i32 %r, 0
  ret i1 %is
yes:
  ret i1 1
}
"""
