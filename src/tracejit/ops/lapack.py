"""LAPACK on the host and its counterparts on a device: errors, precision and threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from ..errors import LinAlgError
from .host_matrices import solve_triangle
from .lapack_errors import reason
from .library_threads import one_thread
from .namespace import wide, xp
from .side_by_side import triangles
from .table import Array


def guarded(name: str, function: Any, *operands: Array) -> Array:
    """LAPACK's result in the dtype of the operands; half precision computes in float32."""
    with _watched(*operands):
        found: Array = refusing(name, function, *map(wide, operands))
    return found.astype(operands[0].dtype, copy=False)


def refusing(name: str, function: Any, *operands: Array) -> Any:
    """What the function gives; NumPy's errors about matrices become those of the function ``name``."""
    try:
        return function(*operands)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(reason(name, operands[0], str(error))) from None


def on_the_host(x: Array) -> Array:
    """x as NumPy's array, for routines without counterpart on devices; half precision as float32."""
    return wide(x if isinstance(x, np.ndarray) else x.get())


def like_given(found: Array, x: Array) -> Array:
    """What was found on the host, where x lies."""
    if isinstance(x, np.ndarray):
        return found.astype(x.dtype, copy=False)
    import cupy

    return cupy.asarray(found, x.dtype)


def regular(factors: Array) -> Array:
    """L and U in one matrix, where there is no zero on the diagonal of U; that is an error."""
    if bool((xp(factors).diagonal(factors, 0, -2, -1) == 0).any()):
        raise LinAlgError(reason("lu_factor", factors, "U has a zero on its diagonal"))
    return factors


def _watched(*operands: Array) -> AbstractContextManager[Any]:
    """On a device, singular matrices and the like are looked for only where that is asked for."""
    if xp(*operands) is np:
        return nullcontext()
    import cupyx

    return cupyx.errstate(linalg="raise")  # type: ignore[no-any-return]


#: Fewest matrices of a batch, for every row that they have, that are solved row by row, all of them at once.
MANY = 4


def solve_triangles(a: Array, b: Array, lower: bool, out: Array) -> None:
    """Write X with ``a @ X = b`` to ``out``, for matrices in equal batches of which a triangle of ``a`` is read."""
    if triangles(a, b, lower, out):
        return
    batch, rows = out.shape[:-2], out.shape[-2]
    if xp(a, b) is np and math.prod(batch) >= MANY * rows:
        _substitute(a, b, lower, out)
        return
    solved = _triangle_solver(a, b, lower)
    with nullcontext() if xp(a, b) is not np else one_thread():
        for index in np.ndindex(*batch):
            out[index] = solved(a[index], b[index])


def _substitute(a: Array, b: Array, lower: bool, out: Array) -> None:
    """One row of the solution after the other: a call of LAPACK takes longer than a small matrix does."""
    rows = out.shape[-2]
    with np.errstate(all="ignore"):
        for row in range(rows) if lower else reversed(range(rows)):
            known = np.s_[:row] if lower else np.s_[row + 1 :]
            rest = a[..., row : row + 1, known] @ out[..., known, :]
            diagonal = a[..., row, row, None]
            out[..., row, :] = (b[..., row, :] - rest[..., 0, :]) / diagonal


def _triangle_solver(a: Array, b: Array, lower: bool) -> Callable[[Array, Array], Array]:
    """A function of two matrices like these."""
    if xp(a, b) is not np:
        from cupyx.scipy.linalg import solve_triangular

        return partial(solve_triangular, lower=lower)
    return partial(solve_triangle, lower=lower)
