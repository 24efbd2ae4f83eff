"""Running one function on both libraries: results, gradients and gradients of gradients must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")


def array(x: Any) -> Any:
    return np.asarray(x.detach().numpy(force=True))


def close(ours: Any, theirs: Any, tolerance: float = 1e-9, message: str = "") -> None:
    """Shape, dtype and values; NaN and infinities in the same places."""
    assert tuple(ours.shape) == tuple(theirs.shape), message
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch."), message
    np.testing.assert_allclose(
        array(ours), array(theirs), rtol=tolerance, atol=tolerance, err_msg=message
    )


def _floats(outputs: Any) -> list[Any]:
    flat = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    return [x for x in flat if "float" in str(x.dtype)]


def _seed(like: Any, of: Any) -> Any:
    count = int(np.prod(like.shape))
    values = np.cos(np.arange(count, dtype=np.float64) * 1.3 + 0.2).reshape(tuple(like.shape))
    return of.tensor(values, dtype=like.dtype)


def _gradients(outputs: Any, inputs: Sequence[Any], of: Any, again: bool) -> list[Any]:
    """First gradients of a weighted sum; ``again``: of squares, then gradients of the squares of those."""
    if not again:
        total = sum((x * _seed(x, of)).sum() for x in _floats(outputs))
        return list(of.autograd.grad(total, inputs, allow_unused=True))
    total = sum((x * x * _seed(x, of)).sum() for x in _floats(outputs))
    first = of.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
    squares = sum((g * g * _seed(g, of)).sum() for g in first if g is not None)
    return [*first, *of.autograd.grad(squares, inputs, allow_unused=True)]


def compare(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    *,
    tolerance: float = 1e-9,
    gradients: bool = True,
    second: bool = True,
) -> None:
    """``function(library, functional, *tensors)`` on both libraries; float arrays require gradients."""
    sides = []
    for of in (tj, torch):
        tensors = [of.tensor(a.copy()) for a in arrays]
        inputs = (
            [x.requires_grad_() for x in tensors if "float" in str(x.dtype)] if gradients else []
        )
        outputs = function(of, of.nn.functional, *tensors)
        found = _gradients(outputs, inputs, of, second) if gradients else []
        sides.append((outputs if isinstance(outputs, (tuple, list)) else (outputs,), found))
    (ours, our_gradients), (theirs, their_gradients) = sides
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b, tolerance, "result")
    for position, (a, b) in enumerate(zip(our_gradients, their_gradients, strict=True)):
        zero = a is None or b is None
        if zero:
            known = b if a is None else a
            assert known is None or not np.any(array(known)), f"gradient {position}"
        else:
            close(a, b, tolerance * 100, f"gradient {position}")


def same_error(function: Callable[..., Any]) -> None:
    """Both libraries refuse the call, with classes that one ``except`` clause catches."""
    with pytest.raises(Exception) as theirs:
        function(torch, torch.nn.functional)
    assert theirs.type in (
        RuntimeError,
        ValueError,
        IndexError,
        TypeError,
        NotImplementedError,
        AssertionError,
    )
    with pytest.raises(theirs.type):
        function(tj, tj.nn.functional)
