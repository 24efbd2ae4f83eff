"""Methods that older programs use: ``new``, shapes changed in place, questions about kinds of memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import int64
from .errors import AutogradError, ShapeError
from .memory_formats import strided
from .mirrored import Mirrored, memory_of_tensor
from .modes import MODES
from .ops import movement
from .tensor_core import TensorCore, ViewStep
from .tensor_info import Storage
from .typed_storage import TypedStorage
from .types import TensorType

if TYPE_CHECKING:
    from .dtypes import DType
    from .ops.table import Op
    from .tensor import Tensor


class OlderMethods(TensorCore):
    """What remains of earlier ways to say things."""

    __slots__ = ()

    # --- more of the same dtype -------------------------------------------------------------------

    def new(self, *data: Any, device: Any = None) -> Tensor:
        """A tensor of this dtype, of sizes or of values.

        >>> import tracejit as tj
        >>> tj.arange(2).new([3, 4])
        tensor([3, 4])
        """
        from .tensor_kinds import constructed

        return constructed(self.dtype, data)

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """``tensor(data)`` in this dtype, on this device.

        >>> import tracejit as tj
        >>> tj.ones(1).new_tensor([1, 2])
        tensor([1., 2.])
        """
        from .tensor_make import new_by

        kind, place = dtype or self.dtype, device or self.device
        made: Tensor = new_by("tensor.new_tensor", data, kind, place, requires_grad)
        return made

    # --- shapes changed in place ------------------------------------------------------------------

    def squeeze_(self, dim: Any = None, *more: Any) -> Any:
        """Take dimensions of one element away from this tensor."""
        return self._reshaped("squeeze", () if dim is None else (dim, *more))

    def unsqueeze_(self, dim: int) -> Any:
        """Give this tensor one more dimension."""
        return self._reshaped("unsqueeze", (dim,))

    def transpose_(self, dim0: int, dim1: int) -> Any:
        """Exchange two dimensions of this tensor."""
        return self._reshaped("transpose", (dim0, dim1))

    swapaxes_ = swapdims_ = transpose_

    def as_strided_(self, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        """Show the elements that ``as_strided`` gives from now on."""
        return self._reshaped("as_strided", (size, stride, storage_offset))

    def t_(self) -> Any:
        """Turn this matrix."""
        return self._reshaped("t", ())

    def _reshaped(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Become a view of oneself; ``RuntimeError`` for leaves that require grad."""
        this: Any = self
        this._check_inplace()
        MODES.before_write()
        view = getattr(self, name)(*arguments)
        if MODES.recorder is not None:
            MODES.recorder.reshape_in_place(self, view, f"{name}_")
        self._show(view.array)
        self._writes.value += 1
        if MODES.grad:
            this._take_history(view)
        if view._base is not self:
            self._base, self._chain, self._history = view._base, view._chain, view._history
            if not MODES.grad:
                self._history = -1  # it has a history of the shape it had
            return self
        turns = [_back(*step) for step in view._chain]
        self._turns = (*self._turns, *turns)
        if self._requires_grad and None not in turns:  # views from before lead here from now on
            self._writes.history += 1
            self._history = self._writes.history
        return self

    def _show(self, array: Any) -> None:
        self._array, self._block, self._pointer = array, None, 0
        self._type = self._layout = None
        self._other_memory()

    def resize_(self, *sizes: Any, memory_format: Any = None) -> Any:
        """Give this tensor another shape: what lies in its memory in order, then zeros where that is too small.

        ``RuntimeError`` if it requires grad.

        >>> import tracejit as tj
        >>> x = tj.arange(6)
        >>> x[:3].resize_(2, 2)
        tensor([[0, 1],
                [2, 3]])
        """
        from .ops.memory_views import memory_after
        from .ops.shapes import size_arguments

        if self._requires_grad:
            raise AutogradError("cannot resize variables that require grad")
        if MODES.recorder is not None:
            MODES.recorder.unsupported("resize_() inside a compiled function")
        MODES.before_write()
        shape = size_arguments(sizes) if sizes else ()
        count, flat = int(np.prod(shape)), memory_after(self.array)
        if count > flat.size:
            flat = np.concatenate([flat, np.zeros(count - flat.size, flat.dtype)])
        self._show(flat[:count].reshape(shape))
        self._writes.value += 1
        return self

    def resize_as_(self, the_template: Tensor) -> Any:
        """``resize_`` to the shape of ``the_template``."""
        return self.resize_(tuple(the_template.shape))

    def set_(
        self,
        source: Tensor | Storage | None = None,
        storage_offset: int = 0,
        size: Any = None,
        stride: Any = None,
    ) -> Any:
        """Show the memory of ``source`` from now on, or none at all: all of it, or what lies at these places.

        >>> import tracejit as tj
        >>> x, source = tj.zeros(2), tj.arange(4.0)
        >>> x.set_(source, 1, (2,), (2,)).zero_()
        tensor([0., 0.])
        >>> source
        tensor([0., 0., 2., 0.])
        """
        if MODES.recorder is not None:
            MODES.recorder.unsupported("set_() inside a compiled function")
        MODES.before_write()
        shown: Any = source
        if source is None:
            shown = self.new_empty(0)
        elif isinstance(source, Storage):
            shown = self._wrap(source.elements(self.dtype.np))
        if shown.dtype is not self.dtype:
            raise AutogradError(
                f"Could not set tensor of type {shown.dtype!r} to a tensor of type {self.dtype!r}"
            )
        if size is not None:
            steps = TensorType(tuple(size), self.dtype).contiguous_strides()
            shown = shown.as_strided(size, steps if stride is None else stride, storage_offset)
        self._show(shown.array)
        self._writes.value += 1
        return self

    # --- elements by Python functions -------------------------------------------------------------

    def apply_(self, callable: Callable[[Any], Any]) -> Any:
        """Replace every element by what a Python function makes of it. ``RuntimeError`` if it requires grad."""
        if self._requires_grad:
            raise AutogradError("Can't call apply_() on Variable that requires grad.")
        return self._by_python(callable, self)

    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Any:
        """Replace every element by what a Python function makes of it and that of ``tensor``."""
        if self._requires_grad:
            raise AutogradError("Can't call map_() on Variable that requires grad.")
        return self._by_python(callable, self, tensor)

    def _by_python(self, function: Callable[..., Any], *operands: Any) -> Any:
        arrays = np.broadcast_arrays(*[x.array for x in operands])
        if MODES.recorder is not None:
            MODES.recorder.unsupported(
                "a Python function of single elements in a compiled function"
            )
        values = [
            function(*(v.item() for v in row))
            for row in zip(*(a.flat for a in arrays), strict=True)
        ]
        result = np.array(values, self.dtype.np).reshape(self.array.shape)
        return self._assign(self._wrap(result))

    # --- questions --------------------------------------------------------------------------------

    @property
    def is_cpu(self) -> bool:
        """Is it on the host?"""
        return not self.is_cuda

    is_sparse = is_quantized = is_mps = is_xla = is_nested = is_sparse_csr = False
    is_mkldnn = is_xpu = is_vulkan = False
    name = None
    output_nr = 0

    def storage(self) -> Any:
        """The memory this tensor shares with its views, as elements of its dtype."""
        return TypedStorage(self.untyped_storage(), self.dtype)

    @property
    def layout(self) -> Any:
        """``strided``: there is no other layout."""
        return strided

    def is_nonzero(self) -> bool:
        """The truth of its one element."""
        return bool(self)

    def is_same_size(self, other: Tensor) -> bool:
        """Does ``other`` have the same shape?"""
        return bool(self.spec.shape == other.spec.shape)

    def is_set_to(self, tensor: Tensor) -> bool:
        """Do both show the same memory in the same way?"""
        a, b = memory_of_tensor(self), memory_of_tensor(tensor)
        if (type(self._block) is Mirrored) is not (type(tensor._block) is Mirrored):
            return False
        here, there = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
        return bool(here == there and a.shape == b.shape and a.strides == b.strides)

    def share_memory_(self) -> Any:
        """This tensor: threads share memory as it is."""
        return self

    def is_shared(self) -> bool:
        """False: memory is not shared between processes."""
        return False

    def _in_dtype(self, dtype: DType) -> Any:
        """The same memory as elements of another dtype, along the last dimension more or fewer of them."""
        if type(self._block) is Mirrored:
            kind = (
                "conjugate view tensors"
                if self.dtype.is_complex
                else "tensors with negative bit set"
            )
            raise RuntimeError(
                f"tracejit.Tensor.view is not supported for {kind} when converting to a different dtype."
            )
        if dtype is self.dtype:
            return self.detach()  # no gradient goes through bits
        if MODES.recorder is not None:
            MODES.recorder.unsupported("view() as another dtype inside a compiled function")
        _check_cells(self, dtype)
        if self._array is None:
            self._array = self.array  # both must show one array
        other = self._wrap(self._array.view(dtype.np))
        other._writes, other._inference = self._writes, self._inference
        return other

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        """The elements ``storage_offset + index * stride`` of the memory that this tensor lies in.

        A view. Raises ``RuntimeError`` when elements lie outside the memory or it has gaps, and for negative strides.
        """
        from .ops.memory_views import as_strided

        size, stride = tuple(map(int, size)), tuple(map(int, stride))
        if len(size) != len(stride) or any(s < 0 for s in stride):
            raise ShapeError(
                f"as_strided: sizes {list(size)} need as many strides that are not negative, got {list(stride)}"
            )
        if self._stands_for_samples():  # which lie in memory of their own, each
            start = int(storage_offset or 0)
            return as_strided(self.clone(), size=size, stride=stride, start=start)
        offset = self.storage_offset() if storage_offset is None else int(storage_offset)
        reach = sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        owner: Any = (
            self  # whose elements are shown: its gradient is asked for, where it has all of them
        )
        start = offset - self.storage_offset()
        if not (_laid(self).is_contiguous() and 0 <= start < self.numel() - reach):
            owner = _lying_in(self) if self._base is None else _whole_of(self)
            start = offset - owner.storage_offset()
        if MODES.recorder is not None and not (owner is self and storage_offset is None):
            MODES.recorder.reach_beyond(self, owner is self)
        laid = _laid(owner)
        if not laid.is_contiguous():
            raise ShapeError(
                "as_strided: expected memory without gaps", "Call .contiguous() first."
            )
        if 0 not in size and (start < 0 or start + reach >= owner.numel()):
            raise ShapeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)} and storage offset {offset} "
                f"are out of bounds for storage of {owner.numel()} elements"
            )
        shown = as_strided(laid, size=size, stride=stride, start=start)
        if owner is not self and self._requires_grad and MODES.grad:
            return _as_elements_of(self, shown)
        return shown


