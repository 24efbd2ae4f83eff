"""Modules that hold parameters: ParameterList and ParameterDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex

from ..questions import typename
from ..tensor import Tensor
from .module import Module
from .parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value: Any) -> Any:
    """Plain tensors become parameters; other values are kept as they are."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(key: Any, value: Any, spelled: Callable[[Tensor], str]) -> str:
    """A line about an entry, indented as what it is beside sub-modules; ``spelled`` tells a tensor's dtype."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.shape)
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    device = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"  ({key}): {kind} containing: [{spelled(value)} of size {size}{device}]"


def _checked_pairs(values: Any) -> Iterator[Any]:
    """The entries of ``values``, or what PyTorch says of those that are no pairs."""
    if not isinstance(values, Iterable):
        raise TypeError(
            "ParametersDict.update should be called with an iterable of key/value pairs, but got "
            + type(values).__name__
        )
    for number, pair in enumerate(values):
        start = f"ParameterDict update sequence element #{number}"
        if not isinstance(pair, Iterable):
            raise TypeError(f"{start} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:  # type: ignore[arg-type]
            raise ValueError(f"{start} has length {len(pair)}; 2 is required")  # type: ignore[arg-type]
        yield pair


def _dtype(value: Tensor) -> str:
    return repr(value.dtype)


class ParameterList(Module):
    """A list of parameters that belong to the model; plain tensors put into it become parameters.

    >>> import tracejit as tj
    >>> weights = tj.nn.ParameterList([tj.zeros(2), tj.zeros(3)])
    >>> [tuple(p.shape) for p in weights.parameters()]
    [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: SupportsIndex) -> str:
        index = operator.index(index)
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range")
        return str(index % self._size)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._key(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(i)) for i in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add ``value`` at the end; returns self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Any) -> ParameterList:
        """Add every value at the end; returns self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line for each parameter."""
        return "\n".join(_describe(i, value, _dtype) for i, value in enumerate(self))


class ParameterDict(Module):
    """Parameters by name that belong to the model; plain tensors put into it become parameters.

    >>> import tracejit as tj
    >>> gains = tj.nn.ParameterDict({"left": tj.ones(1), "right": tj.ones(1)})
    >>> list(gains), len(list(gains.parameters()))
    (['left', 'right'], 2)
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> None:
        super().__init__()
        self._names: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._names:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}')."
            )
        if key not in self._names and hasattr(self, key):
            raise KeyError(f"attribute '{key}' already exists")
        self._names[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._names[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._names.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return (self[name] for name in self._names)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names with their parameters."""
        return ((name, self[name]) for name in self._names)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter called ``key``, or ``default``."""
        return self[key] if key in self else default  # noqa: SIM401 (this is get)

    def pop(self, key: str) -> Any:
        """Remove and return the parameter called ``key``."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Remove every parameter."""
        for key in list(self._names):
            del self[key]

    def popitem(self) -> tuple[str, Any]:
        """Remove the entry that was added last, and return its name and value."""
        name = next(reversed(self._names), None)
        if name is None:
            raise KeyError("popitem(): dictionary is empty")
        return name, self.pop(name)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter called ``key``; if there is none, ``default`` is put there before."""
        if key not in self:
            self[key] = default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another one with ``default`` under each of ``keys``."""
        return ParameterDict((key, default) for key in keys)

    def copy(self) -> ParameterDict:
        """Another one with the same parameters, in the same order."""
        return ParameterDict(OrderedDict(self.items()))

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._names))

    def __or__(self, other: ParameterDict) -> ParameterDict:
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        both = other.copy()
        both.update(self)
        return both

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def update(self, parameters: Mapping[str, Any] | Iterable[Any]) -> None:
        """Add parameters from a mapping or from (name, value) pairs; those of a plain dict in the order of names.

        >>> import tracejit as tj
        >>> list(tj.nn.ParameterDict({"weight": tj.ones(1), "bias": tj.ones(1)}))
        ['bias', 'weight']
        """
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs: Any = list(parameters.items())
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = _checked_pairs(parameters)
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """One line for each parameter."""
        return "\n".join(_describe(key, value, typename) for key, value in self.items())
