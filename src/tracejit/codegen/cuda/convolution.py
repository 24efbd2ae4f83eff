"""Printing convolutions for a device: products of tiles that windows are read into, no matrix of windows is stored.

All three forms are sums of products: results of a convolution over channels and kernel, the gradient of its input over
what each position went into, and that of the weight over samples and positions. Rows of a square are channels of one
group; columns are positions of all samples, or elements of the kernel. Half precision is summed in float32.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph import Value
from ...ops.shapes import numel
from ...passes.windows.strips import equal
from ...passes.windows.taps import added_windows
from ...sizes import call
from .. import scalar
from ..nest import Layout
from .convolution_weight import write_weight
from .cuda import blocks_for
from .launch import BLOCK, DeviceCode, Launch
from .squares import EACH, SQUARE, TERMS, is_narrow
from .tiles import SIDE
from .windows import KINDS, WindowPrinter

__all__ = ["convolves", "write_convolution"]


def convolves(value: Value) -> bool:
    """Is this a convolution, or a gradient of one, of floats that has elements and terms?

    >>> from tracejit.ir import parse
    >>> convolves(parse("graph f(x: f32[2]) { %0: f32[2] = exp(x)  return %0 }").outputs[0])
    False
    """
    if value.op is None or value.op.name not in KINDS or not value.spec.dtype.is_floating_point:
        return False
    return all(v.spec.numel != 0 for v in (value, *value.value_operands))


def write_convolution(
    value: Value, out: Layout, layout_of: Callable[[Value], Layout]
) -> DeviceCode:
    """The kernels of a value for which `convolves`; the result lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.nest import Layout
    >>> graph = parse('''graph f(x: f32[2, 3, 9], w: f32[4, 3, 2]) {
    ...     %0: f32[2, 4, 8] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    ...     return %0
    ... }''')
    >>> dense = lambda value: Layout(value, 0, value.spec.contiguous_strides())
    >>> (launch,) = write_convolution(graph.outputs[0], dense(graph.outputs[0]), dense).launches
    >>> launch.name, launch.grid
    ('k_convolution', 1)
    """
    assert value.op is not None
    name = f"k_{value.op.name}"
    if value.op.name == "convolution_weight":
        steps = write_weight(value, out, layout_of, name)
    elif value.op.name == "convolution":
        steps = ((_Results(value, out, layout_of).write(name),),)
    else:
        again = _Gaps(value, out, layout_of).write(f"{name}_gaps")
        steps = ((_Inputs(value, out, layout_of).write(name),), (again,))
    return DeviceCode(name, steps, None, (value,))


class _Results(WindowPrinter):
    """A convolution: columns are positions of the result, terms its channels and the elements of the kernel."""

    source_name = "x"

    def __init__(self, value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> None:
        super().__init__(value, out, layout_of)
        weight = self.shape("weight")
        own, other = weight[0] // self.groups, weight[1]
        if self.kind_of == "convolution_input":
            own, other = other, own
        self.rows, self.channels = own, other
        # Few channels leave room for several neighbours in the kernel among the terms taken together.
        self.together = next((n for n in (1, 2, 4, 8) if bool(self.channels <= n)), TERMS)
        self.positions = [f"p{axis}" for axis in self.axes]

    def write(self, name: str) -> Launch:
        """The function."""
        samples, _, *counts = self.shape("out")
        columns = samples * numel(counts)
        self.narrow = is_narrow(columns + SQUARE)
        tasks = self.squares(self.rows, columns)
        self.text.array("seen", "local_i64(4)")
        self.text.array("at", "local_i64(4)")
        self.text.array("weight_at", "local_i64(4)")
        self.column(f"first_column + (thread() & {SQUARE - 1})", 2)
        self.start(2)
        self.clear(2)
        self.terms()
        self.store()
        doc = f"{self.value.spec}: squares of channels and positions"
        return self.launch(name, doc, blocks_for(tasks, 1))

    def column(self, index: str, indent: int) -> None:
        """The sample and position of a column; those past the end are the last one's."""
        _, _, *counts = self.shape("out")
        self.text.add(indent, f"column = minimum_i64({index}, columns - 1)")
        extents = (self.shape("out")[0], *counts)
        self.split("column", ("sample", *self.positions), extents, self.narrow, indent)

    def start(self, indent: int) -> None:
        """Where the sample of this thread's column begins, and its place along each axis before the kernel."""
        source = self.tensors[self.source_name]
        channel = f"group * {self.number('channels', self.channels)} * {source.stride(1)}"
        self.text.add(indent, f"sample_at = sample * {source.stride(0)} + {channel}")
        for axis in self.axes:
            self.text.add(indent, f"base{axis} = {self.base(axis)}")

    def base(self, axis: int) -> str:
        """Where the window of a result begins."""
        return f"p{axis} * {self.attribute('stride', axis)} - {self.attribute('padding', axis)}"

    def terms(self) -> None:
        """All elements of the kernel, the neighbours of a last one together, and all channels of each."""
        add, weight = self.text.add, self.tensors["weight"]
        indent, taps = 2, TERMS // self.together
        for axis in self.axes:
            step = taps if axis == self.axes[-1] else 1
            add(indent, f"for t{axis} in range(0, {self.extent('weight', axis)}, {step}):")
            indent += 1
        shift, mask = self.together.bit_length() - 1, self.together - 1
        add(indent, f"for i in range({EACH}):")
        self.look(indent + 1, shift)
        last = self.axes[-1]
        fixed = [f"t{axis} * {weight.stride(2 + axis)}" for axis in self.axes if axis != last]
        add(indent + 1, f"tap = t{last} + ((thread() & {TERMS - 1}) >> {shift})")
        own = f"first_row + (thread() >> 4) + {SIDE} * i"
        place = [self.weight_row(own), *fixed, f"tap * {weight.stride(2 + last)}"]
        add(indent + 1, f"weight_at[i] = {' + '.join(place)}")
        add(
            indent, f"for c in range(0, {self.number('channels', self.channels)}, {self.together}):"
        )
        add(indent + 1, "barrier()", "others may still read")
        add(indent + 1, f"for i in range({EACH}):")
        source = self.tensors[self.source_name]
        add(indent + 2, f"e = (thread() >> 6) + {EACH} * i")
        add(indent + 2, f"channel = c + (e & {mask})")
        seen = "(seen[i] != 0) and (channel < channels)"
        found = self.element(source, f"at[i] + channel * {source.stride(1)}")
        self.fill("right", "e", f"(thread() & {SQUARE - 1})", seen, found, indent + 2)
        add(indent + 2, f"k = thread() & {TERMS - 1}")
        add(indent + 2, f"own = (thread() >> 4) + {SIDE} * i")
        add(indent + 2, f"other = c + (k & {mask})")
        seen = "(first_row + own < rows) and (other < channels)"
        seen += f" and (t{last} + (k >> {shift}) < {self.extent('weight', last)})"
        found = self.element(weight, f"weight_at[i] + {self.weight_channel('other')}")
        self.fill("left", "k", "own", seen, found, indent + 2)
        add(indent + 1, "barrier()")
        self.products(indent + 1)

    def look(self, indent: int, shift: int) -> None:
        """Into ``seen`` and ``at``: what this thread's column sees through an element of the kernel, and where."""
        add, source, last = self.text.add, self.tensors[self.source_name], self.axes[-1]
        add(indent, f"near = t{last} + (((thread() >> 6) + {EACH} * i) >> {shift})")
        inside = [f"(near < {self.extent('weight', last)})"]
        terms = ["sample_at"]
        for axis in self.axes:
            tap = "near" if axis == last else f"t{axis}"
            inside += self.reach(axis, tap, indent)
            inside.append(f"(q{axis} >= 0) and (q{axis} < {self.extent(self.source_name, axis)})")
            terms.append(f"q{axis} * {source.stride(2 + axis)}")
        add(indent, "seen[i] = int64(0)")
        add(indent, f"at[i] = {' + '.join(terms)}")
        add(indent, f"if {' and '.join(inside)}:")
        add(indent + 1, "seen[i] = int64(1)")

    def reach(self, axis: int, tap: str, indent: int) -> list[str]:
        """``q``: which element an element of the kernel is laid on; conditions for that to be one."""
        self.text.add(indent, f"q{axis} = base{axis} + {tap} * {self.attribute('dilation', axis)}")
        return []

    def weight_row(self, row: str) -> str:
        """Where the weight of a row begins."""
        weight = self.tensors["weight"]
        return f"(group * {self.number('rows', self.rows)} + {row}) * {weight.stride(0)}"

    def weight_channel(self, channel: str) -> str:
        """How much further that of a channel lies."""
        return f"{channel} * {self.tensors['weight'].stride(1)}"

    def store(self) -> None:
        """The results of the threads."""
        add = self.text.add
        add(2, f"for j in range({EACH}):")
        add(3, f"place = first_column + tx * {EACH} + j")
        self.column("place", 3)
        self.find(3)
        add(3, f"for i in range({EACH}):")
        add(4, f"row = first_row + ty * {EACH} + i")
        add(4, "if (row < rows) and (place < columns):")
        add(5, f"{self.result()} = {scalar.store(f'sums[i * {EACH} + j]', self.dtype)}")

    def find(self, indent: int) -> None:
        """Into ``out_at``: where the results of a position begin."""
        terms = [f"sample * {self.out.stride(0)}"]
        terms += [f"{p} * {self.out.stride(2 + axis)}" for axis, p in enumerate(self.positions)]
        group = f"group * rows * {self.out.stride(1)}"
        self.text.add(indent, f"out_at = {' + '.join(terms)} + {group}")

    def result(self) -> str:
        """The element of the result in ``row``."""
        return f"{self.out.pointer()}[out_at + row * {self.out.stride(1)}]"


