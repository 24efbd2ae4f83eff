"""Groups of values that become one kernel each, library calls between them, and the schedule of both."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ...extents import Extent, hint
from ...ir.graph import Graph, Value
from ...ops.random import RandomSource
from ...ops.shapes import numel
from ...ops.table import Elementwise, Movement, Reduction, Source
from ...scalar_math.bounds import ULP_BOUND

Dims = tuple[
    int | None, ...
]  # for each dimension of a value: an axis of the domain, or None for an extent of one

#: A group with more members is cut: registers and compile time grow with the body, not the benefit.
MAX_GROUP = 400
MAX_POINTERS = 48
#: A sum of more terms is cut, so that its kernels do not depend on how many there are.
MAX_TERMS = 8

#: Results of a reduction over the kept axes, in a group whose rows are reduced too, are columns.
FULL, ROW, COLUMN, FINAL = "full", "row", "column", "final"
#: Rows of at most so many elements are worked on side by side.
LONGEST_ROW = 10
#: Rows shorter than this have no columns beside them, unless they fill registers.
SHORT_ROW, _LANES = 64, 16
#: Elements that are reduced in the time of an elementary function of one number.
MIDDLING_ROW = 512
#: Elements of a block of rows beside which columns are reduced: enough that partial results are a small part of them.
BLOCK_ELEMENTS = 1 << 15
#: The most blocks: partial results of long rows are to stay few.
MOST_BLOCKS = 64
_CALLED = re.compile(r"(\w+)\(")


@dataclass(eq=False)
class Group:
    """Values that one kernel computes."""

    domain: list[int]
    reduced: frozenset[int] | None = None
    values: list[Value] = field(default_factory=list)
    dims: dict[Value, Dims] = field(default_factory=dict)
    level: dict[Value, str] = field(default_factory=dict)
    externals: dict[Value, Dims] = field(default_factory=dict)
    tables: set[Value] = field(default_factory=set)  # externals read at computed positions too

    @property
    def kept(self) -> tuple[int, ...]:
        """Axes that are not reduced."""
        return tuple(a for a in range(len(self.domain)) if a not in (self.reduced or ()))

    @property
    def ends_in_final(self) -> bool:
        """True when some value is reduced over every axis."""
        return any(level == FINAL for level in self.level.values())

    @property
    def ends_in_columns(self) -> bool:
        """True when rows are reduced, and some value over all of them."""
        return any(level == COLUMN for level in self.level.values())

    @property
    def takes_columns(self) -> bool:
        """True for reduced rows beside which columns are reduced, too.

        Columns are then added to in memory, row after row. Of short rows that do not fill registers they are had sooner
        by a kernel of their own, which keeps them in registers; and so they are where a block has a single row, for
        its partial results would be as large as what they are made of.
        """
        count = self.row_length
        if varies(count):
            return True
        now, rows = hint(count), hint(numel([self.domain[a] for a in self.kept]))
        if rows <= MOST_BLOCKS and now > BLOCK_ELEMENTS // 2:
            return False
        return bool(count > LONGEST_ROW) and (now >= SHORT_ROW or now % _LANES == 0)

    @property
    def has_middling_rows(self) -> bool:
        """True for reduced rows that take about as long as an elementary function of one number."""
        return not self.is_column and bool(LONGEST_ROW < hint(self.row_length) < MIDDLING_ROW)

    @property
    def row_length(self) -> Any:
        """How many elements are reduced to one."""
        return numel([self.domain[a] for a in self.reduced or ()])

    @property
    def is_long_sum(self) -> bool:
        """True for a sum of many values from elsewhere and nothing else."""
        terms = len(self.externals) >= MAX_TERMS
        return terms and all(v.op is not None and v.op.name == "add" for v in self.values)

    @property
    def is_column(self) -> bool:
        """True when the last axis is kept while others are reduced: accumulators are vectors along it."""
        return bool(self.reduced) and len(self.domain) - 1 not in (self.reduced or ())

    @property
    def lies_across(self) -> bool:
        """True for rows that are columns of what is read, as far as its views tell.

        Their kernel reduces columns, in the order of memory (`codegen.memory_order`), and ends with them.
        """
        everything = set(range(len(self.domain)))
        walked = [item for item in self.externals.items() if everything <= set(item[1])]
        along = [_along_memory(x, dims) for x, dims in walked]
        return not self.is_column and 2 * sum(a in self.kept for a in along) > len(along)


@dataclass(eq=False)
class Call:
    """A value computed by a library call."""

    value: Value


Step = Group | Call


@dataclass(frozen=True)
class Schedule:
    """Steps in order of execution, and the group of every fused value."""

    graph: Graph
    steps: tuple[Step, ...]
    outputs: dict[Group, tuple[Value, ...]]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The steps that are kernels."""
        return tuple(s for s in self.steps if isinstance(s, Group))


def varies(size: Any) -> bool:
    """Would code for one such size soon be followed by code for others?"""
    if type(size) is not Extent:
        return False
    scope = size.scope
    return scope.vary or not scope.told.isdisjoint(size.symbols)


