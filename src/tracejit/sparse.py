"""Products with sparse matrices under PyTorch's names; matrices are dense, however they were made."""

from __future__ import annotations

from .ops.functions.softmax import log_softmax, softmax
from .ops.functions.sparse import sparse_addmm as addmm
from .ops.functions.sparse import sparse_sum as sum
from .ops.functions.sparse import spmm as mm
from .tensor_kinds import SparseKind

__all__ = [
    "DoubleTensor",
    "FloatTensor",
    "LongTensor",
    "addmm",
    "log_softmax",
    "mm",
    "softmax",
    "sum",
]

FloatTensor = SparseKind("float32")
DoubleTensor = SparseKind("float64")
LongTensor = SparseKind("int64")
