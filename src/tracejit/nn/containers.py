"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, cast

from .module import Module, not_a_module
from .printing import list_repr

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Numbered(Module):
    """Modules under the names "0", "1", ..."""

    def _key(self, index: Any) -> str:
        """The name of the module at ``index`` (negative counts from the end)."""
        position = operator.index(index)
        size = len(self)
        if not -size <= position < size:
            raise IndexError(f"index {position} is out of range")
        return list(self._modules)[position % size]

    def _refill(self, modules: list[Any]) -> None:
        """Hold exactly ``modules``, numbered from zero."""
        for name in list(self._modules):
            delattr(self, name)
        for position, module in enumerate(modules):
            self.add_module(str(position), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self._modules.values())
        del modules[
            index if isinstance(index, slice) else list(self._modules).index(self._key(index))
        ]
        self._refill(modules)

    def append(self, module: Module) -> Any:
        """Add ``module`` at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add every module at the end; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add ``module`` before the one at ``index``; returns self."""
        if not isinstance(module, Module):
            raise not_a_module(module)
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._refill(modules)
        return self

    def pop(self, key: int = -1) -> Any:
        """Remove and return the module at ``key``."""
        module = self._modules[self._key(key)]
        del self[key]
        return module

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Numbered):
    """Modules called one after the other, each on the result of the one before.

    Takes modules, or one ``OrderedDict`` of names and modules. Indexing gives a module, slicing a ``Sequential``.

    >>> import tracejit as tj
    >>> net = tj.nn.Sequential(tj.nn.Linear(4, 8), tj.nn.ReLU(), tj.nn.Linear(8, 2))
    >>> net(tj.zeros(3, 4)).shape, len(net[:2])
    (tracejit.Size([3, 2]), 2)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named: Iterable[tuple[str, Any]] = ((str(i), m) for i, m in enumerate(args))
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """The last module's result."""
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other: Sequential) -> Sequential:
        _check_added(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        _check_added(other)
        return cast("Self", self.extend(other))

    def __mul__(self, times: int) -> Sequential:
        self._check_times(times)
        return Sequential(*(list(self) * times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        self._check_times(times)
        return cast("Self", self.extend(list(self) * (times - 1)))

    def _check_times(self, times: Any) -> None:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")


def _check_added(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )


class ModuleList(_Numbered):
    """A list of modules whose parameters belong to the model.

    >>> import tracejit as tj
    >>> layers = tj.nn.ModuleList(tj.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._key(index)]

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        self.extend(modules)
        return self

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        return list_repr(self._get_name(), [repr(m) for m in self])


class ModuleDict(Module):
    """Modules by name whose parameters belong to the model.

    >>> import tracejit as tj
    >>> acts = tj.nn.ModuleDict({"relu": tj.nn.ReLU(), "tanh": tj.nn.Tanh()})
    >>> list(acts), acts["relu"]
    (['relu', 'tanh'], ReLU())
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        if key not in self._modules:
            raise KeyError(key)
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names with their modules."""
        return self._modules.items()

    def clear(self) -> None:
        """Remove every module."""
        for key in list(self._modules):
            delattr(self, key)

    def pop(self, key: str) -> Any:
        """Remove and return the module called ``key``."""
        module = self[key]
        del self[key]
        return module

    def update(self, modules: Mapping[str, Module] | Iterable[Any]) -> None:
        """Add modules from a mapping or from (name, module) pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for pair in list(pairs):
            if not isinstance(pair, Iterable) or len(list(pair)) != 2:
                raise ValueError("ModuleDict.update takes a mapping or (name, module) pairs")
            key, module = pair
            self[key] = module
