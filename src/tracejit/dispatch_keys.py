"""Keys by which PyTorch finds the function behind an operator, as far as programs name them, and sets of them.

There is no table of functions by keys here. What a key can be left out for are autocast, listeners and history.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from enum import IntEnum
from typing import Any

from .amp.autocasting import autocast
from .autograd.grad_mode import no_grad
from .listening.stack import LISTENERS

__all__ = ["DispatchKey", "DispatchKeySet", "ExcludeDispatchKeyGuard"]

_ALONE = (
    "Undefined CompositeExplicitAutogradNonFunctional CompositeExplicitAutograd "
    "CompositeImplicitAutogradNestedTensor CompositeImplicitAutograd AutogradNestedTensor AutogradOther Autograd "
    "Conjugate ZeroTensor Negative BackendSelect ADInplaceOrView PythonTLSSnapshot Python "
    "FuncTorchDynamicLayerFrontMode FuncTorchDynamicLayerBackMode FuncTorchBatchedDecomposition FuncTorchBatched "
    "FuncTorchVmapMode FuncTorchGradWrapper PythonDispatcher PreDispatch Functionalize "
    "AutocastCPU AutocastMPS AutocastXPU AutocastHPU AutocastIPU AutocastCUDA AutocastPrivateUse1"
)
_BACKENDS = (
    *("CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA"),
    *("PrivateUse1", "PrivateUse2", "PrivateUse3", "Meta"),
)
_KINDS = {
    "Dense": "",
    "Quantized": "Quantized",
    "Sparse": "Sparse",
    "SparseCsr": "SparseCsr",
    "NestedTensor": "NestedTensor",
    "AutogradFunctionality": "Autograd",
}
_OF_BACKENDS = itertools.chain.from_iterable(
    (kind, f"StartOf{kind}Backends", *(prefix + name for name in _BACKENDS), f"EndOf{kind}Backends")
    for kind, prefix in _KINDS.items()
)

DispatchKey = IntEnum(  # type: ignore[misc]
    "DispatchKey", " ".join((_ALONE, *_OF_BACKENDS)), module=__name__, start=0
)
DispatchKey.__doc__ = "A way to, or around, the function behind an operator, by its name."
DispatchKey.__str__ = lambda key: f"DispatchKey.{key.name}"  # type: ignore[method-assign,attr-defined]

#: Devices whose autocast a key stands for; on the others there is none.
_AUTOCAST = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda"}
_LISTENING = frozenset(("Python", "PythonTLSSnapshot"))
_HISTORY = frozenset(("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradFunctionality"))
_NOTHING = frozenset(("ADInplaceOrView", "AutogradOther", "Functionalize"))


class DispatchKeySet:
    """Some keys: ``DispatchKeySet(key) | other``, ``&``, ``-``, ``has``, ``add``, ``remove``.

    >>> both = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.AutocastCUDA)
    >>> both, both.has(DispatchKey.AutocastXPU)
    (DispatchKeySet(AutocastCPU, AutocastCUDA), False)
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: Any) -> None:
        self._keys = frozenset((DispatchKey(key),))

    @classmethod
    def _of(cls, keys: frozenset[Any]) -> DispatchKeySet:
        made = cls.__new__(cls)
        made._keys = keys
        return made

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def has(self, key: Any) -> bool:
        """Is ``key`` one of them?"""
        return key in self._keys

    def add(self, key: Any) -> DispatchKeySet:
        """These and ``key``."""
        return self._of(self._keys | {DispatchKey(key)})

    def remove(self, key: Any) -> DispatchKeySet:
        """These without ``key``."""
        return self._of(self._keys - {key})

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys))})"


class ExcludeDispatchKeyGuard:
    """Inside, functions behind these keys are passed over.

    There is no autocast on the devices named (``AutocastCPU``), nobody is told of operators (``Python``), and operators
    have no history (``Autograd``). Raises ``NotImplementedError`` for keys that nothing here goes by.

    >>> import tracejit as tj
    >>> with tj.autocast("cpu"), ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutocastCPU)):
    ...     tj.is_autocast_enabled("cpu")
    False
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        self._names = {key.name for key in keys._keys}
        unknown = self._names - _LISTENING - _HISTORY - _NOTHING
        unknown = {name for name in unknown if not name.startswith("Autocast")}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise NotImplementedError(
                f"there is nothing here that goes by {names} and could be left out"
            )
        self._inside: list[ExitStack] = []

    def __enter__(self) -> None:
        inside = ExitStack()
        for name in self._names & _AUTOCAST.keys():
            inside.enter_context(autocast(_AUTOCAST[name], enabled=False))
        if self._names & _HISTORY:
            inside.enter_context(no_grad())
        if self._names & _LISTENING:
            inside.callback(setattr, LISTENERS, "quiet", LISTENERS.quiet)
            LISTENERS.quiet = True
        self._inside.append(inside)

    def __exit__(self, *error: object) -> None:
        self._inside.pop().close()
