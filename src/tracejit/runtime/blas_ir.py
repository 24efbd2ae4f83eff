"""LLVM assembly of the matrix product step: a kernel that calls BLAS for its share of the rows.

Its arguments, one 64-bit word each, are named in `GEMM_ARGS`. Integers are handed to BLAS as
64-bit words by address; a BLAS with 32-bit integers reads their low halves, which are first in
memory on every machine supported.
"""

from __future__ import annotations

__all__ = ["BAD_STRIDE", "GEMM_ARGS", "gemm_module_text"]

#: Words of the argument block. Strides count elements; matrix i of a batch lies at
#: `i / na * sa + i % na * ja` of A, and so on; `columns` says that the parallel range is over N. `gemv` multiplies a
#: matrix by a vector, which `blas` would pack first; 0 where there is none.
GEMM_ARGS = (
    *("blas", "a", "b", "c", "m", "n", "k", "lda", "ldb", "ldc"),
    *("trans_a", "trans_b", "columns", "na", "sa", "ja", "nb", "sb", "jb", "nc", "sc", "jc"),
    "gemv",
)

#: Return code of a gemm step whose row stride is shorter than a row.
BAD_STRIDE = 22


def gemm_module_text(triple: str, dtype: str) -> str:
    """The module with `tracejit_gemm_f32` or another, as `dtype` says. Operands of bfloat16 have results of float32.

    >>> gemm_module_text("x86_64-unknown-linux-gnu", "f32").splitlines()[0]
    'target triple = "x86_64-unknown-linux-gnu"'
    """
    kind, nbytes = ("double", "8") if dtype == "f64" else ("float", "4")
    text = _GEMM.replace("LOADS", _loads()).replace("NAME", dtype)
    text = (
        text.replace("T_GIVEN", "i16" if dtype == "bf16" else kind)
        .replace("T_T", kind)
        .replace("T_BYTES", nbytes)
    )
    return f'target triple = "{triple}"\n{_COMMON}{text}'


_COMMON = """
@letters = private constant [2 x i8] c"NT"
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; The stride to tell BLAS: one row needs none, so any is right there; -1 where rows would overlap.
define internal i64 @leading(i64 %given, i64 %rows, i64 %columns) nounwind {
entry:
  %fits = icmp sge i64 %given, %columns
  %single = icmp sle i64 %rows, 1
  %least = call i64 @llvm.smax.i64(i64 %columns, i64 1)
  %enough = call i64 @llvm.smax.i64(i64 %given, i64 1)
  %otherwise = select i1 %single, i64 %least, i64 -1
  %result = select i1 %fits, i64 %enough, i64 %otherwise
  ret i64 %result
}
; Where matrix i of a batch starts.
define internal i64 @start(i64 %i, i64 %count, i64 %outer, i64 %inner) nounwind alwaysinline {
entry:
  %many = call i64 @llvm.smax.i64(i64 %count, i64 1)
  %i.outer = sdiv i64 %i, %many
  %i.inner = srem i64 %i, %many
  %far = mul i64 %i.outer, %outer
  %near = mul i64 %i.inner, %inner
  %sum = add i64 %far, %near
  ret i64 %sum
}
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
"""

