"""Tensors that stand for one sample of a batch while a function runs once for all samples: what `vmap` hands over.

Such a tensor has the type of a sample, and in the place of memory a tensor of all samples, whose first dimension is the
batch. Ops on it are ops on that one (`batch_rules`); the tape is that of the sample, and beneath it that of the batch.
Whoever asks for its elements leaves the batch: the samples are then taken one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..autograd.function import Function, set_for_samples
from ..autograd.op_node import OpNode
from ..dispatch import apply, with_numbers, with_varying
from ..layout import contiguous_layout
from ..locks import renewed_lock
from ..mirrored import StandIn
from ..modes import MODES
from ..ops import op as op_module
from ..ops.functions.shaping import movedim
from ..ops.functions.value_checks import is_expected
from ..ops.op import Op
from ..ops.table import set_dispatcher
from ..tensor import Tensor
from ..types import TensorType
from .batch_rules import Operand, written

__all__ = [
    "Batched",
    "LeavesBatch",
    "VmapInfo",
    "batching",
    "is_batched",
    "is_batching",
    "of_custom",
    "sample_of",
    "samples_of",
]

#: Runs an op on operands, with options.
Dispatcher = Callable[..., Any]


class LeavesBatch(BaseException):
    """The elements of a sample are asked for: there is none that would be all samples'."""


class Batched(StandIn):
    """Stands in a tensor for its memory: all samples, and how deep in calls of ``vmap`` they are."""

    __slots__ = ("inside", "level", "samples")

    def __init__(self, samples: Tensor, level: int, inside: bool) -> None:
        self.samples, self.level = samples, level
        self.inside = inside  # were they computed there?

    @property
    def array(self) -> Any:
        """Nobody has it."""
        if self.level > _depth.level:
            raise RuntimeError("a tensor of the function of vmap is used after that has returned")
        raise LeavesBatch

    def detached(self) -> Batched:
        """All samples without their history: beneath the tape of the sample there is one, too."""
        return Batched(self.samples.detach(), self.level, self.inside)

    def assign(self, new: Tensor, tracked: bool) -> None:
        """Write to all samples, if their memory was made inside and no tape is told."""
        if (
            tracked
            or not self.inside
            or self.samples._base is not None
            or self.level != _depth.level
        ):
            raise LeavesBatch
        samples = samples_of(new, self.level)
        self.samples.copy_(new if samples is None else samples)

    def true_everywhere(self) -> bool:
        """Are all elements of all samples true?"""
        return is_expected(self.samples.all())


class _Depth(threading.local):
    """How many calls of ``vmap`` this thread is in."""

    level: int = 0


_depth = _Depth()
_lock = renewed_lock()
#: How many calls of all threads there are, and the dispatcher that was there before; it stays, for threads that came by
#: this door a moment ago.
_calls: list[int] = [0]
_before: list[Dispatcher] = [apply]


def is_batched(x: Any) -> bool:
    """Does a tensor stand for a sample of a batch?

    >>> import tracejit as tj
    >>> is_batched(tj.ones(2))
    False
    """
    return type(getattr(x, "_block", None)) is Batched


def is_batching() -> bool:
    """Is this thread in a call of ``vmap`` that batches?

    >>> is_batching()
    False
    """
    return _depth.level > 0


def samples_of(x: Any, level: int) -> Tensor | None:
    """All samples that a tensor of this level stands for one of; None for anything else.

    >>> import tracejit as tj
    >>> samples_of(sample_of(tj.ones(3, 2), 1), 1).shape
    tracejit.Size([3, 2])
    """
    return x._block.samples if is_batched(x) and x._block.level == level else None


def sample_of(samples: Tensor, level: int, inside: bool = False) -> Tensor:
    """What stands for a sample of ``samples``, whose first dimension is the batch; were they computed ``inside``?

    >>> import tracejit as tj
    >>> sample_of(tj.ones(3, 2), 1).shape
    tracejit.Size([2])
    """
    kind = samples.spec
    type_of_one = TensorType(kind.shape[1:], kind.dtype)
    made = Tensor._wrap(None)
    made._block = Batched(samples, level, inside)
    made._type, made._layout = type_of_one, contiguous_layout(type_of_one)
    # What is computed inside hangs on the tape of the sample, arguments on nothing but that of the batch.
    made._requires_grad = not inside and samples.requires_grad and MODES.grad
    made._inference = MODES.inference
    return made


