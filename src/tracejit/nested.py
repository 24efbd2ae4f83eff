"""Tensors of rows with sizes of their own, by PyTorch's names: there are none, and what would make one refuses.

Programs import the names and take the other way: rows that are padded, with a mask, or a list of tensors.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "as_nested_tensor",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(tensor_list: Any, **_: Any) -> NoReturn:
    """Refused: raises ``NotImplementedError``, as the others here do.

    >>> nested_tensor([[1.0], [2.0, 3.0]])
    Traceback (most recent call last):
    NotImplementedError: nested tensors are not made: pad the rows, or keep a list of tensors
    """
    raise NotImplementedError(
        "nested tensors are not made: pad the rows, or keep a list of tensors"
    )


as_nested_tensor = nested_tensor_from_jagged = to_padded_tensor = nested_tensor


def narrow(tensor: Any, dim: int, start: Any, length: Any, layout: Any = None) -> NoReturn:
    """Refused, as :func:`nested_tensor` is.

    >>> narrow([1.0, 2.0], 0, 0, 1)
    Traceback (most recent call last):
    NotImplementedError: nested tensors are not made: ...
    """
    nested_tensor(tensor)
