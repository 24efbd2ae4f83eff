"""LLVM assembly of the results of a program: memory before it runs, Python objects afterwards."""

from __future__ import annotations

__all__ = ["RESULTS_IR"]

RESULTS_IR = """
; Memory for the results: words of a result are kind, bucket, slot, type, layout.
;   kinds 0: a tensor, 1: a block, 2: a byte that is True or False, 3: an argument (slot: which)
; 0 when an exception is set; what was made until then is gone.
define internal i1 @prepare(ptr %rows, i64 %n, ptr %args, ptr %slots, ptr %made) nounwind {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.up, %put ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %at = mul i64 %i, 5
  %row = getelementptr i64, ptr %rows, i64 %at
  %kind = load i64, ptr %row
  %bucket.p = getelementptr i64, ptr %row, i64 1
  %bucket = load ptr, ptr %bucket.p
  %slot.p = getelementptr i64, ptr %row, i64 2
  %slot = load i64, ptr %slot.p
  switch i64 %kind, label %block [ i64 2, label %byte
                                   i64 3, label %itself ]
block:
  %memory = call ptr @new_block(ptr %bucket)
  %no.block = icmp eq ptr %memory, null
  br i1 %no.block, label %fail, label %block.at
block.at:
  %place = call i64 @number(ptr %memory, i64 $block_ptr)
  br label %lay
byte:
  %cell = call ptr @take(ptr %bucket)
  %no.cell = icmp eq ptr %cell, null
  br i1 %no.cell, label %fail, label %byte.at
byte.at:
  %cell.place = call i64 @address(ptr %cell)
  br label %lay
lay:
  %object = phi ptr [ %memory, %block.at ], [ %cell, %byte.at ]
  %address = phi i64 [ %place, %block.at ], [ %cell.place, %byte.at ]
  %slots.p = getelementptr i64, ptr %slots, i64 %slot
  store i64 %address, ptr %slots.p
  br label %put
itself:
  %arg.p = getelementptr ptr, ptr %args, i64 %slot
  %arg = load ptr, ptr %arg.p
  call void @tracejit_x_Py_IncRef(ptr %arg)
  br label %put
put:
  %result = phi ptr [ %object, %lay ], [ %arg, %itself ]
  %made.p = getelementptr ptr, ptr %made, i64 %i
  store ptr %result, ptr %made.p
  %i.up = add i64 %i, 1
  br label %next
fail:
  call void @discard(ptr %rows, i64 %i, ptr %made)
  ret i1 0
done:
  ret i1 1
}

; Let go of the first n results.
define internal void @discard(ptr %rows, i64 %n, ptr %made) nounwind noinline {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.up, %gone ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %made.p = getelementptr ptr, ptr %made, i64 %i
  %object = load ptr, ptr %made.p
  %at = mul i64 %i, 5
  %row = getelementptr i64, ptr %rows, i64 %at
  %kind = load i64, ptr %row
  %is.byte = icmp eq i64 %kind, 2
  br i1 %is.byte, label %byte, label %other
byte:
  %bucket.p = getelementptr i64, ptr %row, i64 1
  %bucket = load ptr, ptr %bucket.p
  call void @give(ptr %bucket, ptr %object)
  br label %gone
other:
  call void @tracejit_x_Py_DecRef(ptr %object)
  br label %gone
gone:
  %i.up = add i64 %i, 1
  br label %next
done:
  ret void
}

; Results in place of memory; 0 when an exception is set, and nothing is left.
define internal i1 @finish(ptr %rows, i64 %n, ptr %made) nounwind {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.up, %kept ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %made.p = getelementptr ptr, ptr %made, i64 %i
  %object = load ptr, ptr %made.p
  %at = mul i64 %i, 5
  %row = getelementptr i64, ptr %rows, i64 %at
  %kind = load i64, ptr %row
  switch i64 %kind, label %kept [ i64 0, label %tensor
                                  i64 2, label %byte ]
tensor:
  %type.p = getelementptr i64, ptr %row, i64 3
  %type = load ptr, ptr %type.p
  %layout.p = getelementptr i64, ptr %row, i64 4
  %layout = load ptr, ptr %layout.p
  %tensor.made = call ptr @new_tensor(ptr %object, ptr %type, ptr %layout)
  %failed = icmp eq ptr %tensor.made, null
  br i1 %failed, label %fail, label %put
byte:
  %place = call i64 @address(ptr %object)
  %place.p = inttoptr i64 %place to ptr
  %value = load i8, ptr %place.p
  %bucket.p = getelementptr i64, ptr %row, i64 1
  %bucket = load ptr, ptr %bucket.p
  call void @give(ptr %bucket, ptr %object)
  %set = icmp ne i8 %value, 0
  %true = call ptr @object(i64 $true)
  %false = call ptr @object(i64 $false)
  %truth = select i1 %set, ptr %true, ptr %false
  call void @tracejit_x_Py_IncRef(ptr %truth)
  br label %put
put:
  %result = phi ptr [ %tensor.made, %tensor ], [ %truth, %byte ]
  store ptr %result, ptr %made.p
  br label %kept
kept:
  %i.up = add i64 %i, 1
  br label %next
fail:
  ; Results so far are objects; behind them lie memory and bytes.
  %rest = add i64 %i, 1
  %rest.at = mul i64 %rest, 5
  %rest.rows = getelementptr i64, ptr %rows, i64 %rest.at
  %rest.made = getelementptr ptr, ptr %made, i64 %rest
  %rest.n = sub i64 %n, %rest
  call void @discard(ptr %rest.rows, i64 %rest.n, ptr %rest.made)
  call void @drop(i64 %i, ptr %made)
  ret i1 0
done:
  ret i1 1
}

define internal void @drop(i64 %n, ptr %made) nounwind noinline {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.up, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %made.p = getelementptr ptr, ptr %made, i64 %i
  %object = load ptr, ptr %made.p
  call void @tracejit_x_Py_DecRef(ptr %object)
  %i.up = add i64 %i, 1
  br label %next
done:
  ret void
}

; made -> what is returned: 0 a tuple, 1 the only result itself, 2 a list; null with an exception set.
define internal ptr @pack_up(i64 %how, i64 %n, ptr %made) nounwind {
entry:
  switch i64 %how, label %tuple [ i64 1, label %single
                                  i64 2, label %list ]
single:
  %only = load ptr, ptr %made
  ret ptr %only
tuple:
  %new.tuple = call ptr @tracejit_x_PyTuple_New(i64 %n)
  br label %made.it
list:
  %new.list = call ptr @tracejit_x_PyList_New(i64 %n)
  br label %made.it
made.it:
  %is.list = phi i1 [ 0, %tuple ], [ 1, %list ]
  %result = phi ptr [ %new.tuple, %tuple ], [ %new.list, %list ]
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %fail, label %begin
begin:
  %items.own = getelementptr i8, ptr %result, i64 24
  %items.there = load ptr, ptr %items.own
  %items = select i1 %is.list, ptr %items.there, ptr %items.own
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.up, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %made.p = getelementptr ptr, ptr %made, i64 %i
  %object = load ptr, ptr %made.p
  %item.p = getelementptr ptr, ptr %items, i64 %i
  store ptr %object, ptr %item.p
  %i.up = add i64 %i, 1
  br label %next
fail:
  call void @drop(i64 %n, ptr %made)
  ret ptr null
done:
  ret ptr %result
}
"""
