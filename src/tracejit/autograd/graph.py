"""Looking at and steering the recorded graph: node type, saved-tensor hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import AutogradError
from ..modes import MODES
from .node import Node

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "save_on_cpu",
    "saved_tensors_hooks",
]


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
    """Keep saved tensors as copies on the host, in memory that a GPU reads by itself with ``pin_memory``."""

    def __init__(self, pin_memory: bool = False) -> None:
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