class _Inputs(_Results):
    """The gradient of the input: columns are positions of the input, terms what came out and the kernel's elements."""

    source_name = "y"

    def base(self, axis: int) -> str:
        """Where a position is along the windows' starts."""
        return f"p{axis} + {self.attribute('padding', axis)}"

    def reach(self, axis: int, tap: str, indent: int) -> list[str]:
        """The window that lays an element of the kernel here, if one starts there."""
        start = f"base{axis} - {tap} * {self.attribute('dilation', axis)}"
        if equal(self.value.attributes["stride"][axis], 1):
            self.text.add(indent, f"q{axis} = {start}")
            return []
        stride = self.attribute("stride", axis)
        self.text.add(indent, f"start{axis} = {start}")
        self.text.add(indent, f"q{axis} = maximum_i64(start{axis}, int64(0)) // {stride}")
        return [f"(q{axis} * {stride} == start{axis})"]

    def weight_row(self, row: str) -> str:
        """Rows are channels of the input; where the group's part of the weight begins."""
        weight = self.tensors["weight"]
        channels = self.number("channels", self.channels)
        return f"({row}) * {weight.stride(1)} + group * {channels} * {weight.stride(0)}"

    def weight_channel(self, channel: str) -> str:
        """Terms are what came out."""
        return f"{channel} * {self.tensors['weight'].stride(0)}"


