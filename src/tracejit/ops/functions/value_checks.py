"""Questions about the elements of operands that are asked before a function runs, as PyTorch asks them on the CPU.

What a function computes may follow from types alone (``steady``), which its questions do not: they are asked outside.
Compiled, a question is one reduction, which runs with the kernels that read the operand anyway, and one guard, which is
looked at when the program of the path is done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ...cuda.arrays import MODULES
from ...modes import MODES
from .. import comparison as c
from ..float_errors import ignore, restore
from .common import Tensor


def asked_before(ask: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function runs after ``ask`` has seen its arguments.

    >>> import tracejit as tj
    >>> tj.nn.functional.binary_cross_entropy(tj.tensor([1.5]), tj.tensor([1.0]))
    Traceback (most recent call last):
    RuntimeError: all elements of input should be between 0 and 1
    """

    def around(target: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            ask(*args, **kwargs)
            return target(*args, **kwargs)

        return call

    return around


def hold_everywhere(*conditions: Callable[[], Tensor], near: Tensor) -> bool:
    """Are all conditions true of all elements? Yes where nobody can say, or only after waiting for a device.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0])
    >>> hold_everywhere(lambda: x > 0, near=x), hold_everywhere(lambda: x > 1, near=x)
    (True, False)
    """
    if not near.spec.numel or near.is_cuda or near.is_meta:
        return True
    asked = [condition() for condition in conditions]
    found = asked[0]
    for other in asked[1:]:
        found = c.logical_and(found, other)
    return is_expected(found.all())


def is_expected(truth: Tensor) -> bool:
    """The truth of a tensor, where anything but True will be an error: compiled, it is not waited for.

    >>> import tracejit as tj
    >>> is_expected(tj.tensor([1.0, 2.0]).sum() > 2)
    True
    """
    everywhere = getattr(truth._block, "true_everywhere", None)  # of all samples it stands for
    if everywhere is not None:
        return bool(everywhere())
    before, MODES.refusing = MODES.refusing, True
    try:
        return bool(truth)
    finally:
        MODES.refusing = before


def are_shares(*tensors: Tensor) -> bool:
    """Are all elements between 0 and 1? Where nobody listens, the least and the largest tell.

    >>> import tracejit as tj
    >>> are_shares(tj.tensor([0.5, 1.0])), are_shares(tj.tensor([0.5, float("nan")]))
    (True, False)
    """
    if MODES.recorder is None and MODES.builder is None and not (MODULES or MODES.listening):
        before = ignore()  # NaN is compared like any other
        try:
            arrays = [x.array for x in tensors if x.spec.numel and not x.is_meta]
            return all(a.min() >= 0 and a.max() <= 1 for a in arrays)
        finally:
            restore(before)
    conditions = [lambda x=x: is_share(x) for x in tensors]
    return hold_everywhere(*conditions, near=tensors[0])


def is_share(x: Tensor) -> Tensor:
    """Where an element is between 0 and 1, which NaN is not.

    >>> import tracejit as tj
    >>> is_share(tj.tensor([0.5, 1.5, float("nan")]))
    tensor([ True, False, False])
    """
    return c.logical_and(c.ge(x, 0.0), c.le(x, 1.0))
