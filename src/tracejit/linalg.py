"""Linear algebra under PyTorch's names.

>>> import tracejit as tj
>>> tj.linalg.det(tj.eye(2))
tensor(1.)
"""

from __future__ import annotations

from .errors import LinAlgError
from .ops.functions.checked_systems import cholesky_ex, tensorinv, tensorsolve
from .ops.functions.factorizations import (
    cond,
    eig,
    eigvals,
    inv_ex,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    solve_ex,
)
from .ops.functions.linear_algebra import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    svd,
    svdvals,
)
from .ops.functions.linear_algebra import inverse as inv
from .ops.functions.matrices import matmul, matrix_power
from .ops.functions.matrix_norms import cross, matrix_norm, multi_dot, norm, vander, vecdot
from .ops.functions.norms import vector_norm
from .ops.functions.reflections import householder_product
from .ops.functions.reflections import orthogonal_factors as qr
from .ops.functions.slicing import matrix_diagonal as diagonal
from .ops.functions.systems import lstsq, matrix_exp, solve_triangular
from .ops.keywords import publish

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

publish(globals(), __all__)
