"""The eager tensor: an array, its place in the autograd graph, and the storage it may share with views.

A tensor's array lives in ``_array``. Results of compiled code arrive as a memory ``_block`` and become an array only
when somebody looks. Views share ``_version``; a view remembers its ``_base`` and the chain of view ops that leads from
the base to it, so that its history can be rebuilt after the base (or another view) was changed in place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dtypes, ops
from .autograd.node import AccumulateGrad, Edge, Node
from .dtypes import DType
from .errors import AutogradError
from .modes import MODES
from .ops.table import METHODS, Op
from .types import Shape, TensorType

ViewStep = tuple[Op, dict[str, Any]]


class Version:
    """How often a storage was written to; shared by all tensors on it."""

    __slots__ = ("history", "value")

    def __init__(self) -> None:
        self.value = 0
        self.history = 0


class Tensor(ops.OperatorMixin):
    """A multi-dimensional array that can record the operations done to it.

    Made by :func:`tracejit.tensor` and the other factories.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_accumulate",
        "_array",
        "_base",
        "_block",
        "_chain",
        "_grad",
        "_grad_fn",
        "_history",
        "_inference",
        "_layout",
        "_output_nr",
        "_pointer",
        "_post_accumulate_hooks",
        "_requires_grad",
        "_retains_grad",
        "_type",
        "_version",
    )

    def __init__(self) -> None:
        self._array: Any = None
        self._block: Any = None
        self._pointer = 0
        self._type: TensorType | None = None
        self._layout: Any = None
        self._requires_grad = False
        self._grad: Tensor | None = None
        self._grad_fn: Node | None = None
        self._output_nr = 0
        self._version = Version()
        self._base: Tensor | None = None
        self._chain: tuple[ViewStep, ...] = ()
        self._history = 0
        self._accumulate: weakref.ref[AccumulateGrad] | None = None
        self._post_accumulate_hooks: dict[int, Callable[..., Any]] | None = None
        self._retains_grad = False
        self._inference = False

    # --- making tensors -------------------------------------------------------------------------------------

    @classmethod
    def _wrap(cls, array: Any) -> Tensor:
        """A tensor on an array, without copying."""
        self = Tensor()
        self._array = array
        return self

    @classmethod
    def _of_block(cls, block: Any, type: TensorType, layout: Any) -> Tensor:
        """A contiguous tensor on a memory block."""
        self = Tensor()
        self._block = block
        self._pointer = block.ptr
        self._type = type
        self._layout = layout
        return self

    def _alias(self) -> Tensor:
        """The same storage and version counter without history."""
        other = Tensor()
        other._array = self._array
        other._block = self._block
        other._pointer = self._pointer
        other._type = self._type
        other._layout = self._layout
        other._version = self._version
        other._inference = self._inference
        return other

    def _become_view(self, source: Tensor, op: Op, attributes: dict[str, Any]) -> None:
        """Note that this tensor shows ``source`` through ``op``."""
        self._version = source._version
        self._base = source if source._base is None else source._base
        self._chain = (*source._chain, (op, attributes))
        self._history = self._version.history

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def array(self) -> Any:
        """The array itself (internal: mutating it bypasses version counting)."""
        if self._array is None:
            kind = self._type
            assert kind is not None
            self._array = np.ndarray(kind.shape, kind.dtype.np, buffer=self._block.array)
        return self._array

    @property
    def type(self) -> Any:  # noqa: A003
        """Element type and shape as the IR spells them (callable as ``x.type(dtype)`` for a cast)."""
        kind = self._type
        if kind is None:
            array = self._array
            kind = self._type = TensorType(array.shape, dtypes.from_numpy(array.dtype))
        return kind

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype

    @property
    def requires_grad(self) -> bool:
        """True when operations on this tensor are recorded."""
        if self._base is not None:
            self._refresh()
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start (or stop) recording operations on this leaf, in place.

        Raises ``RuntimeError`` for integer tensors, and for non-leaves when False.
        """
        if not self.is_leaf:
            if not requires_grad:
                raise AutogradError(
                    "you can only change requires_grad flags of leaf variables.",
                    "To use a computed variable in a subgraph that doesn't require differentiation use "
                    "var_no_grad = var.detach().",
                )
            return self
        if requires_grad and not self.dtype.is_floating_point:
            raise AutogradError("only Tensors of floating point dtype can require gradients")
        if MODES.recorder is not None and requires_grad != self._requires_grad:
            MODES.recorder.unsupported("requires_grad_() inside a compiled function")
        self._requires_grad = bool(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """True when no recorded operation made this tensor."""
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Node | None:
        """The node of the operation that made this tensor, None for leaves."""
        if self._base is not None:
            self._refresh()
        return self._grad_fn

    @property
    def _version_value(self) -> int:
        return self._version.value

    @property
    def is_inference_tensor(self) -> bool:
        return self._inference

    # --- history -----------------------------------------------------------------------------------------------

    def _edge(self) -> Edge | None:
        """Where gradients for this tensor go, None when nowhere."""
        if self._base is not None:
            self._refresh()
        if not self._requires_grad:
            return None
        if self._inference:
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. To work around you can make a clone to get a "
                "normal tensor and use it in autograd."
            )
        if self._grad_fn is not None:
            return self._grad_fn, self._output_nr
        return AccumulateGrad.of(self), 0

    def _refresh(self) -> None:
        """Rebuild a view's history after its storage was changed through another tensor."""
        if self._history == self._version.history or self._base is None:
            return
        self._history = self._version.history
        base = self._base
        if not base.requires_grad:
            return
        grad, recorder, MODES.grad, MODES.recorder = MODES.grad, MODES.recorder, True, None
        try:
            view = base
            for op, attributes in self._chain:
                view = op(view, **attributes)
        finally:
            MODES.grad, MODES.recorder = grad, recorder
        self._requires_grad, self._grad_fn, self._output_nr = True, view._grad_fn, view._output_nr

    def _check_inplace(self) -> None:
        """Refuse what autograd cannot follow."""
        if MODES.grad and self._requires_grad:
            if self.is_leaf:
                raise AutogradError(
                    "a leaf Variable that requires grad is being used in an in-place operation.",
                    "Wrap the update in `with tj.no_grad():`, or use the out-of-place operation.",
                )
            if self._base is not None and self._base.is_leaf and self._base._requires_grad:
                raise AutogradError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation.",
                    "Wrap the update in `with tj.no_grad():`, or clone() the leaf first.",
                )
        if self._inference and not MODES.inference and MODES.grad:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to "
                "get a normal tensor before doing inplace update."
            )

    def _assign(self, new: Tensor) -> Tensor:
        """Overwrite the values in place with ``new`` (broadcast, cast) and take over its history."""
        self._check_inplace()
        base = self._base
        if base is not None and base._requires_grad and MODES.grad:
            self._refresh()
            if base.is_leaf:
                self._check_inplace_view(base)
        if new.dtype.rank > self.dtype.rank:
            raise RuntimeError(
                f"result type {new.dtype.name.capitalize()} can't be cast to the desired output type "
                f"{self.dtype.name.capitalize()}"
            )
        new = self._conform(new)
        target = self.array
        if not target.flags.writeable:
            raise RuntimeError(
                "the tensor is read-only (it shares memory with a read-only array, or is expanded); clone() it before "
                "writing to it"
            )
        np.copyto(target, new.array, casting="unsafe")
        self._version.value += 1
        if MODES.recorder is not None:
            MODES.recorder.assign(self, new)
        if MODES.grad and (new._requires_grad or self._requires_grad or (base is not None and base._requires_grad)):
            self._rebase(new)
        return self

    def _check_inplace_view(self, base: Tensor) -> None:
        raise AutogradError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            "Wrap the update in `with tj.no_grad():`, or clone() the leaf first.",
        )

    def _conform(self, new: Tensor) -> Tensor:
        if new.shape != self.shape:
            if len(new.shape) > len(self.shape) or ops.shapes.broadcast(
                "in-place", [self.shape, new.shape], (self.type, new.type)
            ) != tuple(self.shape):
                raise RuntimeError(
                    f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(new.shape)}"
                )
            new = ops.movement.expand(new, shape=tuple(self.shape))
        if new.dtype is not self.dtype:
            new = ops.elementwise.cast(new, dtype=self.dtype)
        return new

    def _rebase(self, new: Tensor) -> None:
        """Make ``new``'s history this tensor's, and through the base that of every other view."""
        if self._base is None:
            self._take_history(new)
            self._version.history += 1
            self._history = self._version.history
            return
        base = self._base
        recorder, MODES.recorder = MODES.recorder, None
        try:
            before = base._alias()
            before._version = Version()
            before._requires_grad, before._grad_fn = base._requires_grad, base._grad_fn
            before._output_nr = base._output_nr
            base._take_history(write_through(before, self._chain, new))
        finally:
            MODES.recorder = recorder
        self._version.history += 1
        base._history = self._version.history
        self._refresh()

    def _take_history(self, new: Tensor) -> None:
        self._requires_grad, self._grad_fn, self._output_nr = new._requires_grad, new._grad_fn, new._output_nr

    def detach(self) -> Tensor:
        """The same values without history; shares storage with this tensor.

        >>> import tracejit as tj
        >>> x = tj.ones(2, requires_grad=True)
        >>> (x * 2).detach().requires_grad
        False
        """
        other = self._alias()
        other._array = self.array
        if MODES.recorder is not None:
            MODES.recorder.detach(self, other)
        return other

    def numpy(self, *, force: bool = False) -> Any:
        """The values as a NumPy array that shares memory with this tensor.

        Raises ``RuntimeError`` when the tensor requires grad, unless ``force``.
        """
        if self.requires_grad and not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if MODES.recorder is not None:
            MODES.recorder.escape(self, "numpy()")
        return self.array

    def item(self) -> bool | int | float:
        """The value of a one-element tensor as a Python number; ``RuntimeError`` for more elements."""
        array = self.array
        if array.size != 1:
            raise RuntimeError(
                f"a Tensor with {array.size} elements cannot be converted to Scalar"
            )
        value: bool | int | float = array.item() if self.dtype is not dtypes.bfloat16 else float(array.reshape(()))
        if MODES.recorder is not None:
            MODES.recorder.guard(self, value)
        return value

    def __bool__(self) -> bool:
        array = self.array
        if array.size != 1:
            raise RuntimeError(
                "Boolean value of Tensor with "
                + ("no values is ambiguous" if array.size == 0 else "more than one value is ambiguous")
            )
        value = bool(array)
        if MODES.recorder is not None:
            MODES.recorder.guard(self, value)
        return value


def write_through(base: Any, chain: Sequence[ViewStep], value: Any) -> Any:
    """``base`` with ``value`` written where the chain of view ops would read; works on tensors and IR values."""
    if not chain:
        return value
    (op, attributes), rest = chain[0], chain[1:]
    if rest:
        value = write_through(op(base, **attributes), rest, value)
    return ops.inverse.write(op, attributes, base, value)


def install_methods() -> None:
    """Publish every function of the registry as a method, once the table is complete."""
    for name, target in METHODS.items():
        if not hasattr(Tensor, name):
            setattr(ops.OperatorMixin, name, ops.as_method(name, target))
