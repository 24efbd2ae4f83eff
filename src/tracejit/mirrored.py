"""What stands in tensors that are the conjugates, or the negatives, of memory: computed whenever somebody looks.

``z.conj()`` is a view: it shows the memory of ``z``, and what is written to it is written there, turned back. Complex
numbers are conjugated, real ones (the imaginary parts of such a view) negated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cuda.arrays import module_of
from .meta import is_meta

__all__ = ["Mirrored", "StandIn", "memory_of_tensor", "mirrored"]


def mirrored(array: Any) -> Any:
    """The conjugates of complex numbers, the negatives of real ones, as a new array.

    >>> import numpy as np
    >>> mirrored(np.array([1.0, -2.0]))
    array([-1.,  2.])
    """
    if is_meta(array):
        return array
    n = module_of(array)
    turned = n.conjugate(array) if array.dtype.kind == "c" else n.negative(array)
    return n.asarray(turned)  # of one number NumPy makes another, which is no array


class StandIn:
    """What stands in a tensor for memory, and in all that share it with that tensor."""

    __slots__ = ()


class Mirrored(StandIn):
    """Stands in a tensor for memory whose elements are to be turned; ``array`` turns them."""

    __slots__ = ("memory",)

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    @property
    def array(self) -> Any:
        """The elements, as they are now; what would be written there would be lost."""
        found = mirrored(self.memory)
        if module_of(found) is np and found is not self.memory:
            found.flags.writeable = False
        return found


def memory_of_tensor(tensor: Any) -> Any:
    """The array whose memory a tensor shows, be it turned.

    >>> import tracejit as tj
    >>> z = tj.tensor([1 + 2j])
    >>> np.shares_memory(memory_of_tensor(z.conj()), z.array)
    True
    """
    block = tensor._block
    return block.memory if type(block) is Mirrored else tensor.array
