"""What functions return that give values and where they are: tuples with names, printed as PyTorch prints them.

A class for each function, called like it: programs test for ``return_types.topk``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ...tensor import Tensor

__all__ = [
    *(
        "aminmax",
        "cummax",
        "cummin",
        "kthvalue",
        "max",
        "median",
        "min",
        "mode",
        "nanmedian",
        "sort",
        "topk",
    ),
    *("Found", "ValuesAndIndices", "printed"),
]


def printed(result: NamedTuple) -> str:
    """A result with a line for each of its parts.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).topk(2)
    tracejit.return_types.topk(
    values=tensor([3, 2]),
    indices=tensor([0, 2]))
    """
    parts = ",\n".join(
        f"{name}={part!r}" for name, part in zip(result._fields, result, strict=True)
    )
    return f"tracejit.return_types.{type(result).__name__}(\n{parts})"


class ValuesAndIndices(NamedTuple):
    """Extremes (or sorted values) along a dimension, and where they were found.

    >>> import tracejit as tj
    >>> isinstance(tj.tensor([3, 1, 2]).sort(), ValuesAndIndices)
    True
    """

    values: Tensor
    indices: Tensor

    def __repr__(self) -> str:
        return printed(self)


#: One of the kinds of them.
Found = TypeVar("Found", bound=ValuesAndIndices)


class aminmax(NamedTuple):  # noqa: N801  (the function's name, here and below)
    """The least element and the largest.

    >>> import tracejit as tj
    >>> tj.aminmax(tj.tensor([3, 1, 2])).max
    tensor(3)
    """

    min: Tensor
    max: Tensor

    def __repr__(self) -> str:
        return printed(self)


class cummax(ValuesAndIndices):  # noqa: N801
    """Of ``cummax``.

    >>> import tracejit as tj
    >>> tj.tensor([1, 3, 2]).cummax(0).values
    tensor([1, 3, 3])
    """

    __slots__ = ()


class cummin(ValuesAndIndices):  # noqa: N801
    """Of ``cummin``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).cummin(0).values
    tensor([3, 1, 1])
    """

    __slots__ = ()


class kthvalue(ValuesAndIndices):  # noqa: N801
    """Of ``kthvalue``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).kthvalue(2).values
    tensor(2)
    """

    __slots__ = ()


class max(ValuesAndIndices):  # noqa: N801
    """Of ``max``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).max(0).indices
    tensor(0)
    """

    __slots__ = ()


class median(ValuesAndIndices):  # noqa: N801
    """Of ``median``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).median(0).values
    tensor(2)
    """

    __slots__ = ()


class min(ValuesAndIndices):  # noqa: N801
    """Of ``min``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).min(0).indices
    tensor(1)
    """

    __slots__ = ()


class mode(ValuesAndIndices):  # noqa: N801
    """Of ``mode``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 3, 2]).mode(0).values
    tensor(3)
    """

    __slots__ = ()


class nanmedian(ValuesAndIndices):  # noqa: N801
    """Of ``nanmedian``.

    >>> import tracejit as tj
    >>> tj.tensor([3.0, float('nan')]).nanmedian(0).values
    tensor(3.)
    """

    __slots__ = ()


class sort(ValuesAndIndices):  # noqa: N801
    """Of ``sort``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).sort().indices
    tensor([1, 2, 0])
    """

    __slots__ = ()


class topk(ValuesAndIndices):  # noqa: N801
    """Of ``topk``.

    >>> import tracejit as tj
    >>> tj.tensor([3, 1, 2]).topk(1).values
    tensor([3])
    """

    __slots__ = ()
