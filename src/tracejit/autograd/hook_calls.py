"""Calling hooks of nodes and tensors, and what they may return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, AutogradError

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Node

Gradients = list["Tensor | None"]

#: The error of a hook that makes a gradient where there is none.
NO_GRADIENT = "can't replace a None gradient with a non-None value"


def replaced(present: Tensor | None, changed: Any, hook: Any) -> Tensor | None:
    """What a tensor hook makes of a gradient, or of none, checked."""
    if changed is None:
        return present
    if present is None:
        raise AutogradError(NO_GRADIENT)
    name = getattr(hook, "__name__", type(hook).__name__)
    if not hasattr(changed, "_edge"):
        raise ArgumentError(
            f"expected Variable, but hook returned '{type(changed).__name__}' (hook '{name}')"
        )
    if changed.spec.shape != present.spec.shape:
        raise AutogradError(f"hook '{name}' has changed the size of value")
    if changed.dtype is not present.dtype:
        raise AutogradError(f"hook '{name}' has changed the type of value")
    result: Tensor = changed
    return result


def run_prehooks(node: Node, grads: Gradients) -> Gradients:
    """The gradients of a node's outputs after its prehooks."""
    for hook in tuple((node.prehooks or {}).values()):
        changed = hook(tuple(grads))
        if changed is not None:
            grads = list(_kept_absent(grads, changed))
    return grads


def run_posthooks(
    node: Node, results: Sequence[Tensor | None], grads: Gradients
) -> Sequence[Tensor | None]:
    """The gradients of a node's inputs after its hooks."""
    for hook in tuple((node.hooks or {}).values()):
        changed = hook(tuple(results), tuple(grads))
        if changed is not None:
            count = len(results)
            results = _kept_absent(results, changed)
            if len(results) != count:
                name = getattr(hook, "__name__", type(hook).__name__)
                raise AutogradError(
                    f"hook '{name}' has returned an incorrect number of values (got {len(results)}, "
                    f"but expected {count})"
                )
    return results


def _kept_absent(present: Sequence[Tensor | None], changed: Any) -> tuple[Tensor | None, ...]:
    """What a hook returned instead of gradients: none where there was none."""
    new = (changed,) if hasattr(changed, "_edge") else tuple(changed)
    if any(old is None and g is not None for old, g in zip(present, new, strict=False)):
        raise AutogradError(NO_GRADIENT)
    return new
