"""Printing the search for the places of numbers in sorted rows as a CPU kernel of its own: for a call of its op, and
for a step of a program.

Half of what is left of each number goes in each step, without a branch, and the same elements are looked at as in
PyTorch: what is found in elements that are not sorted is the same, too.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import config
from ...dtypes import DType, bool_, int32, int64
from ...extents import is_symbolic
from ...ir.graph import Value
from ...ops.shapes import numel
from ...sizes import largest
from .. import scalar
from ..kernel import Function, KernelCode, Number, Pointer, Scratch, Text
from ..nest import Layout, is_one, merge_axes

__all__ = ["searches", "write_search", "write_searches"]

#: Values that are searched together.
_TOGETHER = 512
#: Steps that the longest row could need.
_MOST_STEPS = 62
_ARRAYS = ("sequence", "values", "out", "ends")
_NUMBERS = ("length", "stride", "each", "total", "steps", "apart")
_GRAIN = 1


def write_search(dtype: DType, right: bool) -> Function:
    """Places of ``values`` in a ``sequence``, before equal elements unless ``right``; the extent is that of the tasks.

    A task searches ``each`` values, the last one what is left of the ``total``, in the ``length`` elements ``stride``
    times its number from the first, in so many ``steps``. ``ends`` holds ``each`` numbers for every worker, or for
    every task where ``apart`` is one instead of zero.

    >>> from tracejit.dtypes import float32
    >>> "there > values[i]" in write_search(float32, True).source
    True
    """
    text = Text()
    kind = scalar.storage_type(dtype)
    for number, name in enumerate(_ARRAYS):
        text.parameter(name, f"{kind}*" if number < 2 else "i64*", Number(number))
    for number, name in enumerate(_NUMBERS, len(_ARRAYS)):
        text.parameter(name, "i64", Number(number))
    text.add(1, "for task in range(lo, hi):")
    text.add(2, "begin = task * each")
    text.add(2, "stop = minimum_i64(begin + each, total)")
    text.add(2, "own = (worker + apart * (task - worker)) * each - begin")
    text.add(2, "for i in range(begin, stop):")
    text.add(3, "out[i] = 0")
    text.add(3, "ends[own + i] = length")
    text.add(2, "for _ in range(steps):")
    text.add(3, "for i in range(begin, stop):")
    text.add(4, "low = out[i]")
    text.add(4, "high = ends[own + i]")
    text.add(4, "middle = low + ((high - low) >> 1)")
    text.add(4, "there = sequence[task * stride + minimum_i64(middle, length - 1)]")
    text.add(4, f"behind = there {'>' if right else '>='} values[i]")
    text.add(4, "left = low < high")
    text.add(4, "out[i] = select(left & (not behind), middle + 1, low)")
    text.add(4, "ends[own + i] = select(left & behind, middle, high)")
    name = f"k_search_{kind}_{'right' if right else 'left'}"
    source = text.source(name, "places in sorted rows")
    return Function(name, source, tuple(text.parameters.values()), len(_ARRAYS), _GRAIN)


def searches(value: Value) -> bool:
    """Does a kernel of this module compute a value?

    >>> from tracejit.ir import parse
    >>> text = "graph f(x: f32[9], y: f32[3]) { %0: i64[3] = search_sorted(x, y, right=True) return %0 }"
    >>> searches(parse(text).outputs[0])
    True
    """
    if value.op is None or value.op.name != "search_sorted" or len(value.value_operands) < 2:
        return False
    sequence, wanted = (x.spec for x in value.value_operands)
    comparable = sequence.dtype is wanted.dtype and sequence.dtype is not bool_
    return (
        comparable and not sequence.dtype.is_complex and sequence.numel != 0 and wanted.numel != 0
    )


def write_searches(value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> KernelCode:
    """The kernel that writes a value, for which `searches` holds, into memory that lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: f32[9], y: f32[3]) { %0: i64[3] = search_sorted(x, y, right=True) return %0 }")
    >>> [kernel.name for kernel in make_plan(graph, [(1,), (1,)]).kernels]
    ['k_search_sorted']
    """
    return _Printer(value, out, layout_of).code()


class _Printer:
    """Prints the search of all values of an operand, some at a time."""

    def __init__(self, value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> None:
        sequence, wanted = value.value_operands
        self.value, self.text, self.dtype = value, Text(), sequence.spec.dtype
        self.layouts = {"sequence": layout_of(sequence), "values": layout_of(wanted), "out": out}
        self.several = len(sequence.spec.shape) > 1
        shape = wanted.spec.shape or (1,)
        rows = self.layouts["sequence"].strides[:-1] if self.several else ()
        strides = {
            "sequence": (*rows, *[0] * (len(shape) - len(rows))),
            "values": self.layouts["values"].strides or (1,),
            "out": out.strides or (1,),
        }
        runs = merge_axes(
            shape, frozenset({len(shape) - 1} if self.several else ()), [*strides.values()]
        )
        self.extents = [numel([shape[a] for a in run]) for run in runs]
        self.strides = {n: [lies[run[-1]] for run in runs] for n, lies in strides.items()}
        self.length = sequence.spec.shape[-1]
        wide = is_symbolic(self.length) or self.length >= 1 << 31
        self.place = int64 if wide else int32

    def number(self, name: str, value: int) -> str:
        """A parameter that holds an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def at(self, name: str, places: list[str], dtype: DType, last: str = "") -> str:
        """An element of an operand or the result."""
        layout = self.layouts[name]
        pointer = Pointer(layout.root, layout.offset * dtype.itemsize, name == "out")
        self.text.parameter(name, scalar.storage_type(dtype) + "*", pointer)
        terms = [last] if last else []
        for axis, stride in enumerate(self.strides[name]):
            if is_one(stride) and axis == len(self.extents) - 1:
                terms.append(places[axis])
            elif is_symbolic(stride) or stride:
                terms.append(f"{places[axis]} * {self.number(f'{name}_s{axis}', stride)}")
        return f"{name}[{' + '.join(terms) or '0'}]"

    def code(self) -> KernelCode:
        """The kernel of one function."""
        text, inner = self.text, len(self.extents) - 1
        length = self.number("length", self.length)
        pieces = self.number("pieces", -(-self.extents[inner] // _TOGETHER))
        low, high = (self.scratch(name) for name in ("lows", "highs"))
        cast = scalar.cast_name(self.place)
        text.add(1, "steps = 0")
        text.add(1, f"for step in range({_MOST_STEPS}):")
        text.add(2, f"steps += select(({length} >> step) > 0, 1, 0)")
        text.add(1, "for task in range(lo, hi):")
        text.add(2, f"start = (task % {pieces}) * {_TOGETHER}")
        count = self.number("n", self.extents[inner])
        text.add(2, f"stop = minimum_i64(start + {_TOGETHER}, {count})")
        places = self.split(inner)
        text.add(2, "for i in range(start, stop):")
        text.add(3, f"{low} = {cast}(0)")
        text.add(3, f"{high} = {cast}({length})")
        text.add(2, "for turn in range(steps):")
        text.add(3, "for i in range(start, stop):")
        text.add(4, f"low = {low}")
        text.add(4, f"high = {high}")
        text.add(4, f"middle = low + ((high - low) >> {cast}(1))")
        text.add(4, f"place = minimum_i64(int64(middle), {length} - 1)")
        stride = self.layouts["sequence"].strides[-1]
        step = "place" if is_one(stride) else f"place * {self.number('apart', stride)}"
        there = scalar.load(self.at("sequence", places, self.dtype, step), self.dtype)
        text.add(4, f"there = {there}")
        text.add(4, f"wanted = {scalar.load(self.at('values', places, self.dtype), self.dtype)}")
        text.add(4, f"behind = there {'>' if self.value.attributes['right'] else '>='} wanted")
        text.add(4, "left = low < high")
        text.add(4, f"{low} = select(left & (not behind), middle + {cast}(1), low)")
        text.add(4, f"{high} = select(left & behind, middle, high)")
        text.add(2, "for i in range(start, stop):")
        text.add(3, f"{self.at('out', places, int64)} = int64({low})")
        tasks = numel([*self.extents[:inner], -(-self.extents[inner] // _TOGETHER)])
        grain = largest(1, config.grain_elements // (_TOGETHER * 16))
        source = text.source("k_search_sorted", f"{self.value.spec}: places in sorted rows")
        parameters = tuple(text.parameters.values())
        function = Function("k_search_sorted", source, parameters, tasks, grain)
        return KernelCode("k_search_sorted", (function,), None, (self.value,))

    def scratch(self, name: str) -> str:
        """Where a bound of what is left for a value is kept."""
        scratch = Scratch(name, self.place, _TOGETHER, per_worker=True)
        self.text.parameter(name, scalar.storage_type(self.place) + "*", scratch)
        return f"{name}[worker * {_TOGETHER} + i - start]"

    def split(self, inner: int) -> list[str]:
        """The variables of all axes; those of the outer ones out of the number of the task."""
        if inner:
            self.text.add(2, "rest = task // pieces")
        found = [f"i{axis}" for axis in range(inner)]
        for axis in reversed(range(inner)):
            extent = self.number(f"n{axis}", self.extents[axis])
            self.text.add(2, f"i{axis} = rest % {extent}" if axis else f"i{axis} = rest")
            if axis:
                self.text.add(2, f"rest = rest // {extent}")
        return [*found, "i"]
