"""Operations that are put off while a run is recorded: large ones, whose results may never be needed as such.

What the function returns can often be computed by the program that its recording becomes, fused and in one go. So a
recorded run notes large operations and computes them when somebody looks at an element, when memory they read is about
to be written to, or at its end: then in order, just as eager code does, unless the program is quicker.

Only operations whose type rules tell all that can go wrong are put off. Their results lie row by row, and views of
them lie as NumPy's views do; so everything but the elements is known at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .cuda.arrays import MODULES, is_on_device
from .deferred import Deferred
from .dtypes import get_default_dtype
from .layout import array_layout, contiguous_layout, intern_layout
from .locks import renewed_rlock
from .meta import ANY
from .modes import MODES
from .ops.contraction import matmul
from .ops.indexing import gather, take
from .ops.kinds import Contraction, Elementwise, Movement, Reduction
from .ops.table import Op
from .tensor import Tensor
from .types import array_type

__all__ = ["LEAST_BYTES", "Deferral"]

#: Results and operands of fewer bytes are computed at once, unless they hang on what is put off.
LEAST_BYTES = 1 << 18
#: How often what was put off had to be computed on the way, until it is clear that this will go on.
MOST_INTERRUPTIONS = 4
#: What eager code takes for an operation, for a byte of it, and for a multiplication of a product, in seconds.
_PER_OP, _PER_BYTE, _PER_PRODUCT = 3e-6, 1.2e-10, 1e-11

#: Operations that take positions, as their second operand.
_LOOKUPS = frozenset({take, gather})
_NUMBERS = frozenset({bool, int, float})


@dataclass(frozen=True)
class Cost:
    """What is known of an operation on tensors of some types: how its result lies, and what eager code takes for it."""

    layout: Any = None  # None: it cannot be put off
    seconds: float = 0.0
    is_large: bool = False

    @classmethod
    def of(cls, op: Op, kinds: list[Any], attributes: dict[str, Any]) -> Cost:
        """That of an operation on ``kinds``, types of tensors and numbers."""
        if not (_is_total(op) and _are_floats(kinds[:1] if op in _LOOKUPS else kinds)):
            return cls()
        try:
            found = op.infer(kinds, attributes)
        except Exception:  # noqa: BLE001  (computed at once, it is an error where it belongs)
            return cls()
        if not _is_float(found.dtype):
            return cls()
        kind = array_type(found.shape, found.dtype.np)
        nbytes = kind.nbytes + sum(k.nbytes for k in kinds if type(k) not in _NUMBERS)
        seconds = _PER_OP + _PER_BYTE * nbytes + _PER_PRODUCT * _products(op, kinds, kind)
        return cls(contiguous_layout(kind), seconds, nbytes >= LEAST_BYTES)


class Deferral:
    """What one recorded run has put off, in order.

    >>> import tracejit as tj
    >>> waiting = []
    >>> def function(x):
    ...     y = (x * 2).sum()
    ...     waiting.append(len(MODES.deferral))
    ...     return y
    >>> tj.compile(function)(tj.ones(200, 200)), waiting
    (tensor(80000.), [2])
    """

    def __init__(self) -> None:
        self.waiting: list[weakref.ref[Deferred]] = []
        self.seconds = 0.0  # that eager code takes for what waits
        self.interruptions = 0  # how often that had to be computed before the end
        self.known: dict[Any, Cost] = {}
        self.views: dict[
            Any, tuple[Any, Any] | bool | None
        ] = {}  # how views lie, by what they show and how that lies
        self.lock = renewed_rlock()

    def __len__(self) -> int:
        return len(self.waiting)

    def take(self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Tensor | None:
        """The result of an operation that is put off; None for one that has to be computed at once."""
        if self.interruptions > MOST_INTERRUPTIONS or not _is_plain_recording():
            return None
        if not self.waiting and type(op) is Elementwise and _are_small(operands):
            return None
        found = _taken(operands)
        if found is None:
            return None
        kinds, given, later = found
        if op.is_view:
            shown = self._shown(op, given[0], kinds, attributes) if later else None
            if shown is None:
                return None
            if shown:
                return _placed(self.view(op, operands[0], given, attributes, shown), operands)
        cost = self.cost(op, kinds, attributes)
        if not (cost.is_large or (later and cost.layout is not None)):
            return None
        if op in _LOOKUPS and not _in_range(
            given[1], kinds[0].shape[attributes["dim"]], attributes
        ):
            return None
        written = _versions(operands)
        out = self.put_off(op, written, given, attributes, cost.layout, cost.seconds)
        return _placed(out, operands)

    def cost(self, op: Op, kinds: list[Any], attributes: dict[str, Any]) -> Cost:
        """What is known of an operation on ``kinds``, types of tensors and numbers."""
        usual = get_default_dtype()
        key = (
            op,
            usual,
            *[type(k) if type(k) in _NUMBERS else k for k in kinds],
            *attributes.values(),
        )
        cost = self.known.get(key)
        if cost is None:
            cost = self.known[key] = Cost.of(op, kinds, attributes)
        return cost

    def put_off(
        self,
        op: Op,
        versions: list[tuple[Any, int]],
        given: list[Any],
        attributes: dict[str, Any],
        layout: Any,
        seconds: float,
    ) -> Tensor:
        """What an operation will give; ``given`` are arrays, or what stands for them, and numbers.

        ``versions`` are counts of writes to the tensors among its operands, each with what it is now.
        """
        block = Deferred(self, op, given, attributes, layout)
        block.versions = versions
        with self.lock:
            self.waiting.append(weakref.ref(block))
            self.seconds += seconds
        return _shown(block)

    def _shown(
        self, op: Op, source: Deferred, kinds: list[Any], attributes: dict[str, Any]
    ) -> tuple[Any, Any] | bool | None:
        """How a view of what is put off lies, and an array without memory that lies so.

        False: it is a copy. None: look at the real one.
        """
        array = source.without_memory()
        key = (op, source.layout, array.strides, *attributes.values())
        if key in self.views:
            return self.views[key]
        found: tuple[Any, Any] | bool | None = _is_shown(op, source.layout, kinds, attributes)
        if found:
            meta = op.evaluate([array], attributes)
            lies = array_layout(meta)
            found = intern_layout(lies.spec, lies.strides), meta
        self.views[key] = found
        return found

    def view(
        self, op: Op, source: Tensor, given: list[Any], attributes: dict[str, Any], shown: Any
    ) -> Tensor:
        """A view of what is put off; ``shown`` is how it lies, and an array without memory that lies so."""
        layout, meta = shown
        out = self.put_off(op, _versions((source,)), given, attributes, layout, 0.0)
        out._block.meta = meta
        out._become_view(source, op, attributes)
        return out

    def compute(self) -> None:
        """Compute what waits, in order, as far as anybody can still look at it."""
        with self.lock:
            waiting, self.waiting, self.seconds = self.waiting, [], 0.0
            self.interruptions += bool(waiting)
            waiting.reverse()
            try:
                while waiting:
                    block = waiting[-1]()
                    if block is not None and block.found is None:
                        block.compute()
                    del block
                    waiting.pop()
            finally:
                waiting.reverse()
                self.waiting[:0] = waiting

    def end(self) -> None:
        """Put nothing off any more, and compute what waits."""
        if MODES.deferral is self:
            MODES.deferral = None
        self.compute()


def _are_small(operands: tuple[Any, ...]) -> bool:
    """Are these tensors of one shape, and numbers, and so few bytes that a result like them is small, too?"""
    shape, nbytes = None, 0
    for x in operands:
        if isinstance(x, Tensor):
            array = x._array
            if array is None or (shape is not None and array.shape != shape):
                return False
            shape, nbytes = array.shape, nbytes + array.nbytes
    return 4 * nbytes < LEAST_BYTES


def _taken(operands: tuple[Any, ...]) -> tuple[list[Any], list[Any], bool] | None:
    """Types and numbers, arrays and what stands for them, and whether some are put off; None for other operands."""
    kinds: list[Any] = []
    given: list[Any] = []
    later = False
    for x in operands:
        if not isinstance(x, Tensor):
            if type(x) not in _NUMBERS:
                return None
            kinds.append(x)
            given.append(x)
            continue
        block = x._block
        if type(block) is Deferred and x._array is None:
            later = True
            given.append(block)
        elif x._run_time_type is not None or (ANY[0] and x.is_meta):
            return None
        else:
            array = x.array
            if MODULES and is_on_device(array):
                return None
            given.append(array)
        kinds.append(x.spec)
    return kinds, given, later


def _versions(operands: Sequence[Any]) -> list[tuple[Any, int]]:
    """How often the tensors among some operands were written to."""
    return [(x._writes, x._writes.value) for x in operands if isinstance(x, Tensor)]


def _shown(block: Deferred) -> Tensor:
    """A tensor of what is put off."""
    out = Tensor._wrap(None)
    out._block, out._type, out._layout = block, block.layout.spec, block.layout
    return out


def _placed(out: Tensor, operands: tuple[Any, ...]) -> Tensor:
    """A result on the host: by nobody's wish if that holds for all that it is made of."""
    if MODULES and all(x._unplaced for x in operands if isinstance(x, Tensor)):
        out._unplaced = True
    return out


