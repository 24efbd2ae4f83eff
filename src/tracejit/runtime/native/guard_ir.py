"""LLVM assembly of guards on Python state: words of memory that have to be what they were.

A table is [groups, True] and then the groups, one after another: [n, function, renewed] and n times [address, word,
mask]. Where a word of a group is another one, or where there are none, the Python function of the group decides. When
it returns True, the words of a ``renewed`` group are from then on those that were found before it was called.
"""

from __future__ import annotations

__all__ = ["GUARD_IR", "MAX_RENEWED"]

#: Most words of a group that are renewed.
MAX_RENEWED = 4

GUARD_IR = """
; The word at an address, as far as the mask goes.
define internal i64 @watched_word(ptr %word) nounwind alwaysinline {
  %address = load ptr, ptr %word
  %mask.p = getelementptr i64, ptr %word, i64 2
  %mask = load i64, ptr %mask.p
  %found = load i64, ptr %address, align 1
  %cut = and i64 %found, %mask
  ret i64 %cut
}

; Remember the words of a group as they are now, or put what was remembered into its table. A word of zero says that
; the interpreter counts no changes of something: what is kept for it is never found.
define internal void @renew_words(ptr %words, i64 %n, ptr %saved, i1 %back) nounwind {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.up, %done ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %out
one:
  %at = mul i64 %i, 3
  %word = getelementptr i64, ptr %words, i64 %at
  %place = getelementptr i64, ptr %saved, i64 %i
  br i1 %back, label %put, label %take
take:
  %found = call i64 @watched_word(ptr %word)
  %none = icmp eq i64 %found, 0
  %kept = select i1 %none, i64 -1, i64 %found
  store i64 %kept, ptr %place
  br label %done
put:
  %value = load i64, ptr %place
  %expected.p = getelementptr i64, ptr %word, i64 1
  store i64 %value, ptr %expected.p
  br label %done
done:
  %i.up = add i64 %i, 1
  br label %next
out:
  ret void
}

; unchanged() -> bool
define ptr @tracejit_unchanged(ptr %self, ptr %ignored) nounwind {
entry:
  %saved = alloca i64, i64 4
  call void @tracejit_x_Py_IncRef(ptr %self)
  %table = call ptr @tracejit_x_PyLong_AsVoidPtr(ptr %self)
  %groups = load i64, ptr %table
  %true.p = getelementptr i64, ptr %table, i64 1
  %true = load ptr, ptr %true.p
  %first = getelementptr i64, ptr %table, i64 2
  br label %group
group:
  %g = phi i64 [ 0, %entry ], [ %g.up, %unchanged ]
  %p = phi ptr [ %first, %entry ], [ %following, %unchanged ]
  %more = icmp slt i64 %g, %groups
  br i1 %more, label %look, label %good
look:
  %n = load i64, ptr %p
  %words = getelementptr i64, ptr %p, i64 3
  %length = mul i64 %n, 3
  %following = getelementptr i64, ptr %words, i64 %length
  %g.up = add i64 %g, 1
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %changed, label %word
word:
  %i = phi i64 [ 0, %look ], [ %i.up, %same ]
  %at = mul i64 %i, 3
  %word.p = getelementptr i64, ptr %words, i64 %at
  %found = call i64 @watched_word(ptr %word.p)
  %expected.p = getelementptr i64, ptr %word.p, i64 1
  %expected = load i64, ptr %expected.p
  %is.same = icmp eq i64 %found, %expected
  br i1 %is.same, label %same, label %changed
same:
  %i.up = add i64 %i, 1
  %end = icmp eq i64 %i.up, %n
  br i1 %end, label %unchanged, label %word
changed:
  %function.p = getelementptr i64, ptr %p, i64 1
  %function = load ptr, ptr %function.p
  %renewed.p = getelementptr i64, ptr %p, i64 2
  %renewed = load i64, ptr %renewed.p
  %renews = icmp ne i64 %renewed, 0
  br i1 %renews, label %save, label %ask
save:
  call void @renew_words(ptr %words, i64 %n, ptr %saved, i1 0)
  br label %ask
ask:
  %answer = call ptr @tracejit_x_PyObject_CallNoArgs(ptr %function)
  %yes = icmp eq ptr %answer, %true
  br i1 %yes, label %still, label %no
still:
  call void @tracejit_x_Py_DecRef(ptr %answer)
  br i1 %renews, label %put, label %unchanged
put:
  call void @renew_words(ptr %words, i64 %n, ptr %saved, i1 1)
  br label %unchanged
unchanged:
  br label %group
good:
  call void @tracejit_x_Py_IncRef(ptr %true)
  br label %no
no:
  %result = phi ptr [ %answer, %ask ], [ %true, %good ]
  call void @tracejit_x_Py_DecRef(ptr %self)
  ret ptr %result
}
"""
