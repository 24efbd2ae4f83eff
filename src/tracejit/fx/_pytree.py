"""Containers by a form that is known: what generated code has for its arguments."""

from __future__ import annotations

from typing import Any

from ..utils.trees import TreeSpec, tree_flatten

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of ``pytree`` where ``spec`` has its own: containers in the place of a leaf stay together.

    >>> from tracejit.utils._pytree import tree_flatten
    >>> tree_flatten_spec(["a", ("b", "c")], tree_flatten([1, 2])[1])
    ['a', ('b', 'c')]
    """
    if spec.is_leaf():
        return [pytree]
    if issubclass(spec.type, dict):
        children = [pytree[key] for key in spec.context]
    elif issubclass(spec.type, (list, tuple)):
        children = [pytree[i] for i in range(len(spec.children_specs))]
    else:
        leaves, found = tree_flatten(pytree)
        if found != spec:
            raise RuntimeError(
                f"Real spec {found} of object {pytree} is different from expected spec {spec}."
            )
        return leaves
    pairs = zip(children, spec.children_specs, strict=True)
    return [leaf for child, form in pairs for leaf in tree_flatten_spec(child, form)]
