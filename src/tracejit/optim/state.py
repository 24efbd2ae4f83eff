"""The state of an optimizer: a dict per parameter, whose tensors compiled code knows by identity, and other entries.

A recorded step writes into the tensors it found. Whoever puts others in their place (or takes them away) changes what
the step means, so replacements are counted; values written into the tensors are data and are not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..nn.structure import STRUCTURE_VERSION
from ..tensor import Tensor
from .recorded import refuse_inside

_MISSING = object()
_NUMBERS = (int, float)


class Changes:
    """How often the formula of an optimizer's step changed.

    The states of one that is ``plain`` are Python of the user's, who has written the step, like any other dicts.
    """

    plain = False

    def __init__(self, plain: bool = False) -> None:
        self.count = 0
        self.plain = plain

    def note(self) -> None:
        """One more change."""
        self.count += 1
        STRUCTURE_VERSION[0] += 1


class ParameterState(dict[str, Any]):
    """The state of one parameter; replacing or removing an entry counts as a change, a new one does not."""

    __slots__ = ("changes",)

    def __init__(self, changes: Changes, values: Any = ()) -> None:
        super().__init__(values)
        self.changes = changes

    def __setitem__(self, name: str, value: Any) -> None:
        before = self.get(name, _MISSING)
        if before is value:
            return  # as ``state["step"] += 1`` leaves a tensor that it changed in place
        if isinstance(before, _NUMBERS) and isinstance(value, _NUMBERS):
            super().__setitem__(
                name, value
            )  # a count of the user's own: data, as the values of tensors are
            return
        if not self.changes.plain:
            refuse_inside("changing the state of an optimizer", self.changes)
        super().__setitem__(name, value)
        if before is not _MISSING:
            self.changes.note()

    def begin(self, name: str, value: Tensor) -> Tensor:
        """Put the first value of ``name`` there; a recorded step that does so can be repeated without it."""
        super().__setitem__(name, value)
        return value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.changes.note()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several values."""
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]  # ``|`` gives a plain dict
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The value under ``name``, set to ``default`` first when there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Remove and return a value."""
        self.changes.note()
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last value."""
        self.changes.note()
        return super().popitem()

    def clear(self) -> None:
        """Remove everything."""
        super().clear()
        self.changes.note()

    def __reduce__(self) -> Any:
        return ParameterState, (self.changes, dict(self))

    def __copy__(self) -> dict[str, Any]:
        return dict(self)


class StateTable(defaultdict[Any, Any]):
    """The states of all parameters, and whatever an optimizer keeps under other keys; what is missing is an empty dict.

    Dicts under tensors are those that count what is replaced in them; all else is kept as it is given.
    """

    def __init__(self, changes: Changes, values: Any = ()) -> None:
        super().__init__(dict)
        self.changes = changes
        for key, state in dict(values).items():
            super().__setitem__(key, self._kept(key, state))

    def _kept(self, key: Any, state: Any) -> Any:
        """What is put there for ``state``: steps of the package look for its tensors under parameters only."""
        if not isinstance(key, Tensor) or not isinstance(state, dict):
            return state
        if isinstance(state, ParameterState) and state.changes is self.changes:
            return state
        return ParameterState(self.changes, state)

    def __missing__(self, key: Any) -> Any:
        made = self._kept(key, {})
        super().__setitem__(key, made)
        return made

    def __setitem__(self, key: Any, state: Any) -> None:
        if key in self and self[key] is state:
            return  # as ``state["k"] += 1`` leaves a tensor that it changed in place
        super().__setitem__(key, self._kept(key, state))
        if isinstance(key, Tensor):
            self.changes.note()

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self.changes.note()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """What is under ``key``, which is ``default`` when there was nothing."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove and return the state of a parameter, or what is under another key."""
        self.changes.note()
        return super().pop(key, *default)

    def popitem(self) -> tuple[Any, Any]:
        """Remove and return the last key and what is under it."""
        self.changes.note()
        return super().popitem()

    def clear(self) -> None:
        """Forget every state."""
        super().clear()
        self.changes.note()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several states."""
        for key, state in dict(*args, **kwargs).items():
            self[key] = state

    def __copy__(self) -> Any:
        return defaultdict(dict, self)

    copy = __copy__

    def __reduce__(self) -> Any:
        return StateTable, (self.changes, {k: plain(s) for k, s in self.items()})


def plain(state: Any) -> Any:
    """One value of a state without what counts its changes: the dict of a parameter as a plain one."""
    return dict(state) if isinstance(state, ParameterState) else state
