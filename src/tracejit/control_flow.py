"""Branches and loops as functions: ``cond`` and ``while_loop``, which are Python's own here.

In compiled functions they are guards on the truth of a tensor, as an ``if`` and a ``while`` are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .tensor import Tensor
from .utils.trees import tree_leaves

__all__ = ["cond", "while_loop"]


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """``true_fn(*operands)`` if ``pred`` (a number, or a tensor with one element), else ``false_fn(*operands)``.

    Raises ``RuntimeError`` for a tensor of another size, and where it decides over other things than tensors.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0])
    >>> tj.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    tensor([2., 3.])
    """
    if not isinstance(pred, (bool, int, float)):
        _check_branches(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if pred else false_fn(*operands)


def _check_branches(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> None:
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    nested = isinstance(operands, (tuple, list))
    if not nested or not all(isinstance(x, Tensor) for x in tree_leaves(operands)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
            f"leaves, but got {operands}."
        )


def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
    """What ``body_fn(*carried)`` makes of ``carried_inputs``, called while ``cond_fn(*carried)`` is true.

    Raises ``RuntimeError`` for a condition that is not one element, and for results that are not as what they replace.

    >>> import tracejit as tj
    >>> tj.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (tj.tensor(0), tj.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    found: Any = carried_inputs
    nested = isinstance(found, (tuple, list))
    if not nested or not all(isinstance(x, (Tensor, int)) for x in tree_leaves(found)):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of "
            f"tensor or int leaves, but got {found}."
        )
    carried = found
    while _goes_on(cond_fn(*carried)):
        found = body_fn(*carried)
        after = found if isinstance(found, (tuple, list)) else (found,)
        _check_alike(tree_leaves(after), tree_leaves(carried))
        carried = after
    return found


def _goes_on(condition: Any) -> bool:
    if isinstance(condition, Tensor) and condition.numel() != 1:
        raise RuntimeError(
            f"cond_fn must return a boolean scalar tensor or a boolean but got {condition}"
        )
    return bool(condition)


def _check_alike(found: Sequence[Any], expected: Sequence[Any]) -> None:
    if [_facts(x) for x in found] != [_facts(x) for x in expected]:
        raise RuntimeError(
            "Expected body_fn_output and carried_inputs to have same metadata but found "
            f"{[_facts(x) for x in found]} and {[_facts(x) for x in expected]}"
        )


def _facts(x: Any) -> Any:
    return (x.dtype, tuple(x.shape)) if isinstance(x, Tensor) else type(x)
