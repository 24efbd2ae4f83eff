"""A parameter group: parameters with their hyperparameters, which compiled code reads at every step.

A learning-rate schedule must not make a compiled step stale, nor cost a new recording. So numbers are read anew by
every step, compiled or not, and only changes that alter the *formula* (a flag, a number becoming zero, other
parameters) count as structure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..modes import MODES
from ..nn.structure import STRUCTURE_VERSION
from ..varying import as_number
from .maths import Mix
from .recorded import made_inside, refuse_inside
from .set_inside import is_number as _is_number
from .set_inside import set_inside

_MISSING = object()
#: Numbers whose being zero or not decides what an update computes.
_SWITCHES = frozenset({"momentum", "weight_decay"})


class Parameters(list[Any]):
    """The parameters of a group: a list that tells its group when it changes."""

    __slots__ = ("group",)

    def __init__(self, values: Iterable[Any], group: ParamGroup) -> None:
        super().__init__(values)
        self.group = group

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles are plain lists, until they are put into a group."""
        return list, (list(self),)


def _telling(name: str) -> Callable[..., Any]:
    """A list's method that changes it, followed by a word to the group."""
    method = getattr(list, name)

    @functools.wraps(method)
    def tell(self: Parameters, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        finally:
            self.group.changed()

    return tell


for _name in (
    *("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend"),
    *("insert", "pop", "remove", "reverse", "sort"),
):
    setattr(Parameters, _name, _telling(_name))


class ParamGroup(dict[str, Any]):
    """A dict of hyperparameters and ``params`` that counts changes of what an update computes.

    One that is ``plain`` belongs to an optimizer whose update is Python of the user's, which reads it as any dict.
    """

    __slots__ = ("_version", "plain")

    def __init__(self, values: Mapping[str, Any], plain: bool = False) -> None:
        super().__init__(values)
        self._version = 0
        self.plain = plain
        if type(values.get("params")) is list:
            super().__setitem__("params", Parameters(values["params"], self))

    def changed(self) -> None:
        """Count a change."""
        self._version += 1
        STRUCTURE_VERSION[0] += 1

    def number(self, name: str) -> float:
        """A hyperparameter as a Python float, also when the user gave a tensor."""
        number: float = as_number(self[name])
        return number

    def __setitem__(self, name: str, value: Any) -> None:
        before = self.get(name, _MISSING)
        if not self.plain and MODES.recorder is not None and not made_inside(self):
            set_inside(self, name, value, lambda: _formula(name, before) == _formula(name, value))
        if name == "params" and isinstance(value, list) and value is not before:
            value = Parameters(value, self)
        super().__setitem__(name, value)
        self._follow(name, before, value)

    def _follow(self, name: str, before: Any, value: Any) -> None:
        """Count a change of the formula."""
        if value is before or _formula(name, before) == _formula(name, value):
            return
        self.changed()

    def __delitem__(self, name: str) -> None:
        if not self.plain:
            refuse_inside("deleting a hyperparameter", self)
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
        return ParamGroup, (dict(self), self.plain)

    def __copy__(self) -> ParamGroup:
        return ParamGroup(dict(self), self.plain)


def _formula(name: str, value: Any) -> Any:
    """What a hyperparameter decides about the formula of an update: for plain numbers mostly nothing."""
    if name in _SWITCHES and _is_number(value):
        return value == 0
    if name == "alpha" and _is_number(value):
        return Mix.of(value).early
    if name == "ns_steps":
        return value
    if name == "betas" and isinstance(value, tuple) and all(map(_is_number, value)):
        return len(value), Mix.of(value[0]).early
    return None if _is_number(value) else (type(value), id(value))


def check_at_least_zero(group: Mapping[str, Any], **labels: str) -> None:
    """``ValueError`` naming the first of the group's values that is no single number, is negative, or nan."""
    for name, label in labels.items():
        value = group[name]
        if getattr(value, "ndim", 0) and value.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element")
        if not as_number(value) >= 0.0:
            raise ValueError(f"Invalid {label}: {value}")


def check_ways(group: Mapping[str, Any]) -> None:
    """``RuntimeError`` for a fused step that is asked to be one over lists, or to have gradients, as well."""
    if group["fused"] and group["differentiable"]:
        raise RuntimeError("`fused` does not support `differentiable`")
    if group["fused"] and group["foreach"]:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
