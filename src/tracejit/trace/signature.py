"""What makes two calls alike: the structure of the arguments, every tensor's layout, every other value.

Arguments are flattened through tuples, lists, dicts, dataclasses and named tuples; the leaves that are tensors become
inputs, all others are part of the key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..layout import layout_of
from ..tensor import Tensor

_SIMPLE = (int, float, str, bool, type(None), bytes, complex)
_TENSOR = object()


class Static:
    """A non-tensor leaf in a key: compared by type and value, or by identity when it is an object."""

    __slots__ = ("hash", "identity", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.identity = not isinstance(value, _SIMPLE)
        self.hash = id(value) if self.identity else hash((type(value), _bits(value)))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static) or self.identity != other.identity:
            return False
        if self.identity:
            return self.value is other.value
        return type(self.value) is type(other.value) and _bits(self.value) == _bits(other.value)


def _bits(value: Any) -> Any:
    """Floats by bits: nan equals nan, 0.0 differs from -0.0."""
    return value.hex() if isinstance(value, float) else value


def flatten(value: Any, leaves: list[Any]) -> Any:
    """Append the leaves of a nested value to ``leaves``; return its structure, hashable."""
    kind = type(value)
    if isinstance(value, Tensor):
        leaves.append(value)
        return None
    if kind is tuple or kind is list:
        return (kind, tuple(flatten(v, leaves) for v in value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return (kind, tuple(flatten(v, leaves) for v in value))
    if kind is dict:
        return (dict, tuple((Static(k), flatten(v, leaves)) for k, v in value.items()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(f.name for f in dataclasses.fields(value))
        return (kind, tuple((n, flatten(getattr(value, n), leaves)) for n in names))
    return Static(value)


def unflatten(structure: Any, leaves: Any) -> Any:
    """The nested value of a structure, taking leaves from an iterator."""
    if structure is None:
        return next(leaves)
    if isinstance(structure, Static):
        return structure.value
    kind, children = structure
    if kind is dict:
        return {key.value: unflatten(child, leaves) for key, child in children}
    if kind in (tuple, list):
        return kind(unflatten(child, leaves) for child in children)
    if issubclass(kind, tuple):
        return kind(*(unflatten(child, leaves) for child in children))
    result = object.__new__(kind)
    for name, child in children:
        object.__setattr__(result, name, unflatten(child, leaves))
    return result


def statics_of(structure: Any) -> list[Any]:
    """The non-tensor leaves that are objects."""
    if structure is None:
        return []
    if isinstance(structure, Static):
        return [structure.value] if structure.identity else []
    kind, children = structure
    if kind in (tuple, list) or (isinstance(kind, type) and issubclass(kind, tuple)):
        return [s for child in children for s in statics_of(child)]
    return [s for _, child in children for s in statics_of(child)]


def tensor_key(tensor: Tensor) -> tuple[Any, bool]:
    """Layout and whether gradients are wanted."""
    return (tensor._layout or layout_of(tensor)), tensor.requires_grad


def leaf_names(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """A readable name for every tensor leaf, after the parameters of ``function``."""
    import inspect

    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"arg{i}": a for i, a in enumerate(args)} | dict(kwargs)
    names: list[str] = []
    for name, value in bound.items():
        _name_leaves(value, name, names)
    return _unique(names)


def _name_leaves(value: Any, name: str, names: list[str]) -> None:
    if isinstance(value, Tensor):
        names.append(name)
    elif isinstance(value, (tuple, list)):
        for i, v in enumerate(value):
            _name_leaves(v, f"{name}_{i}", names)
    elif isinstance(value, dict):
        for k, v in value.items():
            _name_leaves(v, f"{name}_{k}" if str(k).isidentifier() else f"{name}_{len(names)}", names)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for f in dataclasses.fields(value):
            _name_leaves(getattr(value, f.name), f"{name}_{f.name}", names)


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        result.append(name if count == 0 else f"{name}_{count}")
    return result
