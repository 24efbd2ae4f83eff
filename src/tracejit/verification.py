"""``compile(verify=True)``: run eagerly beside the compiled call and compare."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import VerificationError
from .tensor import Tensor
from .trace.signature import flatten

#: Relative and absolute tolerance by dtype: what fused transcendental functions and re-ordered sums may differ by.
TOLERANCES = {"f64": (1e-9, 1e-11), "f32": (1e-4, 1e-5), "f16": (1e-2, 1e-3), "bf16": (3e-2, 1e-2)}


def check_against_eager(function: Any, result: Any, args: Any, kwargs: Any) -> None:
    """Raise :class:`VerificationError` naming the first value in which ``result`` differs from an eager run."""
    from . import random

    state = random.default_generator.get_state()
    try:
        random.default_generator.set_state(function.state_before)
        expected = function.function(*args, **kwargs)
    finally:
        random.default_generator.set_state(state)
    ours: list[Any] = []
    theirs: list[Any] = []
    if flatten(result, ours) != flatten(expected, theirs):
        raise VerificationError(
            f"{function.name}: compiled and eager results have different structure"
        )
    for position, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        _compare(function.name, position, a, b)


def _compare(name: str, position: int, ours: Tensor, theirs: Tensor) -> None:
    if ours.type != theirs.type or ours.requires_grad != theirs.requires_grad:
        raise VerificationError(
            f"{name}: output {position} is {ours.type} (requires_grad={ours.requires_grad}) compiled and "
            f"{theirs.type} (requires_grad={theirs.requires_grad}) eager"
        )
    rtol, atol = TOLERANCES.get(ours.dtype.short, (0.0, 0.0))
    a, b = ours.array.astype(np.float64), theirs.array.astype(np.float64)
    with np.errstate(all="ignore"):
        same = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if not same.all():
        index = tuple(int(i) for i in np.argwhere(~same)[0]) if same.ndim else ()
        raise VerificationError(
            f"{name}: output {position} differs first at {list(index)}: compiled {a[index]!r}, eager {b[index]!r}"
        )