def _back(op: Op, attributes: dict[str, Any]) -> ViewStep | None:
    """The step that undoes a turn; None for steps that show some elements only."""
    if op is movement.permute:
        dims = attributes["dims"]
        return op, {"dims": tuple(sorted(range(len(dims)), key=dims.__getitem__))}
    undone = {movement.squeeze: movement.unsqueeze, movement.unsqueeze: movement.squeeze}.get(op)
    return undone and (undone, attributes)


def _check_cells(x: Any, dtype: DType) -> None:
    """``RuntimeError`` unless the memory of ``x`` can be cut into elements of ``dtype``."""
    have, want = x.dtype.itemsize, dtype.itemsize
    if have == want:
        return
    task = f"to view {x.dtype.title} as {dtype.title} (different element sizes)"
    if not x.ndim:
        raise ShapeError(f"self.dim() cannot be 0 {task}")
    if x.stride(-1) != 1:
        raise ShapeError(f"self.stride(-1) must be 1 {task}, but got {x.stride(-1)}")
    if have > want:
        return
    times = want // have
    numbers = [("size(-1)", x.shape[-1]), ("storage_offset()", x.storage_offset())]
    numbers += [(f"stride({d})", x.stride(d)) for d in range(x.ndim - 1)]
    for name, number in numbers:
        if number % times:
            raise ShapeError(f"self.{name} must be divisible by {times} {task}, but got {number}")


