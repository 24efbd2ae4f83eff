"""Weights by address, under the older path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..hub import load_state_dict_from_url
from ..hub import load_state_dict_from_url as load_url

__all__ = ["load_state_dict_from_url", "load_url", "tqdm"]


class tqdm:  # noqa: N801  (the name programs import from here)
    """Goes over what it is given and counts; no bar is shown.

    >>> with tqdm(total=10) as bar:
    ...     bar.update(4)
    ...     print(bar.n, list(tqdm([1, 2])))
    4.0 [1, 2]
    """

    def __init__(self, iterable: Any = (), total: float | None = None, **options: Any) -> None:
        del options
        self.iterable, self.total, self.n = iterable, total, 0.0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update(self, n: float = 1) -> None:
        """Count ``n`` more."""
        self.n += n

    def close(self) -> None:
        """Nothing was opened."""
