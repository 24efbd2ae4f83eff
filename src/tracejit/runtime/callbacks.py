"""The functions of Python that native code calls: the address of a tensor's elements, and the error of a failed step.

They import nothing of plans and code generation: eager code loads the native runtime, too.
"""

from __future__ import annotations

from typing import Any

from ..cuda.arrays import address_of
from ..mirrored import Mirrored

__all__ = ["KernelFailure", "fail", "pointer_of"]


class KernelFailure(Exception):
    """A kernel refused its input (an index out of range, ...): the eager function will say why."""


def fail(code: int) -> None:
    """Raise :class:`KernelFailure` for the code that a launch returned: the step and what it said.

    >>> fail((3 << 32) + 1)
    Traceback (most recent call last):
    ...
    tracejit.runtime.callbacks.KernelFailure: step 2 returned 1
    """
    raise KernelFailure(f"step {(code >> 32) - 1} returned {code & 0xFFFFFFFF}")


def pointer_of(tensor: Any) -> int:
    """Address of a tensor's first element, remembered by the tensor.

    >>> import tracejit as tj
    >>> x = tj.ones(3)
    >>> pointer_of(x) == x.data_ptr()
    True
    """
    assert type(tensor._block) is not Mirrored, "the elements lie nowhere"
    while True:
        array = tensor.array
        pointer: int = address_of(array)
        tensor._pointer = pointer
        if tensor._array is array:  # no other thread gave it other memory meanwhile
            return pointer
        tensor._pointer = 0
