"""LLVM assembly of a program's run as one Python built-in: tensors in, tensors out.

The built-in reads the addresses of its arguments, takes memory for the results, runs the program's table
and makes the tensors. Its `self` is the address of the words that `quick.QUICK` names.
"""

from __future__ import annotations

__all__ = ["QUICK_IR"]

QUICK_IR = """
define internal ptr @call_one(i64 %function, ptr %argument) nounwind alwaysinline {
  %callable = call ptr @object(i64 %function)
  %result = call ptr @tracejit_x_PyObject_CallOneArg(ptr %callable, ptr %argument)
  ret ptr %result
}

; The address of an argument: 1 in *known. Else 0: an exception is set, or (*other) it is no tensor or block.
;   kind 0: a tensor: argument._pointer or pointer_of(argument);  1: a block: argument.ptr
define internal i1 @pointer(i64 %kind, ptr %argument, ptr %address, ptr %other) nounwind alwaysinline {
entry:
  %is.block = icmp eq i64 %kind, 1
  br i1 %is.block, label %block, label %tensor
block:
  %type = call ptr @type_of(ptr %argument)
  %block.type = call ptr @object(i64 $block_type)
  %exact = icmp eq ptr %type, %block.type
  br i1 %exact, label %block.read, label %strange
block.read:
  %place = call ptr @get(ptr %argument, i64 $block_ptr)
  br label %convert
tensor:
  %ok = call i1 @is_tensor(ptr %argument)
  br i1 %ok, label %tensor.read, label %strange
tensor.read:
  %known = call ptr @get(ptr %argument, i64 $tensor_pointer)
  %value = call i64 @tracejit_x_PyLong_AsLongLong(ptr %known)
  %unknown = icmp eq i64 %value, 0
  br i1 %unknown, label %find, label %have
find:
  %found = call ptr @call_one(i64 $pointer_of, ptr %argument)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %raised, label %read
read:
  %value.found = call i64 @tracejit_x_PyLong_AsLongLong(ptr %found)
  call void @tracejit_x_Py_DecRef(ptr %found)
  store i64 %value.found, ptr %address
  ret i1 1
have:
  store i64 %value, ptr %address
  ret i1 1
convert:
  %value.block = call i64 @tracejit_x_PyLong_AsLongLong(ptr %place)
  store i64 %value.block, ptr %address
  ret i1 1
strange:
  store i1 1, ptr %other
  ret i1 0
raised:
  ret i1 0
}

; Constants and the addresses of arguments into the slots: 1, or 0 as @pointer says.
; The words behind the header are pairs (slot, value), then per argument (kind, slot); kind 2: not read.
define internal i1 @addresses(ptr %words, ptr %args, ptr %slots, ptr %other) nounwind alwaysinline {
entry:
  %address = alloca i64
  %pairs = getelementptr i64, ptr %words, i64 16
  %presets.p = getelementptr i64, ptr %words, i64 10
  %presets = load i64, ptr %presets.p
  %n.p = getelementptr i64, ptr %words, i64 3
  %n = load i64, ptr %n.p
  br label %preset
preset:
  %k = phi i64 [ 0, %entry ], [ %k.up, %preset.one ]
  %k.more = icmp slt i64 %k, %presets
  br i1 %k.more, label %preset.one, label %inputs
preset.one:
  %k2 = shl i64 %k, 1
  %pair = getelementptr i64, ptr %pairs, i64 %k2
  %to = load i64, ptr %pair
  %value.p = getelementptr i64, ptr %pair, i64 1
  %value = load i64, ptr %value.p
  %to.p = getelementptr i64, ptr %slots, i64 %to
  store i64 %value, ptr %to.p
  %k.up = add i64 %k, 1
  br label %preset
inputs:
  %presets2 = shl i64 %presets, 1
  %kinds = getelementptr i64, ptr %pairs, i64 %presets2
  br label %input
input:
  %i = phi i64 [ 0, %inputs ], [ %i.up, %stored ]
  %i.more = icmp slt i64 %i, %n
  br i1 %i.more, label %input.one, label %done
input.one:
  %i2 = shl i64 %i, 1
  %kind.p = getelementptr i64, ptr %kinds, i64 %i2
  %kind = load i64, ptr %kind.p
  %unread = icmp eq i64 %kind, 2
  br i1 %unread, label %stored, label %input.read
input.read:
  %arg.p = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.p
  %ok = call i1 @pointer(i64 %kind, ptr %arg, ptr %address, ptr %other)
  br i1 %ok, label %store, label %fail
store:
  %slot.p = getelementptr i64, ptr %kind.p, i64 1
  %slot = load i64, ptr %slot.p
  %found = load i64, ptr %address
  %slots.p = getelementptr i64, ptr %slots, i64 %slot
  store i64 %found, ptr %slots.p
  br label %stored
stored:
  %i.up = add i64 %i, 1
  br label %input
fail:
  ret i1 0
done:
  ret i1 1
}

; run(*arguments) -> results
define ptr @tracejit_run_quick(ptr %self, ptr %args, i64 %n) nounwind {
entry:
  %other = alloca i1
  %code = alloca i64
  store i1 0, ptr %other
  %words = call ptr @tracejit_x_PyLong_AsVoidPtr(ptr %self)
  %n.p = getelementptr i64, ptr %words, i64 3
  %n.expected = load i64, ptr %n.p
  %n.ok = icmp eq i64 %n, %n.expected
  %watched = call i64 @word(i64 $watched)
  %unwatched = icmp eq i64 %watched, 0
  %quick = and i1 %n.ok, %unwatched
  br i1 %quick, label %read, label %slow
slow:
  %fallback.p = getelementptr i64, ptr %words, i64 5
  %fallback = load ptr, ptr %fallback.p
  %slow.result = call ptr @tracejit_x_PyObject_Vectorcall(ptr %fallback, ptr %args, i64 %n, ptr null)
  ret ptr %slow.result
read:
  %n.slots.p = getelementptr i64, ptr %words, i64 6
  %n.slots = load i64, ptr %n.slots.p
  %slots = alloca i64, i64 %n.slots, align 16
  %read.ok = call i1 @addresses(ptr %words, ptr %args, ptr %slots, ptr %other)
  br i1 %read.ok, label %arena, label %unread
unread:
  %is.other = load i1, ptr %other
  br i1 %is.other, label %slow, label %raised
raised:
  ret ptr null
arena:
  %arena.p = getelementptr i64, ptr %words, i64 7
  %arena.bucket = load ptr, ptr %arena.p
  %has.arena = icmp ne ptr %arena.bucket, null
  br i1 %has.arena, label %arena.take, label %results
arena.take:
  %arena.cell.new = call ptr @take(ptr %arena.bucket)
  %no.arena = icmp eq ptr %arena.cell.new, null
  br i1 %no.arena, label %raised, label %arena.put
arena.put:
  %arena.at = call i64 @address(ptr %arena.cell.new)
  %arena.slot.p = getelementptr i64, ptr %words, i64 8
  %arena.slot = load i64, ptr %arena.slot.p
  %arena.slots.p = getelementptr i64, ptr %slots, i64 %arena.slot
  store i64 %arena.at, ptr %arena.slots.p
  br label %results
results:
  %arena.cell = phi ptr [ null, %arena ], [ %arena.cell.new, %arena.put ]
  %m.p = getelementptr i64, ptr %words, i64 4
  %m = load i64, ptr %m.p
  %room = add i64 %m, 1
  %made = alloca ptr, i64 %room, align 16
  %rows.p = getelementptr i64, ptr %words, i64 11
  %rows = load ptr, ptr %rows.p
  %prepared = call i1 @prepare(ptr %rows, i64 %m, ptr %args, ptr %slots, ptr %made)
  br i1 %prepared, label %launch, label %no.memory
no.memory:
  call void @arena_back(ptr %arena.bucket, ptr %arena.cell)
  ret ptr null
launch:
  %table = load ptr, ptr %words
  %first.p = getelementptr i64, ptr %words, i64 1
  %first = load i64, ptr %first.p
  %last.p = getelementptr i64, ptr %words, i64 2
  %last = load i64, ptr %last.p
  %ran = call i1 @python_launch(ptr %table, i64 %first, i64 %last, ptr %slots, ptr %code)
  call void @arena_back(ptr %arena.bucket, ptr %arena.cell)
  br i1 %ran, label %judge, label %stop
judge:
  %code.v = load i64, ptr %code
  %fine = icmp eq i64 %code.v, 0
  br i1 %fine, label %wrap, label %refuse
refuse:
  call void @discard(ptr %rows, i64 %m, ptr %made)
  %number = call ptr @tracejit_x_PyLong_FromLongLong(i64 %code.v)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %raised, label %refuse.say
refuse.say:
  %said = call ptr @call_one(i64 $fail, ptr %number)
  call void @tracejit_x_Py_DecRef(ptr %number)
  ret ptr %said
stop:
  call void @discard(ptr %rows, i64 %m, ptr %made)
  ret ptr null
wrap:
  %wrapped = call i1 @finish(ptr %rows, i64 %m, ptr %made)
  br i1 %wrapped, label %return, label %raised
return:
  %how.p = getelementptr i64, ptr %words, i64 9
  %how = load i64, ptr %how.p
  %result = call ptr @pack_up(i64 %how, i64 %m, ptr %made)
  ret ptr %result
}

define internal void @arena_back(ptr %bucket, ptr %cell) nounwind alwaysinline {
entry:
  %none = icmp eq ptr %cell, null
  br i1 %none, label %done, label %back
back:
  call void @give(ptr %bucket, ptr %cell)
  br label %done
done:
  ret void
}
"""