class _Gaps(_Inputs):
    """The gradient of the input again, where it came out as no number.

    Where no window lays an element of the kernel on a position there is no product; in a square it is one with zero.
    Weights that are no numbers show there, and nothing else does. Where eager execution reverses the kernel it has
    those products as well, and no block runs.
    """

    def declare(self) -> None:
        """Nothing is shared: each thread looks at a result of its own."""

    def write(self, name: str) -> Launch:
        """The function."""
        add, shape = self.text.add, self.shape("out")
        added, strides = added_windows(self.value), self.value.attributes["stride"]
        (count,) = call(_with_gaps, numel(shape), added, *strides)
        self.narrow = is_narrow(numel(shape))
        first, step = f"block() * {BLOCK} + thread()", f"blocks() * {BLOCK}"
        add(1, f"for place in range({first}, {self.number('count', count)}, {step}):")
        self.split("place", ("sample", "channel", *self.positions), shape, self.narrow, 2)
        add(2, f"group = {self.quotient('channel', 'rows', self.rows, self.narrow)}")
        add(2, f"row = channel - group * {self.number('rows', self.rows)}")
        self.find(2)
        add(2, f"total = {scalar.load(self.result(), self.dtype)}")
        add(2, "if total != total:")
        add(3, f"total = {self.cast}(0)")
        self.start(3)
        self.sum(3)
        add(3, f"{self.result()} = {scalar.store('total', self.dtype)}")
        return self.launch(name, "results that are no numbers, without gaps", blocks_for(count))

    def sum(self, indent: int) -> None:
        """Into ``total``: the products of what lies there."""
        add, source, weight = self.text.add, self.tensors[self.source_name], self.tensors["weight"]
        for axis in self.axes:
            add(indent, f"for t{axis} in range(0, {self.extent('weight', axis)}):")
            indent += 1
        inside, places, taps = [], ["sample_at"], [self.weight_row("row")]
        for axis in self.axes:
            inside += self.reach(axis, f"t{axis}", indent)
            inside.append(f"(q{axis} >= 0) and (q{axis} < {self.extent(self.source_name, axis)})")
            places.append(f"q{axis} * {source.stride(2 + axis)}")
            taps.append(f"t{axis} * {weight.stride(2 + axis)}")
        add(indent, f"if {' and '.join(inside)}:")
        add(indent + 1, f"there = {' + '.join(places)}")
        add(indent + 1, f"tap_at = {' + '.join(taps)}")
        add(indent + 1, f"for c in range(0, {self.number('channels', self.channels)}):")
        left = self.element(weight, f"tap_at + {self.weight_channel('c')}")
        right = self.element(source, f"there + c * {source.stride(1)}")
        add(indent + 2, f"total = fma_{self.kind}({left}, {right}, total)")


def _with_gaps(count: int, added: int, *strides: int) -> tuple[int]:
    """How many results there are, none where every element of the kernel has a product with each."""
    return (count if added > 0 or any(s != 1 for s in strides) else 0,)
