"""Sequences of different lengths in one batch: padded, or packed so that no step computes padding."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...dtypes import int64
from ...extents import hint, is_symbolic
from ...modes import MODES
from ...ops.functions.common import constant
from ...ops.functions.joining import cat, stack
from ...ops.functions.slicing import slice_along
from ...ops.source import arange
from ...sizes import largest
from ...tensor import Tensor
from ...tensor_make import tensor
from .masked import Padded, masked, told_lengths

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """Sequences by falling length, step by step: rows of all first steps, then of all second steps, and so on.

    ``batch_sizes`` says how many rows each step has; the indices lead to the order by length and back.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with ``data.to(...)``."""
        return self._with(self.data.to(*args, **kwargs))

    def _with(self, data: Any) -> PackedSequence:
        """The same with other rows; how they are ordered is told where the rows are."""
        if data is self.data:
            return self
        orders = (self.sorted_indices, self.unsorted_indices)
        moved = (None if order is None else order.to(data.device) for order in orders)
        return PackedSequence(data, self.batch_sizes, *moved)

    @property
    def is_cuda(self) -> bool:
        """Are the rows on a device?"""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Do the rows lie where a device reads them by itself?"""
        return bool(self.data.is_pinned())

    def pin_memory(self) -> PackedSequence:
        """The same with rows that a device reads by itself."""
        return self._with(self.data.pin_memory())

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on a device."""
        return self._with(self.data.cuda(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """The same in the memory of the host."""
        return self._with(self.data.cpu())

    def double(self) -> PackedSequence:
        """The same in float64."""
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        """The same in float32."""
        return self._with(self.data.float())

    def half(self) -> PackedSequence:
        """The same in float16."""
        return self._with(self.data.half())

    def long(self) -> PackedSequence:
        """The same in int64."""
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        """The same in int32."""
        return self._with(self.data.int())

    def short(self) -> PackedSequence:
        """The same in int16."""
        return self._with(self.data.short())

    def char(self) -> PackedSequence:
        """The same in int8."""
        return self._with(self.data.char())

    def byte(self) -> PackedSequence:
        """The same in uint8."""
        return self._with(self.data.byte())


def _integers(values: Any) -> Tensor:
    return Tensor._wrap(np.asarray(values, np.int64))


def _lengths(lengths: Any) -> list[int]:
    found = lengths.tolist() if hasattr(lengths, "tolist") else lengths
    return [int(n) for n in found]


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack (T, N, *) (``batch_first``: (N, T, *)) whose sample i has ``lengths[i]`` steps.

    Raises ``RuntimeError`` unless lengths are positive and, with ``enforce_sorted``, fall.

    >>> import tracejit as tj
    >>> packed = pack_padded_sequence(tj.tensor([[1, 2], [3, 0]]), [2, 1])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 2, 3]), tensor([2, 1]))
    """
    x = input.transpose(0, 1) if batch_first else input
    if MODES.recorder is not None:
        found = _packed_inside(x, lengths, enforce_sorted)
        if found is not None:
            return found
    counts = _lengths(lengths)
    if len(counts) != x.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} "
            f"(batch_size={x.shape[1]})"
        )
    if any(n <= 0 for n in counts):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    order = unsorted = None
    if not enforce_sorted:
        ranks = np.argsort(-np.asarray(counts), kind="stable")
        counts = [counts[i] for i in ranks]
        order, unsorted = _integers(ranks), _integers(np.argsort(ranks))
        x = x.index_select(1, order)
    elif any(a < b for a, b in itertools.pairwise(counts)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
            "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
            "requirement if you do not need ONNX exportability."
        )
    sizes = [sum(n > step for n in counts) for step in range(counts[0])]
    rows = [slice_along(x[step], 0, 0, size) for step, size in enumerate(sizes)]
    return PackedSequence(cat(rows, 0), _integers(sizes), order, unsorted)