def is_view(value: Value) -> bool:
    """True for values that alias their operand."""
    return isinstance(value.op, Movement) and value.op.is_view


def is_random(value: Value) -> bool:
    """True for random sources: an element depends on the key, (part of) a graph input, and on its position."""
    return isinstance(value.op, RandomSource) and root(value.value_operands[0]).op is None


def is_constant(value: Value) -> bool:
    """Is the value made of attributes alone? Such values are no steps: they are there before the first call."""
    return isinstance(value.op, Source) and not value.operands


def is_free(value: Value) -> bool:
    """True for constants that are recomputed at every use."""
    return is_constant(value) and value.op.scalar is not None  # type: ignore[union-attr]


def picks_from_row(value: Value) -> bool:
    """A gather of one element along a dimension."""
    if value.op is None or value.op.name != "gather":
        return False
    x, index = value.value_operands
    dim = value.attributes["dim"]
    rest = tuple(1 if d == dim else e for d, e in enumerate(x.spec.shape))
    return index.spec.shape == rest


def looks_up(value: Value) -> bool:
    """Is this made of elements of a tensor in memory, at positions that another one holds (or of checked positions)?"""
    name = value.op.name if value.op is not None else ""
    if name == "wrap_index":
        return True
    x = value.value_operands[0] if name in ("take", "gather") else None
    return x is not None and bool(x.spec.shape) and not is_free(root(x))


def looks_up_known(value: Value) -> bool:
    """Are the positions of a lookup written out, and within the table?"""
    index = root(value.value_operands[-1])
    if index.op is None or index.op.name != "literal" or len(value.value_operands) == 1:
        return False
    size = value.value_operands[0].spec.shape[value.attributes["dim"]]
    positions = index.attributes["values"]
    return all(position >= 0 for position in positions) and max(positions, default=-1) < size


def lookup_dims(value: Value) -> tuple[Dims | None, Dims]:
    """The dimensions of a lookup's table (if it has one) and of its positions, by those of the result."""
    index = value.value_operands[-1].spec.ndim
    if len(value.value_operands) == 1:
        return None, tuple(range(index))
    dim, count = value.attributes["dim"], value.value_operands[0].spec.ndim
    if value.op is not None and value.op.name == "gather":
        return tuple(None if d == dim else d for d in range(count)), tuple(range(count))
    table = tuple(None if d == dim else d + (index - 1) * (d > dim) for d in range(count))
    return table, tuple(range(dim, dim + index))


def _along_memory(value: Value, dims: Dims) -> int | None:
    """The axis, of those ``dims`` that a value is read along, on which neighbours in memory follow each other."""
    places = list(range(len(dims)))
    while value.op is not None and value.op.name == "permute":
        places = [value.attributes["dims"][place] for place in places]
        value = value.value_operands[0]
    return dims[places.index(len(dims) - 1)]


def root(value: Value) -> Value:
    """The value a chain of views shows."""
    while value.op is not None and is_view(value):
        value = value.value_operands[0]
    return value


@cache
def _is_elementary(scalar: str) -> bool:
    return any(f"{name}_f32" in ULP_BOUND for name in _CALLED.findall(scalar))


def is_elementary(value: Value) -> bool:
    """Does an elementwise value take an elementary function, long for a single number and short for many?

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = sqrt(%0) return %1 }")
    >>> [is_elementary(v) for v in graph.values]
    [True, False]
    """
    return isinstance(value.op, Elementwise) and _is_elementary(value.op.scalar or "")


def as_columns(columns: Group, rows: Group) -> Group | None:
    """``columns``, which reduces what ``rows`` keeps, as part of a group that reduces rows."""
    reduced, kept = rows.reduced, frozenset(rows.kept)
    if not kept or rows.is_column or not columns.is_column or columns.reduced != kept:
        return None
    if columns.domain != rows.domain or rows.ends_in_final or not rows.takes_columns:
        return None
    if any(columns.level[v] == ROW and not isinstance(v.op, Reduction) for v in columns.values):
        return None  # what follows from a column has no place there
    levels = {v: COLUMN if level == ROW else level for v, level in columns.level.items()}
    return replace(columns, reduced=reduced, level=levels)


def as_rows(rows: Group, full: Group) -> Group | None:
    """``rows`` in the axes of ``full``, when its domain is what ``full`` keeps: each of its points is a row there."""
    kept = full.kept
    if (
        not full.reduced
        or not kept
        or full.is_column
        or rows.domain != [full.domain[a] for a in kept]
    ):
        return None
    if rows.reduced and rows.reduced != frozenset(range(len(rows.domain))):
        return None
    if rows.reduced and full.lies_across:
        return None

    def renamed(dims: Dims) -> Dims:
        return tuple(None if a is None else kept[a] for a in dims)

    return Group(
        list(full.domain),
        full.reduced,
        list(rows.values),
        {v: renamed(d) for v, d in rows.dims.items()},
        {v: FINAL if level == FINAL else ROW for v, level in rows.level.items()},
        {v: renamed(d) for v, d in rows.externals.items()},
        set(rows.tables),
    )
