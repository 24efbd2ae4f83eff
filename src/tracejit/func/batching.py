"""vmap: a function of single samples applied to every sample of a batch.

The function runs once, on tensors that stand for a sample of the batch (:mod:`.batched`). Where it looks at elements of
one, writes to one that it was given, or draws other numbers for each, samples are taken one after the other and results
stacked; compiled, their operations are rounds of one loop then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..cuda.arrays import MODULES
from ..errors import ArgumentValueError
from ..modes import MODES
from ..ops.elementwise import clone
from ..ops.functions.joining import stack
from ..ops.functions.shaping import movedim
from ..ops.functions.slicing import narrow, select
from ..ops.movement import expand, unsqueeze
from ..ops.source import full
from ..random import next_key
from ..tensor import Tensor
from . import batched


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies ``func`` to each slice of its arguments along ``in_dims`` and stacks the results.

    ``in_dims`` and ``out_dims`` are a dimension for all, or nested like the arguments and results; None for arguments
    that are not sliced, and results that are no tensors or the same for all. Arguments given by keyword are not sliced.
    Random draws differ from sample to sample where ``randomness`` is "different", and are those of the first sample
    where it is "same"; else they raise ``RuntimeError``. Of a batch without samples ``func`` is called with zeros.
    All samples are taken at once whatever ``chunk_size`` says. Raises ``ValueError`` for dimensions that do not fit,
    for batches of different sizes and for a ``chunk_size`` that is not positive.

    >>> import tracejit as tj
    >>> tj.vmap(tj.dot)(tj.ones(2, 3), tj.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentValueError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentValueError(
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})"
        )

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        dims = tuple(in_dims) if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        if len(dims) != len(args):
            raise ArgumentValueError(
                f"vmap: in_dims has {len(dims)} entries for {len(args)} arguments"
            )
        sizes: list[int] = []
        _measure(args, dims, sizes)
        if not sizes or len(set(sizes)) > 1:
            raise ArgumentValueError(
                "vmap: at least one Tensor argument must be sliced"
                if not sizes
                else f"vmap: Expected all tensors to have the same size in the mapped dimension, got {sizes}"
            )
        if sizes[0] > 1 and randomness != "different" and may_batch():
            found = _at_once(func, args, kwargs, dims, out_dims, randomness, sizes[0])
            if found is not None:
                return found[0]
        rows = []
        with _drawing(randomness) as draws:
            for index in range(max(sizes[0], 1)):
                draws.begin()
                rows.append(func(*_sliced(args, dims, index), **kwargs))
        return _stacked(rows, out_dims, sizes[0] == 0)

    return batched


def may_batch() -> bool:
    """Does nobody listen to ops but recordings and calls of vmap around, and do all run on the host?

    >>> may_batch()
    True
    """
    modes = MODES
    alone = modes.builder is None and modes.anomaly is None
    heard = modes.listening and not batched.is_batching()
    return alone and not (heard or modes.saved_hooks or MODULES or modes.autocast is not None)


def _at_once(
    func: Callable[..., Any],
    args: Any,
    kwargs: Any,
    dims: Any,
    out_dims: Any,
    randomness: str,
    size: int,
) -> tuple[Any] | None:
    """The result of one call for all samples, in a tuple; None where it takes one for each."""
    try:
        with batched.batching() as level, _drawing(randomness) as draws:
            draws.begin()
            result = func(*_for_all(args, dims, level), **kwargs)
            return (_together(result, out_dims, level, size),)
    except batched.LeavesBatch:
        return None


def _for_all(value: Any, dims: Any, level: int) -> Any:
    """Arguments with what stands for a sample in the place of batches."""
    parts = _parts(value, dims)
    if parts is not None:
        return _like(value, [_for_all(part, dim, level) for _, part, dim in parts])
    if not isinstance(value, Tensor) or dims is None:
        return value
    return batched.sample_of(movedim(value, dims, 0), level)


def _together(value: Any, dims: Any, level: int, size: int) -> Any:
    """Results with batches in the place of what stands for a sample."""
    parts = _parts(value, dims)
    if parts is not None:
        return _like(value, [_together(part, dim, level, size) for _, part, dim in parts])
    samples = batched.samples_of(value, level)
    if dims is None:
        if samples is not None:
            raise ArgumentValueError(
                "vmap: the function can not return a batched tensor where out_dims is None",
                "Say along which dimension samples are to be stacked, or return what is the same for all.",
            )
        return value
    if not isinstance(value, Tensor):
        raise ArgumentValueError(
            f"vmap: the function must only return Tensors, got type {type(value).__name__}"
        )
    if samples is None:
        samples = clone(expand(unsqueeze(value, dims=(0,)), shape=(size, *value.spec.shape)))
    return movedim(samples, 0, dims)


class _Draws:
    """Gives the keys of the random draws of samples."""

    def __init__(self, randomness: str, outer: Any) -> None:
        self.randomness, self.outer = randomness, outer
        self.keys: list[tuple[Tensor, int]] = []  # of the first sample
        self.count = 0  # draws of the present sample

    def begin(self) -> None:
        """The next sample."""
        self.count = 0

    def __call__(self, generator: Any) -> tuple[Tensor, int]:
        """The key of the next draw."""
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        position, self.count = self.count, self.count + 1
        if self.randomness == "same" and position < len(self.keys):
            return self.keys[position]
        MODES.draws = self.outer
        try:
            self.keys.append(next_key(generator))
        finally:
            MODES.draws = self
        return self.keys[-1]


@contextmanager
def _drawing(randomness: str) -> Iterator[_Draws]:
    """Inside, samples draw as ``randomness`` says."""
    outer = MODES.draws
    MODES.draws = _Draws(randomness, outer)
    try:
        yield MODES.draws
    finally:
        MODES.draws = outer


def _parts(value: Any, dims: Any) -> list[tuple[Any, Any, Any]] | None:
    """The entries of a container with their keys and dims; None for anything else."""
    if isinstance(value, dict):
        return [(k, v, dims[k] if isinstance(dims, dict) else dims) for k, v in value.items()]
    if isinstance(value, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else [dims] * len(value)
        if len(each) != len(value):
            raise ArgumentValueError("vmap: dims are not nested like what they are for")
        return [(i, v, d) for i, (v, d) in enumerate(zip(value, each, strict=True))]
    return None


def _measure(value: Any, dims: Any, sizes: list[int]) -> None:
    """Note how many slices each tensor has."""
    parts = _parts(value, dims)
    for _, part, dim in parts or ():
        _measure(part, dim, sizes)
    if parts is None and isinstance(value, Tensor) and dims is not None:
        if not -value.ndim <= dims < value.ndim:
            raise ArgumentValueError(
                f"vmap: Got in_dim={dims} for an input of dimensionality {value.ndim}"
            )
        sizes.append(value.shape[dims])


def _sliced(value: Any, dims: Any, index: int) -> Any:
    parts = _parts(value, dims)
    if parts is None:
        sliced = isinstance(value, Tensor) and dims is not None
        if not sliced:
            return value
        if value.shape[dims] == 0:
            shape = list(value.shape)
            del shape[dims]
            return full(shape=tuple(shape), value=0, dtype=value.dtype)
        return select(value, dims, index)
    return _like(value, [_sliced(part, dim, index) for _, part, dim in parts])


def _like(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, dict):
        return type(value)(zip(value, parts, strict=True))
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _stacked(rows: list[Any], dims: Any, empty: bool) -> Any:
    """The results of all samples together; of none where there is only one that stands for them."""
    first = rows[0]
    parts = _parts(first, dims)
    if parts is not None:
        found = [_stacked([row[key] for row in rows], dim, empty) for key, _, dim in parts]
        return _like(first, found)
    if dims is None:
        return first
    if not isinstance(first, Tensor):
        raise ArgumentValueError(
            f"vmap: the function must only return Tensors, got type {type(first).__name__}"
        )
    together = stack(rows, dims)
    return narrow(together, dims, 0, 0) if empty else together