def _packed_inside(x: Any, lengths: Any, enforce_sorted: bool) -> PackedSequence | None:
    """The sequences of (T, N, *) packed for any lengths, while this is recorded; None where that cannot be."""
    order = unsorted = None
    if not told_lengths(x, lengths):
        return None
    if not enforce_sorted:
        order = lengths.argsort(descending=True, stable=True)
        unsorted = order.argsort()
        x, lengths = x.index_select(1, order), lengths.index_select(0, order)
    elif (lengths[:-1] < lengths[1:]).any():
        return None
    padded = masked(x, lengths)
    return PackedSequence(padded.packed(padded.batch), padded.sizes(), order, unsorted)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """The padded batch (T, N, *) and the lengths of a packed one: the inverse of :func:`pack_padded_sequence`.

    Raises ``ValueError`` when ``total_length`` is below the longest sequence.

    >>> import tracejit as tj
    >>> pad_packed_sequence(pack_sequence([tj.tensor([1, 2]), tj.tensor([3])]))
    (tensor([[1, 3],
            [2, 0]]), tensor([2, 1]))
    """
    known = Padded.behind(sequence.data, sequence.batch_sizes)
    if known is not None and known.fits(total_length):
        padded = known.filled(padding_value, total_length)
        return _ordered(padded, known.lengths.long().clone(), sequence, batch_first)
    sizes = _lengths(sequence.batch_sizes)
    if total_length is not None and total_length < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(sizes)}"
        )
    data, start, steps = sequence.data, 0, []
    rest = tuple(data.shape[1:])
    for size in sizes:
        step = slice_along(data, 0, start, size)
        start += size
        if size < sizes[0]:
            step = cat([step, constant(padding_value, data.dtype, (sizes[0] - size, *rest))], 0)
        steps.append(step)
    missing = (total_length or len(sizes)) - len(sizes)
    if missing:
        steps += [constant(padding_value, data.dtype, (sizes[0], *rest))] * missing
    padded = stack(steps, 0)
    lengths = _integers([sum(size > row for size in sizes) for row in range(sizes[0])])
    return _ordered(padded, lengths, sequence, batch_first)


def _ordered(
    padded: Any, lengths: Any, sequence: PackedSequence, batch_first: bool
) -> tuple[Any, Any]:
    """A padded batch and its lengths in the order in which the sequences were packed."""
    padded = padded.transpose(0, 1) if batch_first else padded
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return padded, lengths


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each position went; None for None.

    >>> import tracejit as tj
    >>> tj.nn.utils.rnn.invert_permutation(tj.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def pad_sequence(
    sequences: Iterable[Any],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Stack tensors (T_i, *) into (T, N, *) (``batch_first``: (N, T, *)), filled up with ``padding_value``.

    Raises ``RuntimeError`` unless ``padding_side`` is "right" or "left".

    >>> import tracejit as tj
    >>> pad_sequence([tj.tensor([1, 2]), tj.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if padding_side not in ("right", "left"):
        raise RuntimeError("padding_side should be either 'right' or 'left'")
    given = list(sequences)
    if not given:
        raise RuntimeError("received an empty list of sequences")
    if _have_sizes_that_vary(given):
        return _picked(given, 0 if batch_first else 1, padding_value, padding_side == "right")
    longest = max(x.shape[0] for x in given)
    rows = []
    for x in given:
        if x.shape[0] < longest:
            filler = constant(padding_value, x.dtype, (longest - x.shape[0], *tuple(x.shape[1:])))
            x = cat([x, filler] if padding_side == "right" else [filler, x], 0)
        rows.append(x)
    return stack(rows, 0 if batch_first else 1)


def _have_sizes_that_vary(given: Sequence[Any]) -> bool:
    """Are these alike but for lengths that may be other ones next time, in the same code?"""
    if not any(x.ndim and is_symbolic(x.shape[0]) for x in given):
        return False
    return len({(x.dtype, *map(hint, x.shape[1:])) for x in given}) == 1


def _picked(given: Sequence[Any], dim: int, padding_value: float, right: bool) -> Any:
    """The padded batch, by the position of each of its rows among those of all sequences.

    Which of them is the longest, and by how much, decides nothing then.
    """
    longest = functools.reduce(largest, (x.shape[0] for x in given))
    counts = tensor([x.shape[0] for x in given], dtype=int64).unsqueeze(1 - dim)
    steps = arange(start=0, step=1, count=longest, dtype=int64).unsqueeze(dim)
    steps = steps if right else steps - (longest - counts)
    inside = (steps >= 0) & (steps < counts)
    at = (counts.cumsum(dim) - counts + steps).where(inside, constant(0, int64, ()))
    rest = (1,) * (given[0].ndim - 1)
    filler = constant(padding_value, given[0].dtype, ())
    return cat(given, 0)[at].where(inside.reshape(*inside.shape, *rest), filler)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded batch.

    >>> import tracejit as tj
    >>> unpad_sequence(tj.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [slice_along(x[i], 0, 0, n) for i, n in enumerate(_lengths(lengths))]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors (T_i, *).

    >>> import tracejit as tj
    >>> pack_sequence([tj.tensor([1, 2]), tj.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed batch.

    >>> import tracejit as tj
    >>> unpack_sequence(pack_sequence([tj.tensor([1, 2]), tj.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
