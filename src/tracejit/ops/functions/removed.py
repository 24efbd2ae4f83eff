"""Functions that PyTorch removed and keeps to say what takes their place."""

from __future__ import annotations

from typing import Any, NoReturn

from ..table import FUNCTIONS

_SINCE = "This function was deprecated since version 1.9 and is now removed."
_ADVICE = {
    "matrix_rank": "Use linalg.matrix_rank, whose `hermitian` is what `symmetric` was.",
    "symeig": "Use linalg.eigh, or linalg.eigvalsh without eigenvectors; `UPLO` says which triangle (the lower one).",
    "eig": "Use linalg.eig, or linalg.eigvals without eigenvectors; their results are complex tensors.",
    "solve": "Use linalg.solve(A, B), which takes its arguments the other way round; linalg.lu_factor has the factors.",
    "lstsq": "Use linalg.lstsq(A, B).solution, with its arguments the other way round; linalg.qr has the factors.",
}


def _removed(name: str) -> None:
    def refuse(input: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{_SINCE}\n{_ADVICE[name]}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = (
        f"Removed, always a ``RuntimeError``. {_ADVICE[name]}\n\n    >>> import tracejit as tj\n"
        f"    >>> callable(tj.{name})\n    True\n    "
    )
    FUNCTIONS[name] = refuse


for _name in _ADVICE:
    _removed(_name)
