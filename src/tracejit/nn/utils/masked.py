"""Packed sequences while a compiled function is recorded: how long each is, is known to the tensors only.

Packing takes numbers from the lengths, and every batch has others. A recording is to hold for all of them, so it
keeps beside the packed rows the padded batch that they came from, with a mask; recurrent layers and unpacking work
with that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...modes import MODES
from ...ops.functions.common import constant
from ...ops.functions.joining import cat
from ...ops.functions.slicing import slice_along
from ...ops.source import arange
from ...tensor import Tensor

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class Padded:
    """The batch behind packed rows, sequences sorted by falling length: (T, N, *), zero where ``mask`` (T, N) is False.

    ``longest`` is the size that the longest sequence has in this call.
    """

    batch: Any
    mask: Any
    lengths: Any
    longest: Any

    @classmethod
    def of(cls, data: Any) -> Padded | None:
        """What the run that is recorded knows about packed rows, if they are as they were made."""
        if MODES.recorder is None:
            return None
        known = MODES.recorder.packed.get(id(data))
        return known[1] if known is not None and known[2] == data._writes.value else None

    @classmethod
    def behind(cls, data: Any, sizes: Any) -> Padded | None:
        """The batch behind packed rows, of which ``sizes`` go on at each step; None where no recording tells it."""
        known = cls.of(data)
        if known is not None or not _told_sizes(data, sizes):
            return known
        (samples,) = sizes[0].reshape(1).tolist()  # a vector of known length: sizes may be any
        order = arange(start=0, step=1, count=samples, dtype=sizes.dtype)
        mask = order.unsqueeze(0) < sizes.unsqueeze(1)
        rows = (mask.flatten().cumsum(0) - 1).clamp(min=0)
        batch = data.index_select(0, rows).unflatten(0, mask.shape)
        batch = batch.where(_beside(mask, batch), constant(0, data.dtype, ()))
        padded = cls(batch, mask, mask.sum(0), mask.shape[0])
        MODES.recorder.packed[id(data)] = data, padded, data._writes.value
        return padded

    def packed(self, batch: Any) -> Any:
        """The rows of another ``batch`` of these lengths, step by step; they are known to be its rows."""
        data = batch.flatten(0, 1)[self.mask.flatten()]
        padded = Padded(batch, self.mask, self.lengths, self.longest)
        MODES.recorder.packed[id(data)] = data, padded, data._writes.value
        return data

    def fits(self, total: int | None) -> bool:
        """Is no sequence longer than ``total``, if that is given?"""
        return total is None or not bool((self.lengths > total).any())

    def filled(self, value: float, total: int | None) -> Any:
        """The batch as long as the longest sequence, or ``total``, with ``value`` where sequences have ended."""
        missing = 0 if total is None else max(total - self.mask.shape[0], 0)
        end = self.longest if total is None else total - missing
        batch, mask = (slice_along(x, 0, 0, end) for x in (self.batch, self.mask))
        found = batch.where(_beside(mask, batch), constant(value, batch.dtype, ()))
        if not missing:
            return found
        return cat([found, constant(value, found.dtype, (missing, *tuple(found.shape[1:])))], 0)

    def sizes(self) -> Any:
        """How many sequences go on at each step."""
        return slice_along(self.mask.sum(1), 0, 0, self.longest)


def told_lengths(x: Any, lengths: Any) -> bool:
    """Is a run recorded that tells the lengths of a batch (T, N, *), and can they be these?"""
    if MODES.recorder is None or not isinstance(lengths, Tensor) or x.dtype.is_complex:
        return False
    kind = lengths.spec
    if kind.dtype.category != "int" or tuple(kind.shape) != (x.shape[1],) or not x.shape[1]:
        return False
    return not ((lengths < 1).any() or (lengths > x.shape[0]).any())


def _told_sizes(data: Any, sizes: Any) -> bool:
    """Is a run recorded that tells how many packed rows go on at each step, and can they be these?"""
    if MODES.recorder is None or not isinstance(sizes, Tensor) or data.dtype.is_complex:
        return False
    kind = sizes.spec
    if kind.dtype.category != "int" or len(kind.shape) != 1 or not kind.shape[0] or not data.ndim:
        return False
    falls = not ((sizes < 1).any() or (sizes[1:] > sizes[:-1]).any())
    return falls and bool(sizes.sum() == data.shape[0])


def masked(x: Any, lengths: Any) -> Padded:
    """A batch (T, N, *) of ``lengths`` that fall."""
    steps = arange(start=0, step=1, count=x.shape[0], dtype=lengths.dtype)
    mask = steps.unsqueeze(1) < lengths.unsqueeze(0)
    (longest,) = lengths[:1].tolist()
    batch = x.where(_beside(mask, x), constant(0, x.dtype, ()))
    return Padded(batch, mask, lengths, longest)


def _beside(mask: Any, x: Any) -> Any:
    return mask.reshape(*mask.shape, *(1,) * (x.ndim - 2))
