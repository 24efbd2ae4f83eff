"""From a fusion group to a loop nest: axes merged where memory allows, and the stride of every operand along them.

Knows no device: `codegen.cpu` and `codegen.cuda` print the same nest. Which axes merge follows from how operands lie,
not from how long an axis is, so that a kernel serves every size, but for an extent of one in front of a long run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .. import config
from ..extents import hint, is_symbolic
from ..ir.fields import ByFields
from ..ir.graph import Value
from ..ops.shapes import numel
from ..ops.table import Source
from ..passes.fusion.groups import Dims, Group, is_random, root
from ..types import Shape


def is_one(stride: int) -> bool:
    """Are neighbours along an axis neighbours in memory, whatever the sizes are?"""
    return not is_symbolic(stride) and stride == 1


def is_zero(stride: int) -> bool:
    """Is there the same element all along an axis, whatever the sizes are?"""
    return not is_symbolic(stride) and stride == 0


@dataclass(frozen=True, eq=False)
class Layout(ByFields):
    """Where a value lies: the materialised value it shows, element offset and strides per dimension."""

    root: Value
    offset: int
    strides: Shape


@dataclass(frozen=True)
class Axis:
    """One loop: its extent here, and whether it is reduced."""

    extent: int
    reduced: bool


@dataclass(frozen=True)
class Access:
    """Strides of one operand along the axes of the nest; ``layout`` is None for random numbers: they have no memory."""

    strides: Shape
    layout: Layout | None

    def is_innermost(self, axis: int) -> bool:
        """Is an axis the last one along which there are several elements?"""
        return all(map(is_zero, self.strides[axis + 1 :]))


@dataclass(frozen=True)
class Nest:
    """Merged axes, kept ones first unless the innermost is kept, and the access of every outside operand and output."""

    axes: tuple[Axis, ...]
    reads: Mapping[Value, Access]
    writes: Mapping[Value, Access]

    @property
    def kept(self) -> tuple[int, ...]:
        """Axes that are not reduced, in order."""
        return tuple(a for a, axis in enumerate(self.axes) if not axis.reduced)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Reduced axes, in order."""
        return tuple(a for a, axis in enumerate(self.axes) if axis.reduced)


def index_source(value: Value) -> Value | None:
    """The source an operand shows, if the index gives it: constants, and iota through any views."""
    origin = root(value)
    if isinstance(origin.op, Source) and origin.op.scalar is not None and not origin.operands:
        return origin
    return None


def axis_strides(group: Group, dims: Dims, strides: Shape) -> list[int]:
    """Strides of a value per axis of the domain; 0 along axes it does not have."""
    result = [0] * len(group.domain)
    for axis, stride in zip(dims, strides, strict=True):
        if axis is not None:
            result[axis] = stride
    return result


def build_nest(
    group: Group,
    outputs: Sequence[Value],
    layout_of: Callable[[Value], Layout],
) -> Nest:
    """The loop nest of ``group``, whose ``outputs`` are stored."""
    reads: dict[Value, tuple[list[int], Layout | None]] = {}
    for value, dims in group.externals.items():
        layout = layout_of(value)
        strides = layout.strides
        if index_source(value) is not None:  # nothing is walked along an extent of one
            strides = tuple(
                0 if e == 1 else s for e, s in zip(value.spec.shape, strides, strict=True)
            )
        reads[value] = (axis_strides(group, dims, strides), layout)
    for value in group.values:
        if is_random(value):  # its "access" is the running number of the element
            strides = value.spec.contiguous_strides()
            reads[value] = (axis_strides(group, group.dims[value], strides), None)
    writes: dict[Value, tuple[list[int], Layout | None]] = {}
    for value in outputs:
        layout = layout_of(value)
        writes[value] = (axis_strides(group, group.dims[value], layout.strides), layout)
    reduced = group.reduced or frozenset()
    lies = [s for s, _ in (*reads.values(), *writes.values())]
    runs = merge_axes(group.domain, reduced, lies) if reduced else _loops(group.domain, lies)
    axes = tuple(_axis(group.domain, run, run[0] in reduced) for run in runs)
    last = [run[-1] for run in runs]

    def access(entry: tuple[list[int], Layout | None]) -> Access:
        strides, layout = entry
        return Access(tuple(strides[a] for a in last), layout)

    return Nest(
        axes, {v: access(e) for v, e in reads.items()}, {v: access(e) for v, e in writes.items()}
    )


def _loops(domain: Sequence[int], strides: Sequence[Sequence[int]]) -> list[list[int]]:
    """Runs of axes that are walked as one.

    Nothing is walked along an extent of one. Most are loops like others, which serve every size; in front of one long
    run it would be the loop that is shared among threads.
    """
    runs = merge_axes(domain, frozenset(), strides)
    if len(runs) != 2 or not all(is_one(domain[axis]) for axis in runs[0]):
        return runs
    long = hint(numel([domain[axis] for axis in runs[1]])) > config.grain_elements
    return runs[1:] if long else runs


def _axis(domain: Sequence[int], run: Sequence[int], reduced: bool) -> Axis:
    extent = 1
    for axis in run:
        extent *= domain[axis]
    return Axis(extent, reduced)


def merge_axes(
    domain: Sequence[int], reduced: frozenset[int], strides: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Runs of neighbouring axes that every operand walks as one."""
    runs: list[list[int]] = []
    for axis in range(len(domain)):
        if runs:
            previous = runs[-1][-1]
            same = (previous in reduced) == (axis in reduced)
            if same and all(s[previous] == s[axis] * domain[axis] for s in strides):
                runs[-1].append(axis)
                continue
        runs.append([axis])
    return runs


def counts_from_end(value: Value) -> bool:
    """May the positions of this lookup or scatter be negative?"""
    assert value.op is not None
    if value.op.name not in ("take", "put", "wrap_index"):
        return False
    return bool(value.attributes.get("negative", True))
