"""A module's hooks under the names of PyTorch's tables: programs count, look through and clear them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from .hooks import Hooks
from .structure import changed

__all__ = ["ShownHooks"]

#: PyTorch's name of each table, the table, and what beside the function an entry has that is put in by hand.
_TABLES: dict[str, tuple[str, tuple[bool, ...] | None]] = {
    "_forward_pre_hooks": ("forward_pre", (False,)),
    "_forward_hooks": ("forward", (False, False)),
    "_backward_pre_hooks": ("backward_pre", None),
    "_backward_hooks": ("backward", None),
    "_state_dict_pre_hooks": ("state_pre", None),
    "_state_dict_hooks": ("state_post", None),
    "_load_state_dict_pre_hooks": ("load_pre", (False,)),
    "_load_state_dict_post_hooks": ("load_post", None),
}


class _Table(MutableMapping[int, Any]):
    """The functions of one kind by the ids of their handles, in the order they run; changes reach the module."""

    def __init__(self, module: Any, kind: str, beside: tuple[bool, ...] | None) -> None:
        self._module, self._kind, self._beside = module, kind, beside

    def _entries(self) -> dict[int, Any]:
        hooks = self._module.__dict__.get("_hooks")
        found: dict[int, Any] = {} if hooks is None else getattr(hooks, self._kind)
        return found

    def __getitem__(self, key: int) -> Any:
        entry = self._entries()[key]
        return entry if self._beside is None else entry[0]

    def __setitem__(self, key: int, hook: Any) -> None:
        if self._module.__dict__.get("_hooks") is None:
            self._module.__dict__["_hooks"] = Hooks()
        self._entries()[key] = hook if self._beside is None else (hook, *self._beside)
        changed(self._module)

    def __delitem__(self, key: int) -> None:
        del self._entries()[key]
        changed(self._module)

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._entries()))

    def __len__(self) -> int:
        return len(self._entries())

    def __repr__(self) -> str:
        return f"OrderedDict({dict(self)})"


def _table(name: str) -> property:
    kind, beside = _TABLES[name]

    def shown(self: Any) -> _Table:
        return _Table(self, kind, beside)

    def replace(self: Any, hooks: Mapping[int, Any]) -> None:
        kept = dict(hooks)
        table = _Table(self, kind, beside)
        table.clear()
        table.update(kept)

    return property(shown, replace, doc=f"The {kind} hooks: id to function.")


class ShownHooks:
    """The tables of a module's hooks, as PyTorch's modules have them.

    >>> import tracejit as tj
    >>> layer = tj.nn.Linear(1, 1)
    >>> handle = layer.register_forward_hook(lambda module, args, output: None)
    >>> len(layer._forward_hooks), handle.id in layer._forward_hooks
    (1, True)
    >>> layer._forward_hooks.clear()
    >>> len(layer._forward_hooks)
    0
    """

    for _name in _TABLES:
        locals()[_name] = _table(_name)
    del _name
