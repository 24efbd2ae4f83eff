"""Marks of operators, and the layers of PyTorch's dispatcher, by PyTorch's names."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from .listening.stack import LISTENERS
from .modes import MODES

__all__ = ["DispatchKey", "DispatchKeySet", "ExcludeDispatchKeyGuard", "Tag"]

_TAGS = """
core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace
inplace_view maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order
nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction
view_copy
"""

#: What operators are marked with; marks change nothing here.
Tag = enum.Enum("Tag", _TAGS.split(), module=__name__)  # type: ignore[misc]

_KEYS = """
Undefined CPU CUDA Meta BackendSelect Python PythonTLSSnapshot PythonDispatcher FuncTorchDynamicLayerBackMode
FuncTorchDynamicLayerFrontMode Functionalize ADInplaceOrView Autograd AutogradCPU AutogradCUDA
AutogradFunctionality AutogradOther AutocastCPU AutocastCUDA FuncTorchBatched FuncTorchGradWrapper
CompositeImplicitAutograd CompositeExplicitAutograd
"""

#: The layers that a call of an operator goes through in PyTorch.
DispatchKey = enum.Enum("DispatchKey", _KEYS.split(), module=__name__)  # type: ignore[misc]

Tag.__doc__ = (
    "Marks of operators, which change nothing here.\n\n>>> Tag.pointwise.name\n'pointwise'\n"
)
DispatchKey.__doc__ = "Layers of a dispatcher.\n\n>>> DispatchKey.Python.name\n'Python'\n"


class DispatchKeySet:
    """Some of these layers.

    >>> keys = DispatchKeySet(DispatchKey.Python) | DispatchKeySet(DispatchKey.CPU)
    >>> keys.has(DispatchKey.CPU), keys.remove(DispatchKey.CPU).has(DispatchKey.CPU)
    (True, False)
    """

    def __init__(self, *keys: Any) -> None:
        self._keys = frozenset(keys)

    def has(self, key: Any) -> bool:
        """Is it one of them?"""
        return key in self._keys

    def add(self, key: Any) -> DispatchKeySet:
        """All of these, and another one."""
        return DispatchKeySet(*self._keys, key)

    def remove(self, key: Any) -> DispatchKeySet:
        """All but one."""
        return DispatchKeySet(*(self._keys - {key}))

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys | other._keys))

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys & other._keys))

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys - other._keys))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __iter__(self) -> Any:
        return iter(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self._keys))})"


_LISTENING = frozenset(("Python", "PythonTLSSnapshot"))
_HISTORY = frozenset(("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradFunctionality"))
_NOTHING = frozenset(("ADInplaceOrView", "AutogradOther", "Functionalize"))


class ExcludeDispatchKeyGuard:
    """Inside, operators go by some layers: that of listeners (``Python``), or that of history (``Autograd``).

    Raises ``NotImplementedError`` for layers that there are not here.

    >>> with ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Python)):
    ...     LISTENERS.quiet
    True
    """

    def __init__(self, keys: Iterable[Any]) -> None:
        self._names = {key.name for key in keys}
        unknown = self._names - _LISTENING - _HISTORY - _NOTHING
        if unknown:
            raise NotImplementedError(f"there are no layers {', '.join(sorted(unknown))} to go by")

    def __enter__(self) -> None:
        self._before = LISTENERS.quiet, MODES.grad
        LISTENERS.quiet = LISTENERS.quiet or bool(self._names & _LISTENING)
        MODES.grad = MODES.grad and not self._names & _HISTORY

    def __exit__(self, *_: Any) -> None:
        LISTENERS.quiet, MODES.grad = self._before