@contextmanager
def batching() -> Iterator[int]:
    """Inside, tensors may stand for samples; the level of those of this call.

    >>> import tracejit as tj
    >>> with batching() as level:
    ...     samples_of(sample_of(tj.ones(3, 2), level) * 2, level)
    tensor([[2., 2.],
            [2., 2.],
            [2., 2.]])
    """
    listening, MODES.listening = MODES.listening, True  # compiled functions run as they are written
    MODES.note()
    _depth.level += 1
    with _lock:
        if not _calls[0]:
            _before[0] = op_module._apply
            set_dispatcher(_apply)
        _calls[0] += 1
    try:
        yield _depth.level
    finally:
        with _lock:
            _calls[0] -= 1
            if not _calls[0] and op_module._apply is _apply:
                set_dispatcher(_before[0])
        _depth.level -= 1
        MODES.listening = listening
        MODES.note()


def _apply(op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], given: Any = None) -> Any:
    """The door while somebody batches."""
    level = max([x._block.level for x in operands if is_batched(x)], default=0)
    if not level:
        return _before[0](op, operands, attributes)
    if op.dynamic or op.tells_values or MODES.builder is not None:
        raise LeavesBatch
    given = with_varying(op, operands)
    operands = with_numbers(op, operands)
    found = [_operand(x, level) for x in given or operands]
    size = next(x.value.spec.shape[0] for x in found if x.batched)
    types = [x.spec if isinstance(x, Tensor) else x for x in operands]
    kind = op.infer(types, attributes)
    samples = written(op, found, attributes, size, kind)
    out = sample_of(samples, level, inside=True)
    tracked = any(x.requires_grad for x in operands if isinstance(x, Tensor))
    if tracked and op.grads and MODES.grad and kind.dtype.is_differentiable:
        OpNode.record(op, given or operands, attributes, out)
    return out


class VmapInfo(NamedTuple):
    """What the ``vmap`` of a custom function is told of the call of ``vmap``."""

    batch_size: int
    randomness: str


def of_custom(function: Any, args: tuple[Any, ...], grad: bool) -> tuple[Any] | None:
    """What the ``vmap`` of a custom function gives for arguments that are samples, in a tuple; None where it has none.

    Its ``forward`` runs without a tape. Beneath that of the sample this is the tape of the batch, too: where somebody
    outside asks for it, samples are taken one after the other.

    >>> import tracejit as tj
    >>> of_custom(tj.autograd.Function, (tj.ones(2),), True)
    """
    level = max([x._block.level for x in args if is_batched(x)], default=0)
    if not level:
        return None
    samples = [samples_of(x, level) for x in args]
    if function.vmap is Function.vmap:
        if grad and any(x is not None and x.requires_grad for x in samples):
            raise LeavesBatch
        return None
    size = next(x for x in samples if x is not None).spec.shape[0]
    info = VmapInfo(size, getattr(MODES.draws, "randomness", "error"))
    dims = tuple(None if x is None else 0 for x in samples)
    given = [x if found is None else found for x, found in zip(args, samples, strict=True)]
    tape, MODES.grad = MODES.grad, grad
    try:
        output, out_dims = function.vmap(info, dims, *given)
        return (_as_samples(output, out_dims, level),)
    finally:
        MODES.grad = tape


def _as_samples(output: Any, dims: Any, level: int) -> Any:
    """Outputs of a custom function as what stands for a sample of them."""
    if isinstance(output, tuple):
        each = dims if isinstance(dims, tuple) else (dims,) * len(output)
        return tuple(_as_samples(x, d, level) for x, d in zip(output, each, strict=True))
    if dims is None or not isinstance(output, Tensor):
        return output
    return sample_of(movedim(output, dims, 0), level, inside=True)


set_for_samples(of_custom)


def _operand(x: Any, level: int) -> Operand:
    samples = samples_of(x, level)
    if samples is not None:
        return Operand(samples, True, x.spec)
    return Operand(x, False, x.spec if isinstance(x, Tensor) else None)
