"""Dictionaries whose keys are objects themselves, not what they are equal to, and are held by nothing there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any
from weakref import ref

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(ref[Any]):
    """A weak reference that is equal to others to the same object, while there is one.

    >>> class Thing: ...
    >>> thing = Thing()
    >>> WeakIdRef(thing) == WeakIdRef(thing), WeakIdRef(thing) == WeakIdRef(Thing())
    (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, ref) else None
        return self is other if mine is None or theirs is None else mine is theirs


class TensorWeakRef:
    """A weak reference to a tensor; called, it gives the tensor or None.

    >>> import tracejit as tj
    >>> x = tj.ones(1)
    >>> TensorWeakRef(x)() is x
    True
    """

    def __init__(self, tensor: Any) -> None:
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Any:
        """The tensor, while there is one."""
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary from objects to values, which forgets an object that nothing else holds.

    >>> import tracejit as tj
    >>> x = tj.ones(2)
    >>> known = WeakIdKeyDictionary({x: "x"})
    >>> known[x], tj.ones(2) in known, len(known)
    ('x', False, 1)
    >>> del x
    >>> len(known)
    0
    """

    def __init__(self, dict: Mapping[Any, Any] | None = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        known = ref(self)

        def forget(gone: Any) -> None:
            owner = known()
            if owner is not None:
                owner.data.pop(gone, None)

        self._forget = forget
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """The references to the keys."""
        return list(self.data)


#: Of tensors, which are never compared.
WeakTensorKeyDictionary = WeakIdKeyDictionary
