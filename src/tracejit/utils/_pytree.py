"""Nested tuples, lists and dicts as a list of leaves and a form, by the names programs import from PyTorch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: Any nested value.
PyTree = Any


@dataclass(frozen=True)
class NodeDef:
    """How values of a class come apart into children and a context, and together again."""

    type: type
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


#: Classes that programs registered.
SUPPORTED_NODES: dict[type, NodeDef] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    **_: Any,
) -> None:
    """Look into values of ``cls`` from here on; what is told about writing them to files is accepted and not needed.

    Raises ``ValueError`` for a class that is registered.

    >>> register_pytree_node(slice, lambda s: ([s.start, s.stop], s.step), lambda c, step: slice(*c, step))
    >>> tree_map(lambda n: n + 1, [slice(1, 2, None)])
    [slice(2, 3, None)]
    >>> _ = SUPPORTED_NODES.pop(slice)
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


@dataclass(frozen=True)
class TreeSpec:
    """The form of a nested value: its class, its keys (of a dict), the forms of its children; a leaf has no class."""

    type: Any
    context: Any
    children_specs: tuple[TreeSpec, ...]

    def is_leaf(self) -> bool:
        """Is this the form of a leaf?

        >>> tree_flatten(1)[1].is_leaf()
        True
        """
        return self.type is None

    @property
    def num_leaves(self) -> int:
        """How many leaves a value of this form has.

        >>> tree_flatten([1, (2, 3)])[1].num_leaves
        3
        """
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)


_LEAF = TreeSpec(None, None, ())


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a nested value in order, and its form; what ``is_leaf`` says is one is not looked into.

    >>> leaves, spec = tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves, tree_unflatten([4, 5, 6], spec)
    ([1, 2, 3], {'a': 4, 'b': (5, [6])})
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    kind = type(tree)
    keys, children = None, None
    if is_leaf is None or not is_leaf(tree):
        if kind in SUPPORTED_NODES:
            children, keys = SUPPORTED_NODES[kind].flatten_fn(tree)
        elif kind in (dict, OrderedDict):
            keys, children = tuple(tree), tuple(tree.values())
        elif kind in (tuple, list) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
            children = tuple(tree)
    if children is None:
        leaves.append(tree)
        return _LEAF
    return TreeSpec(kind, keys, tuple([_flatten(child, leaves, is_leaf) for child in children]))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nested value of a form, with these leaves. Raises ``ValueError`` when there are more or fewer than it has.

    >>> tree_unflatten([1, 2], tree_flatten((0, 0))[1])
    (1, 2)
    """
    found = list(leaves)
    if len(found) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: {len(found)} leaves for a form that has {treespec.num_leaves}"
        )
    return _unflatten(iter(found), treespec)


def _unflatten(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    children = [_unflatten(leaves, child) for child in spec.children_specs]
    if spec.type in SUPPORTED_NODES:
        return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)
    if spec.context is not None:
        return spec.type(zip(spec.context, children, strict=True))
    return spec.type(*children) if hasattr(spec.type, "_fields") else spec.type(children)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a nested value in order.

    >>> tree_leaves([1, {"a": 2}])
    [1, 2]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_map(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """A nested value of the same form with ``func`` of each leaf, and of the leaves at its place in ``rests``.

    Raises ``ValueError`` when one of ``rests`` has another form.

    >>> tree_map(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves]
    for rest in rests:
        more, other = tree_flatten(rest, is_leaf)
        if other != spec:
            raise ValueError("tree_map: nested values of different form")
        columns.append(more)
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_only(
    type_or_types: Any,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The same with ``func`` of the leaves that are instances of the given classes; other leaves stay.

    >>> tree_map_only(int, lambda n: n + 1, [1, "text"])
    [2, 'text']
    """
    return tree_map(lambda x: func(x) if isinstance(x, type_or_types) else x, tree, is_leaf=is_leaf)
