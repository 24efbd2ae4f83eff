"""What every tensor is made of: an array or memory block, a type, a storage version, a place in the graph.

A tensor's array lives in ``_array``. Results of compiled code arrive as a memory ``_block`` and become an
array only when somebody looks. Views share ``_writes``; a view remembers its ``_base`` and the chain of view
ops that leads from the base to it, so that its history can be rebuilt after the base (or another view) was
changed in place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ops
from .answering import watched
from .autograd.node import AccumulateGrad, Edge, Node
from .cuda.arrays import MODULES, shaped
from .deferred import Deferred
from .dtypes import DType
from .errors import AutogradError
from .mirrored import Mirrored
from .modes import MODES
from .ops.functions.subscript import part_steps
from .ops.table import METHODS, Op
from .types import TensorType, array_type

if TYPE_CHECKING:
    from .tensor import Tensor

ViewStep = tuple[Op, dict[str, Any]]


_UNTRACKED = (
    "A view was created in no_grad mode and its base or another view of its base has been modified inplace "
    "with grad mode enabled."
)

_SEVERAL = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one."
)


class Version:
    """How often a storage was written to, and how often its history was replaced; shared by all tensors on it."""

    value = 0
    history = 0
    read_only = False  # the memory of an array that may not be written to


#: How often tensors that compiled code captured changed layout, ``requires_grad`` or place in the graph.
REBOUND: list[int] = [0]
#: How often tensors were given other memory (``.data``, ``module.double()``).
REPLACED: list[int] = [0]


class PartSteps:
    """The views that lead to a part ``x[index]`` of a tensor, found when somebody asks: few ever do."""

    __slots__ = ("before", "index", "shape")

    def __init__(self, before: tuple[ViewStep, ...] | PartSteps, shape: Any, index: Any) -> None:
        self.before = before
        self.shape = shape
        self.index = index

    def found(self) -> tuple[ViewStep, ...]:
        """All of them, from the base on."""
        parts: list[PartSteps] = [self]
        while isinstance(before := parts[-1].before, PartSteps):
            parts.append(before)
        steps = [part_steps(part.shape, part.index) for part in reversed(parts)]
        return (*before, *(step for more in steps for step in more))


class TensorCore(ops.OperatorMixin):
    """Storage, type and graph position; the public methods are added by the subclasses."""

    # What an op's result sets at once; everything below the slots is rare and costs nothing until it is set.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",
        "_base",
        "_block",
        "_grad_fn",
        "_inference",
        "_layout",
        "_pointer",
        "_requires_grad",
        "_type",
        "_writes",
    )

    _array: Any
    _base: Tensor | None
    _block: Any
    _grad_fn: Node | None
    _inference: bool
    _layout: Any
    _pointer: int
    _requires_grad: bool
    _type: TensorType | None
    _writes: Version

    _output_nr = 0
    _steps: tuple[ViewStep, ...] | PartSteps = ()  # from the base to a view
    _history = 0
    _detached = 0  # the number nodes had come to when its history was forgotten
    _seen = 0  # how often the storage of a view had been written to when its history was right
    _turns: tuple[ViewStep | None, ...] = ()  # back from the shape of a base; None: no way
    _turned = 0  # how many of them there were when a view of it was made
    _piece: str | None = None  # which of several views, made by one function, this is or shows
    _untracked_view = False  # made under no_grad from a tensor that requires grad
    _shown_at: Any = None  # where it says that it lies, if it has no elements and its class answers
    _unplaced = False  # library code made it out of nothing: it goes where it is needed
    _run_time_type: Any = None  # the type with the sizes that are symbols in the recording going on
    _replaced = 0  # what REPLACED counted when it last got other memory
    _watched = False  # compiled code captured it: see REBOUND
    _grad: Tensor | None = None
    _retains_grad = False
    _accumulate: weakref.ref[AccumulateGrad] | None = None
    _end_number: int | None = None  # of the node there, where a graph counts on it
    _hooks: dict[int, Callable[..., Any]] | None = None
    _post_accumulate_hooks: dict[int, Callable[..., Any]] | None = None

    def __init__(self) -> None:
        if (
            MODES.recorder is not None
        ):  # no op made this: nothing tells what it would be at another call
            kind = type(self).__name__
            MODES.recorder.unsupported(f"a {kind} is made inside a compiled function")
        self._begin()

    def _begin(self) -> None:
        """Give every tensor's attributes their first values."""
        self._array = None
        self._block = None
        self._pointer = 0
        self._type = None
        self._layout = None
        self._requires_grad = False
        self._grad_fn = None
        self._writes = Version()
        self._base = None
        self._inference = False

    def __getattr__(self, name: str) -> Any:
        """Methods published after the class was made, and the error for names that do not exist."""
        if name in METHODS:
            return ops.as_method(name, METHODS[name]).__get__(self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    # --- making tensors ---------------------------------------------------------------------------

    @classmethod
    def _wrap(cls, array: Any) -> Tensor:
        """A tensor on an array, without copying."""
        raise NotImplementedError

    def _alias(self) -> Tensor:
        """The same storage and version counter without history."""
        other = self._wrap(self._array)
        other._block = self._block
        other._pointer = self._pointer
        other._type = self._type
        other._layout = self._layout
        other._writes = self._writes
        if self._inference:
            other._inference = True
        if self._run_time_type is not None:
            other._run_time_type = self._run_time_type
        if self._shown_at is not None:
            self._lend_class(other)
        return other

    def _lend_class(self, other: Any) -> None:
        """Make another tensor one of this class, with what a program attached to this one."""
        other.__class__ = type(self)
        other.__dict__.update(self._attached())
        watched(other)

    def _attached(self) -> dict[str, Any]:
        """What a program attached to this tensor, and where it says that it lies."""
        own = {k: v for k, v in vars(self).items() if k[0] != "_" or not hasattr(TensorCore, k)}
        return own | {"_shown_at": self._shown_at}

    def _become_view(self, source: Any, op: Op, attributes: dict[str, Any]) -> None:
        """Note that this tensor shows ``source`` through ``op``."""
        self._shows(source, (*source._chain, (op, attributes)))

    def _shows(self, source: Any, steps: tuple[ViewStep, ...] | PartSteps) -> None:
        """Note that this tensor shows ``source``, and by which steps from its base."""
        writes = self._writes = source._writes
        base = source._base
        if base is None:
            self._base = base = source
            if source._turns:
                self._turned = len(source._turns)
        else:
            self._base = base
            if source._turned:
                self._turned = source._turned
        self._steps = steps
        self._history = writes.history
        self._seen = writes.value
        self._inference = source._inference
        if source._piece is not None:
            self._piece = source._piece
        if source._untracked_view or (
            not MODES.grad and (source._requires_grad or base._requires_grad)
        ):
            self._untracked_view = True

    @property
    def _chain(self) -> tuple[ViewStep, ...]:
        """The view ops that led from the base to this view of it."""
        steps = self._steps
        if isinstance(steps, PartSteps):
            steps = self._steps = steps.found()
        return steps

    @_chain.setter
    def _chain(self, steps: tuple[ViewStep, ...]) -> None:
        self._steps = steps

    def _path(self) -> tuple[ViewStep, ...]:
        """The view ops that lead from the base, as it is now, to this view of it."""
        base = self._base
        if base is None or len(base._turns) == self._turned:
            return self._chain
        back = base._turns[: self._turned - 1 if self._turned else None : -1]
        known = [step for step in back if step is not None]
        if len(known) != len(back):
            raise AutogradError(
                "a view from before as_strided_() changed what it is a view of has no history"
            )
        return (*known, *self._chain)

    # --- what it is -------------------------------------------------------------------------------

    @property
    def array(self) -> Any:
        """The array itself (internal: mutating it bypasses version counting)."""
        if self._array is None:
            kind, block = self._type, self._block
            if type(block) is Deferred or block is None:  # None: another thread was faster
                return self._computed(block)
            if type(block) is Mirrored:
                return block.array
            assert kind is not None
            if MODULES:
                self._array = shaped(block, kind)
            else:
                self._array = np.ndarray(kind.shape, kind.dtype.np, buffer=block.array)
        return self._array

    def _computed(self, block: Deferred | None) -> Any:
        """The array of what was put off."""
        if block is not None:
            self._array = block.array
            self._block = None
        assert self._array is not None, "the elements were freed"
        return self._array

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """Element type and shape as the IR spells them."""
        kind = self._type
        if kind is None:
            recorded, array = self._run_time_type, self._array
            if array is None and type(self._block) is Mirrored:
                array = self._block.memory  # of what is mirrored
            if recorded is not None and not recorded.scope.closed:
                if recorded.thread == get_ident():
                    return recorded.spec
                return array_type(array.shape, array.dtype)
            kind = self._type = array_type(array.shape, array.dtype)
        return kind

    @property
    def dtype(self) -> DType:
        """Element type."""
        dtype: DType = self.spec.dtype
        return dtype

    # --- place in the graph -----------------------------------------------------------------------

    @property
    def grad_fn(self) -> Node | None:
        """The node of the operation that made this tensor, None for leaves."""
        if self._base is not None:
            self._refresh()
        return self._grad_fn

    @property
    def is_leaf(self) -> bool:
        """True when no recorded operation made this tensor."""
        return self.grad_fn is None

    @property
    def _flows(self) -> bool | None:
        """Do gradients flow into this tensor? None: it only counts as one that requires grad, being a view of one."""
        base = self._base
        if base is None:
            return self._requires_grad
        try:
            self._refresh()
        except AutogradError:
            return None
        return self._requires_grad or (None if base._requires_grad else False)

    def _edge(self) -> Edge | None:
        """Where gradients for this tensor go, None when nowhere."""
        if self._base is not None:
            self._refresh()
        if not self._requires_grad:
            return None
        if self._grad_fn is not None:
            return self._grad_fn, self._output_nr
        return AccumulateGrad.of(self), 0  # type: ignore[arg-type]

    def _watch(self) -> None:
        """From now on count what changes about this tensor, or about the base whose history it shares."""
        for tensor in (self, self._base):
            if tensor is not None and not tensor._watched:
                tensor._watched = True

    def _other_memory(self) -> None:
        """The memory is another one, and so may be all that was known of it."""
        REPLACED[0] += 1
        self._replaced = REPLACED[0]
        self._rebound()

    def _rebound(self) -> None:
        """Layout, ``requires_grad`` or the place in the graph changed."""
        if self._watched:
            REBOUND[0] += 1

    def _continue_from(self, edge: Edge) -> None:
        """Stand for the tensor that ``edge`` belongs to, a result or a leaf."""
        node, number = edge
        self._requires_grad = True
        if isinstance(node, AccumulateGrad):
            self._accumulate = weakref.ref(node)
            return
        self._grad_fn = node
        if number:
            self._output_nr = number

    def _refresh(self) -> None:
        """Rebuild a view's history after its storage was changed through another tensor."""
        base, writes = self._base, self._writes
        if base is None:
            return
        if self._history == writes.history:
            alone = self._grad_fn is None or self._untracked_view or self._piece is not None
            if not alone or not base._requires_grad or self._seen == writes.value:
                return
        self._history = writes.history
        if not base._requires_grad:
            return
        if self._untracked_view:
            self._history = -1
            raise AutogradError(_UNTRACKED, "Take the view outside no_grad, or clone() it.")
        if self._piece is not None:
            self._history = -1
            raise AutogradError(
                f"{self._piece} is a view and its base or another view of its base has been modified inplace. "
                f"{_SEVERAL}"
            )
        self._seen = writes.value
        grad, recorder, MODES.grad, MODES.recorder = MODES.grad, MODES.recorder, True, None
        builder = MODES.builder
        if builder is None and recorder is not None:  # asked for while an op runs
            MODES.builder = recorder.before_ops()
        try:
            view = base
            for op, attributes in self._path():
                view = op(view, **attributes)
        finally:
            MODES.grad, MODES.recorder, MODES.builder = grad, recorder, builder
        before, number = self._grad_fn, self._output_nr
        self._requires_grad, self._grad_fn = True, view._grad_fn
        self._output_nr = view._output_nr
        if self._retains_grad and view._grad_fn is not None:
            if before is not None and before.retained is not None:
                before.retained.pop(number, None)
            view._grad_fn.retain(view._output_nr, self)  # type: ignore[arg-type]