def _is_plain_recording() -> bool:
    """Is a run recorded, and nothing else done beside it?"""
    recorder = MODES.recorder
    return (
        recorder is not None
        and recorder.failure is None
        and recorder.watched is None
        and recorder.scope is None
        and recorder.trial is None
        and not MODES.saved_hooks
        and MODES.anomaly is None
    )


def _is_total(op: Op) -> bool:
    """Does the type rule tell all that can go wrong, at least where positions are in range?"""
    if isinstance(op, Elementwise):
        return op.scalar is not None
    if isinstance(op, Reduction):
        return op.combine is not None
    return isinstance(op, Movement) or (isinstance(op, Contraction) and op.total) or op in _LOOKUPS


def _is_shown(op: Op, layout: Any, kinds: list[Any], attributes: dict[str, Any]) -> bool | None:
    """Is the result a view of what lies like this, and not a copy? None: look at the real one."""
    if not isinstance(op, Movement) or op.strides is None:
        return None
    shape: tuple[int, ...] = layout.spec.shape
    try:
        found = op.infer(kinds, attributes).shape
    except Exception:  # noqa: BLE001  (computed at once, it is an error where it belongs)
        return None
    if not prod(shape) or not prod(found):
        return None
    return op.strides(shape, layout.strides, found, **attributes) is not None


def _in_range(index: Any, size: int, attributes: dict[str, Any]) -> bool:
    """Are positions known, and in range?"""
    if type(index) is not np.ndarray or not index.size or index.dtype.kind != "i":
        return False
    least = -size if attributes.get("negative", False) else 0
    return bool(least <= index.min() and index.max() < size)


def _is_float(dtype: Any) -> bool:
    return bool(dtype.is_floating_point or dtype.category == "bool")


def _are_floats(kinds: list[Any]) -> bool:
    return all(type(k) in _NUMBERS or _is_float(k.dtype) for k in kinds)


def _products(op: Op, kinds: list[Any], kind: Any) -> int:
    """About how many multiplications a contraction takes."""
    if op is matmul:
        return int(kind.numel * kinds[0].shape[-1])
    if isinstance(op, Contraction) and len(kinds) > 1:
        return int(kind.numel * prod(kinds[1].shape[1:]))
    return 0
