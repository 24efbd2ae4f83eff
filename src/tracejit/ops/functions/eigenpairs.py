"""The largest or smallest eigenvalues of symmetric matrices: ``lobpcg``, all of them found and the others dropped."""

from __future__ import annotations

from typing import Any

from ..linear_algebra import adjoint
from ..table import function
from .common import Tensor, check_tensor, shape_of
from .linear_algebra import cholesky, eigh
from .systems import solve_triangular


@function(method=False)
def lobpcg(
    A: Tensor,  # noqa: N803
    k: int | None = None,
    B: Tensor | None = None,  # noqa: N803
    X: Tensor | None = None,  # noqa: N803
    n: int | None = None,
    iK: Tensor | None = None,  # noqa: N803
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) solutions of A x = l B x and their vectors, for symmetric positive definite A, B.

    They are found directly and not step by step: what PyTorch's steps start from and when they end changes nothing
    but, with ``X``, how many there are. Raises ``ValueError`` for fewer than 3 ``k`` rows, as PyTorch does.

    >>> import tracejit as tj
    >>> tj.lobpcg(tj.tensor([[2.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 1.0]]), 1)[0]
    tensor([5.])
    """
    check_tensor("lobpcg", A, "A")
    rows = shape_of(A)[-2]
    if shape_of(A)[-1] != rows:
        raise AssertionError(f"A must be square, got shape {shape_of(A)}")
    count = (1 if X is None else shape_of(X)[-1]) if k is None else k
    if rows < 3 * count:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x the number "
            f"of requested eigenpairs (={count})"
        )
    count = count if X is None else min(count, shape_of(X)[-1])
    if B is None:
        values, vectors = eigh(A)
    else:
        factor = cholesky(B)
        half = solve_triangular(factor, A, upper=False)
        inner = solve_triangular(factor, adjoint(half), upper=False)
        values, vectors = eigh(inner)
        vectors = solve_triangular(adjoint(factor), vectors, upper=True)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values.narrow(-1, 0, count), vectors.narrow(-1, 0, count)
