"""A parameter group: parameters with their hyperparameters, which compiled code reads as tensors.

A learning-rate schedule must not make a compiled step stale, nor cost a new recording. So every number of a group has,
once asked for, a 0-d float64 tensor that follows it: compiled code captures the tensor, and ``group["lr"] = 0.1``
writes into it. Changes that alter the *formula* (a flag, a number becoming zero, other parameters) count as structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..nn.structure import STRUCTURE_VERSION
from ..tensor import Tensor

_MISSING = object()
#: Numbers whose being zero or not decides what an update computes.
_SWITCHES = frozenset({"momentum", "weight_decay"})


class ParamGroup(dict[str, Any]):
    """A dict of hyperparameters and ``params`` that keeps its numbers readable as tensors."""

    __slots__ = ("_tensors", "_version")

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._tensors: dict[str, Tensor] = {}
        self._version = 0

    def number(self, name: str) -> float:
        """A hyperparameter as a Python float, also when the user gave a tensor."""
        value = self[name]
        return value if type(value) is float else float(value)

    def tensor(self, name: str) -> Tensor:
        """A hyperparameter as a 0-d tensor that follows the group's value."""
        value = self[name]
        if isinstance(value, Tensor):
            return value
        found = self._tensors.get(name)
        if found is None:
            found = self._tensors[name] = Tensor._wrap(np.array(float(value)))
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        before = self.get(name, _MISSING)
        super().__setitem__(name, value)
        self._follow(name, before, value)

    def _follow(self, name: str, before: Any, value: Any) -> None:
        """Write a new number into its tensor, or count a change of the formula."""
        if value is before:
            return
        numbers = _is_number(before) and _is_number(value)
        if numbers and (name not in _SWITCHES or (before == 0) == (value == 0)):
            tensor = self._tensors.get(name)
            if tensor is not None and float(tensor.array) != float(value):
                tensor.array[...] = value
                tensor._version.value += 1
            return
        self._tensors.pop(name, None)
        self._version += 1
        STRUCTURE_VERSION[0] += 1

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._follow(name, _MISSING, None)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several values."""
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The value under ``name``, set to ``default`` first when there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Remove and return a value."""
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def __reduce__(self) -> Any:
        return ParamGroup, (dict(self),)

    def __copy__(self) -> ParamGroup:
        return ParamGroup(dict(self))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
