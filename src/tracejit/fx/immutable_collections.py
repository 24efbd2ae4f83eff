"""Lists and dicts that nodes hold: their users are known, so nothing may be changed in them behind the graph's back."""

from __future__ import annotations

from typing import Any, NoReturn

from ..utils import trees as pytree

__all__ = ["immutable_dict", "immutable_list"]

_HELP = (
    "To change what a node takes, make a copy, change that, and assign it: "
    "``args = list(node.args); ...; node.args = tuple(args)``."
)


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_HELP}")


class immutable_list(list[Any]):  # noqa: N801  (PyTorch's name)
    """A list that nothing can be changed in. It can be hashed.

    >>> immutable_list([1, 2])[0]
    1
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict[Any, Any]):  # noqa: N801  (PyTorch's name)
    """A dict that nothing can be changed in. It can be hashed.

    >>> immutable_dict(a=1)["a"]
    1
    """

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


pytree.register_pytree_node(
    immutable_list, lambda x: (list(x), None), lambda values, _: immutable_list(values)
)
pytree.register_pytree_node(
    immutable_dict,
    lambda x: (list(x.values()), list(x)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
)
