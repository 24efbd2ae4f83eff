"""Hooks of modules around saving and loading their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .hooks import HookHandle


class StateHooks:
    """What is called when a module's values are collected, before they are loaded, and afterwards."""

    _add_hook: Callable[[str, Any, bool], HookHandle]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(module, prefix, keep_vars)`` before values are collected."""
        return self._add_hook("state_pre", hook, False)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(module, state_dict, prefix, metadata)``, which may change the dict, afterwards."""
        return self._add_hook("state_post", hook, False)

    _register_state_dict_hook = register_state_dict_post_hook

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> HookHandle:
        """As below; the hook is not given the module unless ``with_module``."""
        return self._add_hook("load_pre", (hook, with_module), False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)`` first.

        It may rename what it finds in ``state_dict``, and add to the lists of names and errors.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(module, incompatible_keys)``, which may change those lists, when all is loaded."""
        return self._add_hook("load_post", hook, False)
