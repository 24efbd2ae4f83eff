"""What nested values are asked and what is done to all of their leaves, in the less common ways."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from .trees import SUPPORTED_NODES, TreeSpec, tree_iter, tree_leaves, tree_map

__all__ = [
    "LeafSpec",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "tree_all_only",
    "tree_any_only",
    "tree_is_leaf",
    "tree_map_",
    "tree_map_only_",
]

#: What is kept of a value besides its children, and the functions that take values apart, in annotations.
Context = Any
FlattenFunc = FlattenFn = Callable[[Any], tuple[Any, Any]]
UnflattenFunc = UnflattenFn = Callable[[Any, Any], Any]
#: Classes whose values may be extended have this bit among their flags.
_EXTENSIBLE = 1 << 10


class _Leaves(type):
    """The class of leaves' forms: any form that is one belongs to it."""

    def __instancecheck__(cls, spec: object) -> bool:
        return isinstance(spec, TreeSpec) and spec.is_leaf()


class LeafSpec(TreeSpec, metaclass=_Leaves):
    """The form of a leaf; every form that is one is an instance.

    >>> from tracejit.utils._pytree import tree_structure
    >>> LeafSpec() == tree_structure(1), isinstance(tree_structure([1]), LeafSpec)
    (True, False)
    """

    def __new__(cls) -> TreeSpec:  # type: ignore[misc]  # forms of leaves are all equal, and of one class
        """The one form that there is of leaves."""
        return TreeSpec(None, None, ())


def _get_node_type(tree: Any) -> Any:
    """The class under which it is known how a value comes apart: one for all named tuples."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


def is_namedtuple_class(cls: Any) -> bool:
    """Is this a class of named tuples?

    >>> is_namedtuple_class(tuple)
    False
    """
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Is this a named tuple?

    >>> is_namedtuple_instance((1, 2))
    False
    """
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Is this a named tuple, or a class of them?

    >>> from collections import namedtuple
    >>> is_namedtuple(namedtuple("Point", "x y"))
    True
    """
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Is this a class of tuples with names that the interpreter itself defines, as ``time.struct_time``?

    >>> import time
    >>> is_structseq_class(time.struct_time), is_structseq_class(tuple)
    (True, False)
    """
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, name, None), int) for name in counts)
        and not cls.__flags__ & _EXTENSIBLE
    )


def is_structseq_instance(obj: object) -> bool:
    """Is this a tuple of a class that :func:`is_structseq_class` tells of?

    >>> is_structseq_instance((1, 2))
    False
    """
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """The same of an object, or of a class.

    >>> import time
    >>> is_structseq(time.gmtime(0)), is_structseq(time.struct_time)
    (True, True)
    """
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Is the value looked into no further?

    >>> tree_is_leaf(1), tree_is_leaf([1]), tree_is_leaf([1], is_leaf=lambda x: True)
    (True, False, True)
    """
    if is_leaf is not None and is_leaf(tree):
        return True
    return type(tree) not in SUPPORTED_NODES and not is_namedtuple_instance(tree)


def tree_map_(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Call ``func`` on the leaves for what it does to them; the value itself comes back.

    >>> found = []
    >>> tree_map_(found.append, (1, [2])), found
    ((1, [2]), [1, 2])
    """
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only_(
    type_or_types: Any,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The same for the leaves that are instances of the given classes.

    >>> found = []
    >>> tree_map_only_(int, found.append, (1, "text")), found
    ((1, 'text'), [1])
    """
    for leaf in tree_leaves(tree, is_leaf):
        if isinstance(leaf, type_or_types):
            func(leaf)
    return tree


def tree_all_only(
    type_or_types: Any,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Does ``pred`` hold for all leaves that are instances of the given classes?

    >>> tree_all_only(int, lambda n: n > 0, [1, "text"])
    True
    """
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Does ``pred`` hold for one of them at least?

    >>> tree_any_only(int, lambda n: n > 1, [1, "text"])
    False
    """
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))
