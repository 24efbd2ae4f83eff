"""In which layers a program is at present: by the names of their attributes, from the outermost one on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ..autograd.graph import register_multi_grad_hook
from ..modes import MODES
from ..nn.global_hooks import register_module_forward_hook, register_module_forward_pre_hook
from ..nn.module import Module
from ..tensor import Tensor
from .trees import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside a ``with`` block, ``parents`` holds the names of the layers that are being called, and ``"Global"``.

    In a backward pass they are those whose results' gradients have come and whose inputs' gradients have not.
    ``is_bw`` says whether a backward pass is going on.

    >>> import tracejit as tj
    >>> model = tj.nn.Sequential(tj.nn.ReLU())
    >>> with ModuleTracker() as tracker:
    ...     _ = model[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
    ...     _ = model(tj.ones(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self) -> None:
        self._parents = {"Global"}
        self._walk: Any = None
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Is a backward pass going on?"""
        return MODES.walk is not None

    @property
    def parents(self) -> set[str]:
        """The names of the layers that the program is in."""
        if self._walk is not None and self._walk is not MODES.walk:  # that pass is over
            self._parents, self._walk = {"Global"}, None
        return self._parents

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._entered),
            register_module_forward_hook(self._left, always_call=True),
        ]
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def name_of(self, module: Module) -> str:
        """The name of a layer: that of its class where it is the outermost one, else with the way that leads to it."""
        found = self._names.get(module)
        return self._named(module, type(module).__name__) if found is None else found

    def _named(self, module: Module, name: str) -> str:
        self._names[module] = name
        for part, child in module.named_children():
            self._named(child, f"{name}.{part}")
        return name

    def _entered(self, module: Module, given: Any) -> None:
        name = self.name_of(module)
        self.parents.add(name)
        self._when_seen(given, lambda _: self.parents.discard(name))

    def _left(self, module: Module, given: Any, result: Any) -> None:
        name = self.name_of(module)
        self.parents.discard(name)
        self._when_seen(result, lambda _: self._backward_enters(name))

    def _when_seen(self, values: Any, note: Callable[[Any], None]) -> None:
        """Call ``note`` when backward has the gradients of all tensors there."""
        tracked = [x for x in tree_leaves(values) if isinstance(x, Tensor) and x.requires_grad]
        if tracked:
            self._handles.append(register_multi_grad_hook(tracked, note))

    def _backward_enters(self, name: str) -> None:
        self.parents.add(name)
        self._walk = MODES.walk