def _laid(base: Any) -> Any:
    """A tensor with its dimensions in the order they have in memory."""
    from .ops.movement import permute

    order = sorted(range(base.ndim), key=lambda d: (-base.stride(d), -base.shape[d]))
    return base if order == [*range(base.ndim)] else permute(base, dims=tuple(order))


def _lying_in(x: Any) -> Any:
    """The memory that ``x``, a view of nothing, may be left in as a part of."""
    memory = memory_of_tensor(x)
    storage = Storage(memory)
    if storage.nbytes() == memory.nbytes or type(x._block) is Mirrored:
        return x
    if MODES.recorder is not None:
        MODES.recorder.unsupported("as_strided() beyond a detached view inside a compiled function")
    whole = x._wrap(storage.elements(x.dtype.np))
    whole._writes, whole._inference = x._writes, x._inference
    return whole


def _as_elements_of(x: Any, shown: Any) -> Any:
    """``shown``, a view of memory that ``x`` lies in, with the history that its elements have in ``x``."""
    there, here = _places(x), _places(shown)
    if MODES.recorder is not None:
        if shown._requires_grad and np.isin(here, there).all():
            return shown  # what reaches the memory reaches the same elements
        MODES.recorder.unsupported("as_strided() of a part of memory, with gradients of the part")
    times = np.bincount(there, minlength=1 + int(max(here, default=0)))
    parts = x.reshape(-1) / x.new_tensor(times[there])
    spots, wanted = (x.new_tensor(places, dtype=int64) for places in (there, here))
    values = x.new_zeros(times.size).index_add(0, spots, parts)
    shown._take_history(values[wanted].reshape(shown.shape))
    return shown


def _places(x: Any) -> Any:
    """Where in its storage the elements of a tensor lie, in their order."""
    steps = [np.arange(n) * s for n, s in zip(x.shape, x.stride(), strict=True)]
    return np.ravel(reduce(np.add, np.ix_(*steps), x.storage_offset()))


def _whole_of(view: Any) -> Any:
    """The base of a view, as elements like those of the view."""
    from .ops import memory_views as mv
    from .ops.movement import reshape

    base = view._base
    if view.dtype.is_complex and not base.dtype.is_complex:
        base = mv.view_as_complex(reshape(_laid(base), shape=(base.numel() // 2, 2)))
    elif base.dtype.is_complex and not view.dtype.is_complex:
        plain = mv.conj_view(base) if type(base._block) is Mirrored else base
        base = mv.view_as_real(plain)
    if (type(view._block) is Mirrored) is (type(base._block) is Mirrored):
        return base
    return mv.conj_view(base) if view.dtype.is_complex else mv.neg_view(base)
