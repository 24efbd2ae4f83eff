"""Looking at and steering the recorded graph: node type, saved-tensor hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ArgumentValueError, AutogradError
from ..modes import MODES
from .handle import RemovableHandle
from .node import Node

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",  # noqa: F822  (loaded when it is asked for)
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def __getattr__(name: str) -> Any:
    if name != "allow_mutation_on_saved_tensors":  # which takes listeners
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(
        "tracejit.utils.saved_mutation"
    ).allow_mutation_on_saved_tensors
    return found


class GradientEdge(NamedTuple):
    """An output of a node: what identifies a tensor in the graph."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge gradients for ``tensor`` arrive at; ``RuntimeError`` when it does not require grad.

    >>> import tracejit as tj
    >>> x = tj.tensor(3.0, requires_grad=True)
    >>> get_gradient_edge(x * 2).node
    <MulBackward0 ...>
    """
    edge = tensor._edge()
    if edge is None:
        raise AutogradError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    return GradientEdge(*edge)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write to a tensor, or to several, that happened where nobody could see it.

    >>> import tracejit as tj
    >>> x = tj.ones(2)
    >>> increment_version(x)
    >>> x._version
    1
    """
    if MODES.recorder is not None:
        MODES.recorder.unsupported("increment_version() inside a compiled function")
    MODES.before_write()
    several: Any = (tensor,) if hasattr(tensor, "_edge") else tensor
    for one in several:
        one._writes.value += 1


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call ``fn(gradients)`` when a backward pass has found the gradients of all ``tensors`` that it comes to.

    ``gradients`` has one for each tensor, None where the pass does not come to it. With ``mode="any"`` it is
    ``fn(gradient)``, called with the first one found. Returns a handle whose ``remove()`` takes the hook back;
    ``ValueError`` for another mode, ``RuntimeError`` for a tensor that does not require grad.

    >>> import tracejit as tj
    >>> x, y = tj.ones(2, requires_grad=True), tj.ones(2, requires_grad=True)
    >>> handle = register_multi_grad_hook([x, y], lambda found: print([g is None for g in found]))
    >>> (x * 2).sum().backward()
    [False, True]
    """
    if mode not in ("all", "any"):
        raise ArgumentValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    nodes = [get_gradient_edge(x).node for x in tensors]
    passes: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def arrived(position: int, gradient: Tensor) -> None:
        if MODES.recorder is not None:
            MODES.recorder.unsupported("register_multi_grad_hook() inside a compiled function")
        found = passes.get(MODES.walk)
        if found is None:
            count = sum(MODES.walk.comes_to(nodes)) if mode == "all" else 1
            found = passes[MODES.walk] = [count, [None] * len(nodes)]
        found[0] -= 1
        found[1][position] = gradient
        if found[0] == 0:
            fn(found[1] if mode == "all" else gradient)

    return _Handles([x.register_hook(partial(arrived, i)) for i, x in enumerate(tensors)])


class _Handles(RemovableHandle):
    """Takes several hooks back at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class saved_tensors_hooks:  # noqa: N801
    """Inside, every tensor kept for backward is kept as ``pack(tensor)`` and turned back by ``unpack``.

    >>> import tracejit as tj
    >>> x = tj.tensor([2.0], requires_grad=True)
    >>> with tj.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().tolist(), tj.tensor):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([4.])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        self._tell_recorder()
        MODES.saved_hooks = (*MODES.saved_hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(self, *_: object) -> None:
        MODES.saved_hooks = MODES.saved_hooks[:-1]

    def _tell_recorder(self) -> None:
        if MODES.recorder is not None:
            MODES.recorder.hooked("saved_tensors_hooks inside a compiled function")


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Keep saved tensors as copies on the host, in memory that a GPU reads by itself with ``pin_memory``.

    ``device_type`` says which kind of device that is: there is one.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        del device_type

        def packed(tensor: Any) -> Any:
            copy = tensor.cpu() if tensor.is_cuda else tensor.clone()
            return tensor.device, copy.pin_memory() if pin_memory else copy

        super().__init__(packed, lambda kept: kept[1].to(kept[0], non_blocking=pin_memory))

    def _tell_recorder(self) -> None:
        """Nothing: what comes back is what was kept."""


class disable_saved_tensors_hooks(saved_tensors_hooks):  # noqa: N801
    """Inside, tensors can only be kept as they are: saving under ``saved_tensors_hooks`` raises ``error_message``."""

    def __init__(self, error_message: str) -> None:
        super().__init__(self._refuse, self._refuse)
        self.error_message = error_message

    def __enter__(self) -> None:
        if MODES.saved_hooks:
            raise AutogradError(self.error_message)
        self._before = MODES.saved_hooks
        MODES.saved_hooks = _Locked(self.error_message)

    def __exit__(self, *_: object) -> None:
        MODES.saved_hooks = self._before

    def _refuse(self, value: Any) -> Any:
        raise AutogradError(self.error_message)


class _Locked(tuple[Any, ...]):
    """An empty stack of hooks that refuses to grow."""

    message: str

    def __new__(cls, message: str) -> _Locked:
        self = super().__new__(cls)
        self.message = message
        return self

    def __iter__(self) -> Any:
        raise AutogradError(self.message)
