"""Nested tuples, lists and dicts as a list of leaves and a form, by the names programs import from PyTorch."""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .tree_nodes import GetAttrKey, MappingKey, NodeDef, SequenceKey, node_of_fields

#: Any nested value.
PyTree = Any
#: The steps that lead from a nested value to one of its leaves.
KeyPath = tuple[Any, ...]


def _dict_flatten(d: dict[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(d.values()), tuple(d)


def _dict_flatten_with_keys(
    d: dict[Any, Any],
) -> tuple[list[tuple[MappingKey, Any]], tuple[Any, ...]]:
    return [(MappingKey(key), value) for key, value in d.items()], tuple(d)


def _dict_unflatten(values: Iterable[Any], context: Iterable[Any]) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _items(sequence: Iterable[Any]) -> list[tuple[SequenceKey, Any]]:
    return [(SequenceKey(i), item) for i, item in enumerate(sequence)]


def _node(
    kind: type, context: Callable[[Any], Any], unflatten: Callable[[Iterable[Any], Any], Any]
) -> NodeDef:
    """How a class of Python's own comes apart; ``context`` is what is kept of a value besides its children."""
    if issubclass(kind, dict):
        return NodeDef(
            kind,
            lambda d: (tuple(d.values()), context(d)),
            unflatten,
            lambda d: (_dict_flatten_with_keys(d)[0], context(d)),
        )
    return NodeDef(
        kind, lambda s: (tuple(s), context(s)), unflatten, lambda s: (_items(s), context(s))
    )


#: How the values of a class come apart, for all classes that are looked into; programs add theirs.
SUPPORTED_NODES: dict[type, NodeDef] = {
    node.type: node
    for node in (
        _node(tuple, lambda _: None, lambda items, _: tuple(items)),
        _node(list, lambda _: None, lambda items, _: list(items)),
        _node(deque, lambda d: d.maxlen, deque),
        NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
        _node(OrderedDict, tuple, lambda items, keys: OrderedDict(zip(keys, items, strict=True))),
        _node(
            defaultdict,
            lambda d: (d.default_factory, tuple(d)),
            lambda items, context: defaultdict(context[0], zip(context[1], items, strict=True)),
        ),
    )
}
#: Named tuples of every class.
_NAMED = NodeDef(
    tuple,
    lambda named: (tuple(named), type(named)),
    lambda items, kind: kind(*items),
    lambda named: (
        [(GetAttrKey(name), item) for name, item in zip(named._fields, named, strict=True)],
        type(named),
    ),
)

SUPPORTED_NODES[namedtuple] = _NAMED  # type: ignore[index]  # under their maker, which stands for them all

_namedtuple_flatten, _namedtuple_unflatten = _NAMED.flatten_fn, _NAMED.unflatten_fn


def _node_of(kind: type) -> NodeDef | None:
    """How values of a class come apart; None for leaves."""
    found = SUPPORTED_NODES.get(kind)
    if found is None and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _NAMED
    return found


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Look into values of ``cls`` from here on; what is told about writing them to files is accepted and not needed.

    ``flatten_with_keys_fn`` gives pairs of the step to a child and the child, for functions that give paths.
    Raises ``ValueError`` for a class that is registered.

    >>> register_pytree_node(slice, lambda s: ([s.start, s.stop], s.step), lambda c, step: slice(*c, step))
    >>> tree_map(lambda n: n + 1, [slice(1, 2, None)])
    [slice(2, 3, None)]
    >>> _ = SUPPORTED_NODES.pop(slice)
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Look into values of a dataclass: their fields, or ``field_names``, are children; ``drop_field_names`` are not.

    A class that is registered is registered anew, with a warning. Raises ``ValueError`` where fields are left out, or
    where those of a class that is no dataclass are not named.

    >>> Pair = dataclass(type("Pair", (), {"__annotations__": {"a": int, "b": int}}))
    >>> register_dataclass(Pair)
    >>> tree_map(lambda n: n + 1, [Pair(1, 2)])
    [Pair(a=2, b=3)]
    """
    node = node_of_fields(cls, field_names, drop_field_names)
    if cls in SUPPORTED_NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
    SUPPORTED_NODES[cls] = node


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
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(kind)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, tuple([_flatten(child, leaves, is_leaf) for child in children]))


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
    node = _node_of(spec.type)
    assert node is not None, f"{spec.type} was registered when this form was made"
    return node.unflatten_fn(
        [_unflatten(leaves, child) for child in spec.children_specs], spec.context
    )


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a nested value in order.

    >>> tree_leaves([1, {"a": 2}])
    [1, 2]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves of a nested value in order, one after the other.

    >>> next(tree_iter([1, {"a": 2}]))
    1
    """
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(type(tree))
    if node is None:
        yield tree
        return
    for child in node.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


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


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The form of a nested value.

    >>> tree_structure([1, 2]) == tree_structure(["a", "b"])
    True
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_all(
    pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Does ``pred`` hold for all leaves?

    >>> tree_all(lambda n: n > 0, {"a": [1, 2]})
    True
    """
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Does ``pred`` hold for one leaf at least?

    >>> tree_any(lambda n: n > 1, {"a": [1, 2]})
    True
    """
    return any(map(pred, tree_leaves(tree, is_leaf)))


def keystr(kp: KeyPath) -> str:
    """The steps to a leaf as Python spells them.

    >>> [keystr(path) for path, _ in tree_leaves_with_path({"a": [1, (2,)]})]
    ["['a'][0]", "['a'][1][0]"]
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies at the end of the steps.

    >>> key_get({"a": [1, 2]}, (MappingKey("a"), SequenceKey(1)))
    2
    """
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[KeyPath, Any]]:
    """The leaves in order, each behind the steps that lead to it.

    Raises ``ValueError`` for values of a class that was registered without ``flatten_with_keys_fn``.

    >>> tree_leaves_with_path({"a": [7]})
    [((MappingKey(key='a'), SequenceKey(idx=0)), 7)]
    """
    return list(_with_paths((), tree, is_leaf))


def _with_paths(
    path: KeyPath, tree: Any, is_leaf: Callable[[Any], bool] | None
) -> Iterator[tuple[KeyPath, Any]]:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(type(tree))
    if node is None:
        yield path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"{type(tree)} was registered without flatten_with_keys_fn: there are no paths into it"
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """:func:`tree_leaves_with_path`, and the form of the value.

    >>> tree_flatten_with_path([5])[0]
    [((SequenceKey(idx=0),), 5)]
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """:func:`tree_map` whose function gets the steps that lead to the leaf first.

    >>> tree_map_with_path(lambda path, n: keystr(path) + str(n), {"a": [1, 2]})
    {'a': ["['a'][0]1", "['a'][1]2"]}
    """
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    return tree_map(lambda *leaves: func(next(paths), *leaves), tree, *rests, is_leaf=is_leaf)