_GEMM = """
@one.NAME = private constant T_T 1.0
@zero.NAME = private constant T_T 0.0

; C = op(A) op(B), where A is one row or B one column. In column-major words, y += op(M) x for y = 0.
;   row:    gemv("NT"[tb], M = B, x = A, y = C);     column: gemv("TN"[ta], M = A, x = B, y = C)
define internal void @vector.NAME(ptr %gemv, ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k,
    i64 %lda, i64 %ldb, i64 %ldc, i64 %ta, i64 %tb, i1 %row) nounwind {
entry:
  %count = select i1 %row, i64 %n, i64 %m
  %incy = select i1 %row, i64 1, i64 %ldc
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %clear ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %clear, label %multiply
clear:
  %at = mul i64 %i, %incy
  %y = getelementptr T_T, ptr %c, i64 %at
  store T_T 0.0, ptr %y
  %i.next = add i64 %i, 1
  br label %next
multiply:
  %ta.not = sub i64 1, %ta
  %letter = select i1 %row, i64 %tb, i64 %ta.not
  %turned = icmp ne i64 %letter, 0
  %letter.p = getelementptr i8, ptr @letters, i64 %letter
  %rows = select i1 %turned, i64 %k, i64 %count
  %columns = select i1 %turned, i64 %count, i64 %k
  %matrix = select i1 %row, ptr %b, ptr %a
  %ld = select i1 %row, i64 %ldb, i64 %lda
  %x = select i1 %row, ptr %a, ptr %b
  %ta.bit = icmp ne i64 %ta, 0
  %tb.bit = icmp ne i64 %tb, 0
  %a.inc = select i1 %ta.bit, i64 %lda, i64 1
  %b.inc = select i1 %tb.bit, i64 1, i64 %ldb
  %inc = select i1 %row, i64 %a.inc, i64 %b.inc
  %rows.p = alloca i64
  store i64 %rows, ptr %rows.p
  %columns.p = alloca i64
  store i64 %columns, ptr %columns.p
  %ld.p = alloca i64
  store i64 %ld, ptr %ld.p
  %incx.p = alloca i64
  store i64 %inc, ptr %incx.p
  %incy.p = alloca i64
  store i64 %incy, ptr %incy.p
  call void %gemv(ptr %letter.p, ptr %rows.p, ptr %columns.p, ptr @one.NAME, ptr %matrix,
    ptr %ld.p, ptr %x, ptr %incx.p, ptr @one.NAME, ptr %c, ptr %incy.p)
  ret void
}

; C[m, n] = op(A) op(B), row-major; for column-major BLAS that is C' = op(B)' op(A)'.
;   if (k <= 0) set C to zero;                                  -- an empty sum
;   else blas(&tb, &ta, &n, &m, &k, &one, b, &ldb, a, &lda, &zero, c, &ldc);
define internal void @product.NAME(ptr %blas, ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k,
    i64 %lda, i64 %ldb, i64 %ldc, i64 %ta, i64 %tb, ptr %gemv, i1 %is.row) nounwind {
entry:
  %sum = icmp sgt i64 %k, 0
  %matrices = icmp eq ptr %gemv, null
  br i1 %sum, label %terms, label %rows
terms:
  br i1 %matrices, label %multiply, label %vector
vector:
  call void @vector.NAME(ptr %gemv, ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k,
    i64 %lda, i64 %ldb, i64 %ldc, i64 %ta, i64 %tb, i1 %is.row)
  br label %done
rows:
  %i = phi i64 [ 0, %entry ], [ %i.next, %clear ]
  %more = icmp slt i64 %i, %m
  br i1 %more, label %clear, label %done
clear:
  %at = mul i64 %i, %ldc
  %row = getelementptr T_T, ptr %c, i64 %at
  %bytes = mul i64 %n, T_BYTES
  call void @llvm.memset.p0.i64(ptr %row, i8 0, i64 %bytes, i1 0)
  %i.next = add i64 %i, 1
  br label %rows
multiply:
  %m.p = alloca i64
  store i64 %m, ptr %m.p
  %n.p = alloca i64
  store i64 %n, ptr %n.p
  %k.p = alloca i64
  store i64 %k, ptr %k.p
  %lda.p = alloca i64
  store i64 %lda, ptr %lda.p
  %ldb.p = alloca i64
  store i64 %ldb, ptr %ldb.p
  %ldc.p = alloca i64
  store i64 %ldc, ptr %ldc.p
  %ta.p = getelementptr i8, ptr @letters, i64 %ta
  %tb.p = getelementptr i8, ptr @letters, i64 %tb
  call void %blas(ptr %tb.p, ptr %ta.p, ptr %n.p, ptr %m.p, ptr %k.p, ptr @one.NAME, ptr %b,
    ptr %ldb.p, ptr %a, ptr %lda.p, ptr @zero.NAME, ptr %c, ptr %ldc.p)
  br label %done
done:
  ret void
}

; The step: rows [lo, hi) of all matrices of the batch laid end to end, or columns [lo, hi).
;   for (r = lo; r < hi; r += count) { matrix = r / m; i = r % m; count = min(m - i, hi - r);
;     product(a + start(matrix, a) + i * (ta ? 1 : lda), b + start(matrix, b),
;             c + start(matrix, c) + i * ldc); }
define i32 @tracejit_gemm_NAME(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {
entry:
  %blas = load ptr, ptr %args
LOADS
  %a.rows = select i1 %ta.bit, i64 %k, i64 %m
  %a.columns = select i1 %ta.bit, i64 %m, i64 %k
  %b.rows = select i1 %tb.bit, i64 %n, i64 %k
  %b.columns = select i1 %tb.bit, i64 %k, i64 %n
  %lda = call i64 @leading(i64 %lda.given, i64 %a.rows, i64 %a.columns)
  %ldb = call i64 @leading(i64 %ldb.given, i64 %b.rows, i64 %b.columns)
  %ldc = call i64 @leading(i64 %ldc.given, i64 %m, i64 %n)
  %bad.ab = or i64 %lda, %ldb
  %bad.abc = or i64 %bad.ab, %ldc
  %bad = icmp slt i64 %bad.abc, 0
  br i1 %bad, label %refuse, label %shape
refuse:
  ret i32 22
shape:
  %some.m = icmp sgt i64 %m, 0
  %some.n = icmp sgt i64 %n, 0
  %some = and i1 %some.m, %some.n
  br i1 %some, label %choose, label %done
choose:
  %row = icmp eq i64 %m, 1
  %column = icmp eq i64 %n, 1
  %line = or i1 %row, %column
  %vectors = select i1 %line, ptr %gemv, ptr null
  br i1 %by.columns, label %slab, label %next
slab:
  %b.unit = select i1 %tb.bit, i64 %ldb, i64 1
  %b.at = mul i64 %lo, %b.unit
  %b.part = getelementptr T_GIVEN, ptr %b, i64 %b.at
  %c.part = getelementptr T_T, ptr %c, i64 %lo
  %width = sub i64 %hi, %lo
  call void @product.NAME(ptr %blas, ptr %a, ptr %b.part, ptr %c.part, i64 %m, i64 %width,
    i64 %k, i64 %lda, i64 %ldb, i64 %ldc, i64 %ta, i64 %tb, ptr %vectors, i1 %row)
  br label %done
next:
  %r = phi i64 [ %lo, %choose ], [ %r.next, %rows ]
  %more = icmp slt i64 %r, %hi
  br i1 %more, label %rows, label %done
rows:
  %matrix = sdiv i64 %r, %m
  %before = mul i64 %matrix, %m
  %i = sub i64 %r, %before
  %rest = sub i64 %m, %i
  %left = sub i64 %hi, %r
  %count = call i64 @llvm.smin.i64(i64 %rest, i64 %left)
  %a.unit = select i1 %ta.bit, i64 1, i64 %lda
  %a.row = mul i64 %i, %a.unit
  %a.matrix = call i64 @start(i64 %matrix, i64 %na, i64 %sa, i64 %ja)
  %a.at = add i64 %a.matrix, %a.row
  %a.here = getelementptr T_GIVEN, ptr %a, i64 %a.at
  %b.matrix = call i64 @start(i64 %matrix, i64 %nb, i64 %sb, i64 %jb)
  %b.here = getelementptr T_GIVEN, ptr %b, i64 %b.matrix
  %c.row = mul i64 %i, %ldc
  %c.matrix = call i64 @start(i64 %matrix, i64 %nc, i64 %sc, i64 %jc)
  %c.at = add i64 %c.matrix, %c.row
  %c.here = getelementptr T_T, ptr %c, i64 %c.at
  call void @product.NAME(ptr %blas, ptr %a.here, ptr %b.here, ptr %c.here, i64 %count, i64 %n,
    i64 %k, i64 %lda, i64 %ldb, i64 %ldc, i64 %ta, i64 %tb, ptr %vectors, i1 %row)
  %r.next = add i64 %r, %count
  br label %next
done:
  ret i32 0
}
"""


def _loads() -> str:
    """Loads of the argument words under the names the step uses."""
    given = {"lda": "lda.given", "ldb": "ldb.given", "ldc": "ldc.given"}
    renamed = {**given, "trans_a": "ta", "trans_b": "tb"}
    lines = []
    for index, name in enumerate(GEMM_ARGS):
        if name == "blas":
            continue
        name = renamed.get(name, name)
        kind = "ptr" if name in ("a", "b", "c", "gemv") else "i64"
        lines.append(f"  %{name}.p = getelementptr i64, ptr %args, i64 {index}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}.p")
    lines.append("  %ta.bit = icmp ne i64 %ta, 0")
    lines.append("  %tb.bit = icmp ne i64 %tb, 0")
    lines.append("  %by.columns = icmp ne i64 %columns, 0")
    return "\n".join(lines)
