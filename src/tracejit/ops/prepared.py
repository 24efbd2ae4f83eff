"""What evaluates an op on small arrays again and again that lie like some that were there before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .kinds import Conversion, Elementwise
from .op import Array, Op

__all__ = ["prepared"]


def prepared(op: Op, arrays: Sequence[Any], attributes: dict[str, Any]) -> Callable[..., Array]:
    """The function that does what ``op`` does to arrays of the types, shapes and strides of ``arrays``.

    It is called where floating point errors are ignored, and for arrays that are too small to be shared by threads.

    >>> from tracejit.ops.elementwise import mul
    >>> prepared(mul, (np.ones(2), 0.5), {})(np.ones(2), 0.5)
    array([0.5, 0.5])
    """
    kind = op.evaluate(arrays, attributes).dtype
    run: Callable[..., Any] = partial(op.body, **attributes) if attributes else op.body
    if op.is_view:
        return run
    if isinstance(op, Elementwise):
        run = run if op.host is None else op.host
        conversions, _ = op.conversions(arrays, attributes)
        if conversions is not None:
            run = partial(_converting, run, conversions)
    result = run(*arrays)
    if type(result) is np.ndarray and result.dtype is kind and result.flags.c_contiguous:
        return run
    return lambda *operands: np.asarray(run(*operands), kind, order="C")


def _converting(
    run: Callable[..., Any], conversions: Sequence[tuple[int, Conversion]], *operands: Any
) -> Any:
    """What ``run`` makes of operands some of which are converted before."""
    given = list(operands)
    for position, convert in conversions:
        given[position] = convert(given[position])
    return run(*given)
