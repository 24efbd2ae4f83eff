"""Going through a tensor along one dimension: which loops, and how elements are spelled in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .. import config
from ..ir.graph import Value
from ..ops.shapes import numel
from ..sizes import largest
from ..types import Shape
from . import scalar
from .kernel import Function, Number, Pointer, Text
from .nest import Layout, is_one, is_zero, merge_axes

#: The comparison that finds a better element, and the function that gives the better one.
EXTREMES = {"argmax": (">", "maximum"), "argmin": ("<", "minimum")}
#: How one more element is taken into a running result.
RUNNING = {"cumsum": "+", "cumprod": "*"}
#: The op that gives the logarithm of the sum of exponentials so far.
LOG_OF_SUM = "log_cumsum_exp"
#: The ops that give running sums weighted by exponentials, from either end: what the gradient of the former is made of.
WEIGHTED_SUMS = frozenset({"sums_after", "sums_before"})
#: The op that gives the position of the most extreme element so far.
EXTREME_SO_FAR = "cumextreme_index"
#: The ops whose result has an element for every element, made of those up to it.
SO_FAR = frozenset((*RUNNING, LOG_OF_SUM, EXTREME_SO_FAR))
#: The op that gives the positions of the first few in order.
LEADING = "first_positions"
#: The ops that go through one row after the other, however they lie.
_ROW_BY_ROW = WEIGHTED_SUMS | {LEADING}
#: Neighbouring rows that share a piece of memory: what is known of each stays in the first-level cache.
TILE = 256
#: Fewest neighbouring rows worth that.
NARROW = 16


@dataclass(frozen=True)
class Walk:
    """The loops: kept axes, then the one gone along, then, where rows lie across it, the one they lie along."""

    extents: Shape
    strides: Mapping[str, Shape]  # of the operands by their names, and of ``out``
    along: int
    across: bool

    @property
    def outer(self) -> tuple[int, ...]:
        """The axes before the one gone along."""
        return tuple(range(self.along))


def layouts_along(
    value: Value, out: Layout, layout_of: Callable[[Value], Layout]
) -> dict[str, Layout]:
    """How the operands of a value lie, by their names, and how ``out`` does."""
    assert value.op is not None
    names = value.op.operands
    return {**dict(zip(names, map(layout_of, value.value_operands), strict=True)), "out": out}


def walk_of(value: Value, layouts: Mapping[str, Layout]) -> Walk:
    """The loops of a value whose operands, of one shape, and result lie like this."""
    assert value.op is not None
    shape = value.value_operands[0].spec.shape
    finds = value.op.name in EXTREMES
    dim = value.attributes["dims"][0] if finds else value.attributes["dim"]
    strides = {name: list(layout.strides) for name, layout in layouts.items()}
    if finds and value.attributes["keepdim"]:
        strides["out"][dim] = 0
    elif finds:
        strides["out"].insert(dim, 0)
    runs = merge_axes(shape, frozenset({dim}), [*strides.values()])
    along = next(n for n, run in enumerate(runs) if dim in run)
    kept = [n for n in range(len(runs)) if n != along]
    extents = [numel([shape[a] for a in run]) for run in runs]
    x = strides[value.op.operands[0]]
    inner = [n for n in kept if is_one(x[runs[n][-1]])]
    across = bool(inner) and not is_one(x[dim]) and value.op.name not in _ROW_BY_ROW
    if across and not finds:
        across = extents[inner[0]] >= NARROW
    last = inner[:1] if across else []
    order = [*(n for n in kept if n not in last), along, *last]
    chosen = [runs[n] for n in order]
    return Walk(
        tuple(extents[n] for n in order),
        {name: tuple(lies[run[-1]] for run in chosen) for name, lies in strides.items()},
        order.index(along),
        across,
    )


class AlongWriter:
    """The text of one function, and how the elements of a walk are spelled in it."""

    def __init__(self, value: Value, walk: Walk, layouts: Mapping[str, Layout]) -> None:
        self.value, self.walk, self.layouts = value, walk, layouts
        self.text = Text()
        self.source = value.value_operands[0].spec.dtype
        assert value.op is not None
        self.op = value.op.name
        self.name = f"k_{self.op}"

    def extent(self, axis: int) -> str:
        """The parameter that holds the extent of an axis."""
        return self.number(f"n{axis}", self.walk.extents[axis])

    def number(self, name: str, value: int) -> str:
        """A parameter that holds an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def at(self, name: str, variables: Mapping[int, str]) -> str:
        """An element of an operand or the result, in memory."""
        layout = self.layouts[name]
        dtype = self.value.spec.dtype if name == "out" else self.source
        pointer = Pointer(layout.root, layout.offset * dtype.itemsize, name == "out")
        self.text.parameter(name, scalar.storage_type(dtype) + "*", pointer)
        terms = []
        for axis, stride in enumerate(self.walk.strides[name]):
            if axis not in variables or is_zero(stride):
                continue
            if is_one(stride) and axis == len(self.walk.extents) - 1:
                terms.append(variables[axis])
            else:
                terms.append(f"{variables[axis]} * {self.number(f'{name}_s{axis}', stride)}")
        return f"{name}[{' + '.join(terms) or '0'}]"

    def element(self, variables: Mapping[int, str], name: str = "x") -> str:
        """An element of an operand in the type it is computed with."""
        return scalar.load(self.at(name, variables), self.source)

    def split(self, running: str, axes: Sequence[int], indent: int) -> dict[int, str]:
        """The variables of some axes out of their running number."""
        found: dict[int, str] = {}
        for axis in reversed(axes):
            if axis == axes[0]:
                found[axis] = running
                break
            self.text.add(indent, f"i{axis} = {running} % {self.extent(axis)}")
            self.text.add(indent, f"{running} = {running} // {self.extent(axis)}")
            found[axis] = f"i{axis}"
        return found

    def finish(self, name: str, extent: int, work: int, doc: str) -> Function:
        """The function, for so many tasks of so much work each."""
        grain = largest(1, config.grain_elements // largest(1, work))
        parameters = tuple(self.text.parameters.values())
        return Function(name, self.text.source(name, doc), parameters, extent, grain)

    def open_tile(self, running: str, indent: int) -> str:
        """From a running number: the tile of neighbouring rows; the name of what is left of the number."""
        inner = self.walk.along + 1
        tiles = self.number("tiles", self.tiles)
        self.text.add(indent, f"start = ({running} % {tiles}) * {TILE}")
        self.text.add(indent, f"stop = minimum_i64(start + {TILE}, {self.extent(inner)})")
        self.text.add(indent, f"part = {running} // {tiles}")
        return "part"

    @property
    def tiles(self) -> int:
        """How many tiles the neighbouring rows make."""
        return -(-self.walk.extents[-1] // TILE)

    @property
    def around(self) -> int:
        """How many rows there are along the axes before the one gone along."""
        return numel([self.walk.extents[a] for a in self.walk.outer])
