"""Many products of small matrices, and of many rows with one small matrix, as sums: kernels compute them side by side.

Before::

    graph f(x: f32[900, 3, 3], y: f32[900, 3, 3]) {
        %0: f32[900, 3, 3] = matmul(x, y)
        return %0
    }

After::

    graph f(x: f32[900, 3, 3], y: f32[900, 3, 3]) {
        %0: f32[900, 3, 3] = permute(y, dims=(0, 2, 1))
        %1: f32[900, 3, 1, 3] = unsqueeze(x, dims=(2,))
        %2: f32[900, 1, 3, 3] = unsqueeze(%0, dims=(1,))
        %3: f32[900, 3, 3, 3] = mul(%1, %2)
        %4: f32[900, 3, 3] = sum(%3, dims=(3,), keepdim=False)
        return %4
    }

A library takes longer to be asked for such a product than to compute it, and cannot be fused with what comes before and
after. The kernel prints the elements of the small matrices apart and works on as many products at once as vectors have
lanes (decision 0057). In loops products stay: there are few at a time.
"""

from __future__ import annotations

from ...extents import hint
from ...ir.graph import Graph, Value
from ...ops.contraction import matmul
from ...ops.shapes import numel
from ..fusion.groups import varies
from ..rewrite import Rewriter

#: The longest sum, the most elements of a result that is one of many, and the most columns of many rows' results.
TERMS, RESULTS, COLUMNS = 8, 16, 8
#: Fewer terms in all are not worth a kernel for one size of matrices.
LEAST = 1 << 12


def small_products(graph: Graph) -> Graph:
    """``graph`` with products of many small matrices, in single or double precision, as sums.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[9, 3], y: f32[3, 3]) { %0: f32[9, 3] = matmul(x, y) return %0 }")
    >>> small_products(graph) is graph
    True
    """
    if not any(map(_is_small, graph.values)):
        return graph
    return Rewriter(graph.name, {"matmul": (_as_sum,)}).run(graph)


def _is_small(value: Value) -> bool:
    """Is this a product of many small matrices, or of many rows with a small matrix?"""
    if value.op is not matmul or value.spec.dtype.short not in ("f32", "f64"):
        return False
    x, y = (v.spec for v in value.value_operands)
    m, n, k = x.shape[-2], y.shape[-1], x.shape[-1]
    sizes = (k, n) if value.spec.ndim == 2 else (m, n, k)
    rows = hint(m) if value.spec.ndim > 2 else 1
    if not 0 < hint(k) <= TERMS or not 0 < rows * hint(n) <= (RESULTS if rows > 1 else COLUMNS):
        return False
    return not any(map(varies, sizes)) and hint(numel(value.spec.shape)) * hint(k) >= LEAST


def _as_sum(rewriter: Rewriter, value: Value) -> Value | None:
    if not _is_small(value):
        return None
    x, y = value.value_operands
    ndim, line = value.spec.ndim, value.line
    last = y.spec.ndim - 1
    turned = rewriter.write("permute", (y,), line, dims=(*range(last - 1), last, last - 1))
    rows = rewriter.write("unsqueeze", (x,), line, dims=(x.spec.ndim - 1,))
    columns = rewriter.write("unsqueeze", (turned,), line, dims=(last - 1,))
    terms = rewriter.write("mul", (rows, columns), line)
    return rewriter.write("sum", (terms,), line, dims=(ndim,), keepdim=False)
