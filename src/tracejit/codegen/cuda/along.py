"""Printing what goes through a tensor along one dimension, for a device: positions of extremes, running sums, products
and extremes.

A *team* of threads goes along a row: a warp, whose threads read neighbours; or one thread, where the row is short or
its neighbours in memory belong to other rows. Where there are few rows, they are cut into parts: one pass finds what
every part comes to, the next combines the parts of a row, and for running results a last one goes through the elements
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...dtypes import DType, int64
from ...ir.graph import Value
from ...ops.shapes import numel
from ...sizes import smallest
from .. import scalar
from ..along import (
    EXTREME_SO_FAR,
    EXTREMES,
    LEADING,
    LOG_OF_SUM,
    RUNNING,
    WEIGHTED_SUMS,
    AlongWriter,
    Walk,
    layouts_along,
    walk_of,
)
from ..cpu.along import goes_along
from ..cpu.totals import carried
from ..kernel import Scratch
from ..nest import Layout
from .cuda import blocks_for
from .launch import BLOCK, DeviceCode, DeviceText, Launch
from .primitives import WARP

__all__ = ["goes_along_on_a_device", "write_device_along"]

#: Threads that should have something to do, and the shortest part of a row that is worth further passes.
ENOUGH_THREADS, SHORTEST = 1 << 16, 1024
#: What is left to the host.
_HOST_ONLY = WEIGHTED_SUMS | {LEADING, LOG_OF_SUM}
#: Longest row of a single thread.
SHORT = 16
#: Elements that each thread of a warp asks for before the first is needed.
AHEAD = 4


def goes_along_on_a_device(value: Value) -> bool:
    """Does a kernel of this module compute a value?

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[9]) { %0: f32[9] = cumsum(x, dim=0)  return %0 }")
    >>> goes_along_on_a_device(graph.outputs[0])
    True
    """
    return goes_along(value) and value.op is not None and value.op.name not in _HOST_ONLY


def write_device_along(
    value: Value, out: Layout, layout_of: Callable[[Value], Layout]
) -> DeviceCode:
    """The kernel of a value for which `goes_along_on_a_device`; the result lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.nest import Layout
    >>> graph = parse("graph f(x: f32[9, 5]) { %0: i64[9] = argmax(x, dims=(1,), keepdim=False) return %0 }")
    >>> dense = lambda value: Layout(value, 0, value.spec.contiguous_strides())
    >>> (launch,) = write_device_along(graph.outputs[0], dense(graph.outputs[0]), dense).launches
    >>> launch.name, launch.grid
    ('k_argmax', 1)
    """
    assert value.op is not None
    layouts = layouts_along(value, out, layout_of)
    walk, name = walk_of(value, layouts), f"k_{value.op.name}"

    def printer() -> _Printer:
        return _Printer(value, walk, layouts)

    finds, parts = value.op.name in EXTREMES, printer().parts
    if parts == 1:
        one = printer().folded(name) if finds else printer().running(name)
        return DeviceCode(name, ((one,),), None, (value,))
    first = printer().folded(f"{name}_parts")
    between = printer().combined(f"{name}_combine")
    last = () if finds else ((printer().running(name),),)
    return DeviceCode(name, ((first,), (between,), *last), None, (value,))


class _Printer(AlongWriter):
    """Prints one of the passes."""

    text: DeviceText

    def __init__(self, value: Value, walk: Walk, layouts: Mapping[str, Layout]) -> None:
        super().__init__(value, walk, layouts)
        self.text = DeviceText()
        self.finds = self.op in EXTREMES
        self.axes = (*walk.outer, walk.along + 1) if walk.across else walk.outer
        self.rows = numel([walk.extents[a] for a in self.axes])
        self.length = walk.extents[walk.along]
        self.lanes = 1 if walk.across or self.length <= SHORT else WARP
        self.parts = 1
        if self.length >= 2 * SHORTEST and self.rows * self.lanes < ENOUGH_THREADS:
            wanted = -(-ENOUGH_THREADS // (self.rows * self.lanes))
            self.parts = smallest(wanted, -(-self.length // SHORTEST))
        self.whole = self.parts == 1
        self.carried = self._carried()

    # --- what is carried along a row --------------------------------------------------------------------------------

    def _carried(self) -> dict[str, tuple[DType, str]]:
        """Names, dtypes, and what changes no result."""
        if self.op in RUNNING:
            return carried(self, doubled=False)  # many devices are slow at float64
        dtype = scalar.compute_dtype(self.source)
        nowhere = "-1" if self.op == EXTREME_SO_FAR else str((1 << 63) - 1)
        kind = "max" if self._symbol == ">" else "min"
        return {
            "best": (dtype, scalar.worst(dtype, kind)),
            "place": (int64, f"int64({nowhere})"),
        }

    @property
    def _symbol(self) -> str:
        """The comparison that finds a better element."""
        if self.op == EXTREME_SO_FAR:
            return ">" if self.value.attributes["largest"] else "<"
        return EXTREMES[self.op][0]

    def clear(self, suffix: str, indent: int) -> None:
        """Let what is carried change nothing."""
        for name, (_, nothing) in self.carried.items():
            self.text.add(indent, f"{name}{suffix} = {nothing}")

    def take(self, suffix: str, variables: Mapping[int, str], indent: int) -> None:
        """An element as something to be carried."""
        element = self.element(variables)
        if self.op in RUNNING:
            number = scalar.convert(element, self.source, self.carried["total"][0])
            self.text.add(indent, f"total{suffix} = {number}")
            return
        self.text.add(indent, f"best{suffix} = {element}")
        self.text.add(indent, f"place{suffix} = int64({variables[self.walk.along]})")

    def merge(self, into: str, other: str, indent: int, when: str = "") -> None:
        """Take in what is carried under another suffix, in whichever order the two lie; only where ``when`` holds."""
        if self.op in RUNNING:
            found = f"total{into} {RUNNING[self.op]} total{other}"
            found = f"select({when}, {found}, total{into})" if when else found
            self.text.add(indent, f"total{into} = {found}")
            return
        new, best = f"best{other}", f"best{into}"
        same, better = f"({new} == {best})", f"({new} {self._symbol} {best})"
        if self.source.is_floating_point:  # NaN is the most extreme of all
            better = f"({better} | (({new} != {new}) & ({best} == {best})))"
            same = f"({same} | (({new} != {new}) & ({best} != {best})))"
        order = ">" if self.op == EXTREME_SO_FAR else "<"
        wins = f"{better} | ({same} & (place{other} {order} place{into}))"
        self.text.add(indent, f"wins = ({wins}) & ({when})" if when else f"wins = {wins}")
        for name in self.carried:
            self.text.add(indent, f"{name}{into} = select(wins, {name}{other}, {name}{into})")

    def cell(self, name: str, index: str, stem: str = "part") -> str:
        """Memory for what a part of a row comes to, or ("run") for what it comes to with those before it."""
        dtype, key = self.carried[name][0], f"{stem}_{name}s"
        scratch = Scratch(key, dtype, self.rows * self.parts, per_worker=False)
        return f"{self.text.parameter(key, scalar.storage_type(dtype) + '*', scratch)}[{index}]"

    # --- rows and parts ---------------------------------------------------------------------------------------------

    def open_tasks(self, tasks: int, lanes: int) -> None:
        """The loop over what the teams have to do."""
        each = BLOCK // lanes
        team = "thread()" if lanes == 1 else "(thread() >> 5)"
        if lanes > 1:
            self.text.add(1, f"lane = thread() & {lanes - 1}")
        first, count = f"block() * {each} + {team}", self.number("tasks", tasks)
        self.text.add(1, f"for task in range({first}, {count}, blocks() * {each}):")

    def open_part(self) -> dict[int, str]:
        """Which row and which part of it a task is; the variables of the row."""
        self.open_tasks(self.rows * self.parts, self.lanes)
        end = self.extent(self.walk.along)
        if self.whole:
            self.text.add(2, "row = task")
            self.text.add(2, "low = int64(0)")
            self.text.add(2, f"high = {end}")
        else:
            rows = self.number("rows", self.rows)
            self.text.add(2, f"part = task // {rows}")
            self.text.add(2, f"row = task - part * {rows}")
            self.text.add(2, f"cell = row * {self.number('parts', self.parts)} + part")
            size = self.number("part_size", -(-self.length // self.parts))
            self.text.add(2, f"low = part * {size}")
            self.text.add(2, f"high = minimum_i64(low + {size}, {end})")
        return self.split("row", self.axes, 2)

    def meet(self, lanes: int) -> None:
        """All threads of a team get what they carry together."""
        if lanes == 1:
            return
        self.text.add(2, f"for step in range({lanes.bit_length() - 1}):")
        for name in self.carried:
            self.text.add(3, f"{name}_other = shuffle_xor({name}, {lanes // 2} >> step)")
        self.merge("", "_other", 3)

    def close(self, name: str, tasks: int, lanes: int, doc: str) -> Launch:
        """The function that was written."""
        grid = blocks_for(tasks, BLOCK // lanes)
        source = self.text.source(name, f"{self.value.spec}: {doc}")
        return Launch(name, source, tuple(self.text.parameters.values()), grid)

    @property
    def team(self) -> str:
        """Who goes along a row, for people."""
        return "a thread" if self.lanes == 1 else "a warp"

    # --- the passes -------------------------------------------------------------------------------------------------

    def folded(self, name: str) -> Launch:
        """What every part comes to: the result, where a row is one part."""
        text, along = self.text, self.walk.along
        around = self.open_part()
        self.clear("", 2)
        steps = "low, high" if self.lanes == 1 else f"low + lane, high, {self.lanes}"
        text.add(2, f"for i{along} in range({steps}):")
        self.take("_new", {**around, along: f"i{along}"}, 3)
        self.merge("", "_new", 3)
        self.meet(self.lanes)
        indent = 2
        if self.lanes > 1:
            text.add(2, "if lane == 0:")
            indent = 3
        if self.whole:
            text.add(indent, f"{self.at('out', around)} = place")
        else:
            self.keep("cell", indent)
        doc = f"{self.team} per {'row' if self.whole else 'part of a row'}"
        return self.close(name, self.rows * self.parts, self.lanes, doc)

    def keep(self, index: str, indent: int) -> None:
        """Store what is carried."""
        for name in self.carried:
            self.text.add(indent, f"{self.cell(name, index)} = {name}")

    def fetch(self, suffix: str, index: str, indent: int, stem: str = "part") -> None:
        """What an earlier pass stored."""
        for name in self.carried:
            self.text.add(indent, f"{name}{suffix} = {self.cell(name, index, stem)}")

    def combined(self, name: str) -> Launch:
        """The parts of every row: their result, or what every part and those before it come to."""
        text = self.text
        self.open_tasks(self.rows, WARP)
        parts = self.number("parts", self.parts)
        text.add(2, f"base = task * {parts}")
        if not self.finds:
            self.clear("", 2)
            self.scan(
                "0",
                parts,
                lambda at, indent: self.fetch("_new", f"base + {at}", indent),
                lambda at, indent: self.keep_running(f"base + {at}", indent),
            )
            return self.close(name, self.rows, WARP, "a warp goes over the parts of a row")
        text.add(2, "row = task")
        around = self.split("row", self.axes, 2)
        self.clear("", 2)
        text.add(2, f"for i in range(lane, {parts}, {WARP}):")
        self.fetch("_new", "base + i", 3)
        self.merge("", "_new", 3)
        self.meet(WARP)
        text.add(2, "if lane == 0:")
        text.add(3, f"{self.at('out', around)} = place")
        return self.close(name, self.rows, WARP, "a warp combines the parts of a row")

    def keep_running(self, index: str, indent: int) -> None:
        """Store a running result for the next pass."""
        for name in self.carried:
            self.text.add(indent, f"{self.cell(name, index, 'run')} = {name}_here")

    def running(self, name: str) -> Launch:
        """The elements of every part, from what the parts before it come to."""
        text, along = self.text, self.walk.along
        around = self.open_part()
        self.clear("", 2)
        if not self.whole:
            text.add(2, "if part > 0:")
            self.fetch("", "cell - 1", 3, "run")

        def take(at: str, indent: int) -> None:
            self.take("_new", {**around, along: at}, indent)

        def put(at: str, suffix: str, indent: int) -> None:
            text.add(indent, f"{self.at('out', {**around, along: at})} = {self.result(suffix)}")

        if self.lanes == 1:
            text.add(2, f"for i{along} in range(low, high):")
            take(f"i{along}", 3)
            self.merge("", "_new", 3)
            put(f"i{along}", "", 3)
        else:
            self.scan("low", "high", take, lambda at, indent: put(at, "_here", indent))
        doc = f"{self.team} per {'row' if self.whole else 'part of a row'}"
        return self.close(name, self.rows * self.parts, self.lanes, doc)

    def result(self, suffix: str) -> str:
        """What is stored of something carried."""
        if self.op not in RUNNING:
            return f"place{suffix}"
        dtype, out = self.carried["total"][0], self.value.spec.dtype
        return scalar.store(scalar.convert(f"total{suffix}", dtype, out), out)

    def scan(
        self,
        low: str,
        high: str,
        take: Callable[[str, int], None],
        put: Callable[[str, int], None],
    ) -> None:
        """A warp's way along a row: its threads take neighbours, then each gets what lies before it."""
        text = self.text
        step = WARP * AHEAD
        for name, (dtype, _) in self.carried.items():
            text.array(f"{name}_taken", f"local_{scalar.storage_type(dtype)}({AHEAD})")
        text.add(2, f"for begin in range({low}, {high}, {step}):")
        text.add(3, f"for k in range({AHEAD}):")
        text.add(4, f"at = begin + k * {WARP} + lane")
        text.add(4, f"near = minimum_i64(at, {high} - 1)")  # no branch: all are asked for at once
        take("near", 4)
        for name, (_, nothing) in self.carried.items():
            text.add(4, f"{name}_taken[k] = select(at < {high}, {name}_new, {nothing})")
        text.add(3, f"for k in range({AHEAD}):")
        text.add(4, f"at = begin + k * {WARP} + lane")
        for name in self.carried:
            text.add(4, f"{name}_here = {name}_taken[k]")
            text.add(4, f"{name}_all = {name}_here")
        text.add(4, f"for step in range({WARP.bit_length() - 1}):")
        for name in self.carried:
            text.add(5, f"{name}_other = shuffle_xor({name}_all, 1 << step)")
        self.merge("_here", "_other", 5, "(lane & (1 << step)) != 0")
        self.merge("_all", "_other", 5)
        self.merge("_here", "", 4)
        self.merge("", "_all", 4)
        text.add(4, f"if at < {high}:")
        put("at", 5)
