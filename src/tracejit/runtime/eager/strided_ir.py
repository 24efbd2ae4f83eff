"""LLVM assembly of loops over rows of strided arrays, for eager code: NumPy's inner loops, and a choice between two.

Inner loops have NumPy's signature (``PyUFuncGenericFunction``): addresses of operands and result, the number of
elements, the bytes from one element to the next, and data of the loop's own.
"""

from __future__ import annotations

from string import Template

__all__ = ["OPERANDS", "SELECTED_BYTES", "strided_module_text"]

#: Operands of an inner loop, the result included.
OPERANDS = 4
#: Bytes of the elements that there are loops for which choose between two.
SELECTED_BYTES = (1, 2, 4, 8)

_ROWS_IR = """
; A kernel over rows: an inner loop for each of the rows lo..hi-1.
;   args: loop, data, operands, elements of a row, elements of all rows (the last row may have fewer), and for each
;   operand its address, the bytes from row to row, and from element to element.
define i32 @tracejit_strided(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {
entry:
  %places = alloca [4 x ptr]
  %steps = alloca [4 x i64]
  %length = alloca i64
  %loop = load ptr, ptr %args
  %data.p = getelementptr i64, ptr %args, i64 1
  %data = load ptr, ptr %data.p
  %count.p = getelementptr i64, ptr %args, i64 2
  %count = load i64, ptr %count.p
  %inner.p = getelementptr i64, ptr %args, i64 3
  %inner = load i64, ptr %inner.p
  %total.p = getelementptr i64, ptr %args, i64 4
  %total = load i64, ptr %total.p
  %operands = getelementptr i64, ptr %args, i64 5
  br label %stride
stride:
  %s = phi i64 [ 0, %entry ], [ %s.next, %stride ]
  %s.word = mul i64 %s, 3
  %s.at = add i64 %s.word, 2
  %step.p = getelementptr i64, ptr %operands, i64 %s.at
  %step = load i64, ptr %step.p
  %step.to = getelementptr i64, ptr %steps, i64 %s
  store i64 %step, ptr %step.to
  %s.next = add i64 %s, 1
  %s.more = icmp slt i64 %s.next, %count
  br i1 %s.more, label %stride, label %row
row:
  %r = phi i64 [ %lo, %stride ], [ %r.next, %call ]
  %before = mul i64 %r, %inner
  %left = sub i64 %total, %before
  %few = icmp slt i64 %left, %inner
  %n = select i1 %few, i64 %left, i64 %inner
  store i64 %n, ptr %length
  br label %place
place:
  %k = phi i64 [ 0, %row ], [ %k.next, %place ]
  %word = mul i64 %k, 3
  %base.p = getelementptr i64, ptr %operands, i64 %word
  %base = load i64, ptr %base.p
  %outer.p = getelementptr i64, ptr %base.p, i64 1
  %outer = load i64, ptr %outer.p
  %offset = mul i64 %outer, %r
  %at = add i64 %base, %offset
  %at.to = getelementptr i64, ptr %places, i64 %k
  store i64 %at, ptr %at.to
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %count
  br i1 %k.more, label %place, label %call
call:
  call void %loop(ptr %places, ptr %length, ptr %steps, ptr %data)
  %r.next = add i64 %r, 1
  %r.more = icmp slt i64 %r.next, %hi
  br i1 %r.more, label %row, label %done
done:
  ret i32 0
}
"""
# What x and y are when they are one number for a whole row is written out sixteen times, and not gone through.
_SELECT_IR = Template("""
; An inner loop: elements of $BYTES bytes of x where a byte is not zero, else of y.
define void @tracejit_select_$BYTES(ptr %places, ptr %length, ptr %steps, ptr %data) nounwind {
entry:
  %x.filled = alloca [16 x i$BITS]
  %y.filled = alloca [16 x i$BITS]
  %n = load i64, ptr %length
  %m = load ptr, ptr %places
  %x.p = getelementptr ptr, ptr %places, i64 1
  %x = load ptr, ptr %x.p
  %y.p = getelementptr ptr, ptr %places, i64 2
  %y = load ptr, ptr %y.p
  %o.p = getelementptr ptr, ptr %places, i64 3
  %o = load ptr, ptr %o.p
  %m.step = load i64, ptr %steps
  %xs.p = getelementptr i64, ptr %steps, i64 1
  %x.step = load i64, ptr %xs.p
  %ys.p = getelementptr i64, ptr %steps, i64 2
  %y.step = load i64, ptr %ys.p
  %os.p = getelementptr i64, ptr %steps, i64 3
  %o.step = load i64, ptr %os.p
  %m.dense = icmp eq i64 %m.step, 1
  %o.dense = icmp eq i64 %o.step, $BYTES
  %x.dense = icmp eq i64 %x.step, $BYTES
  %y.dense = icmp eq i64 %y.step, $BYTES
  %x.one = icmp eq i64 %x.step, 0
  %y.one = icmp eq i64 %y.step, 0
  %x.fits = or i1 %x.dense, %x.one
  %y.fits = or i1 %y.dense, %y.one
  %mo = and i1 %m.dense, %o.dense
  %xy = and i1 %x.fits, %y.fits
  %dense = and i1 %mo, %xy
  %long = icmp sge i64 %n, 16
  %wide = and i1 %dense, %long
  br i1 %wide, label %fill, label %rest.from
fill:
  %x0 = load i$BITS, ptr %x, align 1
  %x1 = insertelement <16 x i$BITS> poison, i$BITS %x0, i64 0
  %x2 = shufflevector <16 x i$BITS> %x1, <16 x i$BITS> poison, <16 x i32> zeroinitializer
  store <16 x i$BITS> %x2, ptr %x.filled, align 1
  %y0 = load i$BITS, ptr %y, align 1
  %y1 = insertelement <16 x i$BITS> poison, i$BITS %y0, i64 0
  %y2 = shufflevector <16 x i$BITS> %y1, <16 x i$BITS> poison, <16 x i32> zeroinitializer
  store <16 x i$BITS> %y2, ptr %y.filled, align 1
  %x.from = select i1 %x.one, ptr %x.filled, ptr %x
  %y.from = select i1 %y.one, ptr %y.filled, ptr %y
  %stop = and i64 %n, -16
  br label %main
main:
  %i = phi i64 [ 0, %fill ], [ %i.next, %main ]
  %mask.p = getelementptr i8, ptr %m, i64 %i
  %mask = load <16 x i8>, ptr %mask.p, align 1
  %yes = icmp ne <16 x i8> %mask, zeroinitializer
  %x.off = mul i64 %i, %x.step
  %x.at = getelementptr i8, ptr %x.from, i64 %x.off
  %y.off = mul i64 %i, %y.step
  %y.at = getelementptr i8, ptr %y.from, i64 %y.off
  %x.v = load <16 x i$BITS>, ptr %x.at, align 1
  %y.v = load <16 x i$BITS>, ptr %y.at, align 1
  %v = select <16 x i1> %yes, <16 x i$BITS> %x.v, <16 x i$BITS> %y.v
  %o.at = getelementptr i$BITS, ptr %o, i64 %i
  store <16 x i$BITS> %v, ptr %o.at, align 1
  %i.next = add i64 %i, 16
  %i.more = icmp slt i64 %i.next, %stop
  br i1 %i.more, label %main, label %rest.from
rest.from:
  %from = phi i64 [ 0, %entry ], [ %stop, %main ]
  %any = icmp slt i64 %from, %n
  br i1 %any, label %rest, label %done
rest:
  %j = phi i64 [ %from, %rest.from ], [ %j.next, %rest ]
  %jm.off = mul i64 %j, %m.step
  %jm.p = getelementptr i8, ptr %m, i64 %jm.off
  %jm = load i8, ptr %jm.p
  %jyes = icmp ne i8 %jm, 0
  %jx.off = mul i64 %j, %x.step
  %jx.p = getelementptr i8, ptr %x, i64 %jx.off
  %jy.off = mul i64 %j, %y.step
  %jy.p = getelementptr i8, ptr %y, i64 %jy.off
  %j.from = select i1 %jyes, ptr %jx.p, ptr %jy.p
  %jv = load i$BITS, ptr %j.from, align 1
  %jo.off = mul i64 %j, %o.step
  %jo.p = getelementptr i8, ptr %o, i64 %jo.off
  store i$BITS %jv, ptr %jo.p, align 1
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, %n
  br i1 %j.more, label %rest, label %done
done:
  ret void
}
""")


def strided_module_text(triple: str) -> str:
    """The module with `tracejit_strided` and the inner loops `tracejit_select_1` to `tracejit_select_8`.

    >>> strided_module_text("x86_64-unknown-linux-gnu").count("define void @tracejit_select_")
    4
    """
    selects = [_SELECT_IR.substitute(BYTES=size, BITS=8 * size) for size in SELECTED_BYTES]
    return "".join([f'target triple = "{triple}"\n', _ROWS_IR, *selects])
