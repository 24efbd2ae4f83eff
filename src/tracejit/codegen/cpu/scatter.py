"""Printing scatters: values written to, or combined with, the memory of a result at positions that a tensor holds.

What is written to one place is written in the order of the positions, by one thread: eager execution gives the same
bits, whatever the number of threads. Threads share a dimension that the positions do not stand for; where there is none
before the elements of a position, each looks at all positions and writes those in its part, if there is much to write
at each of them. Single elements are written by one thread: a second one would have to look at all positions too, and
guess wrong at every other of them whether it is in its part, which takes longer than to add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import config
from ...dtypes import DType, int64
from ...ir.graph import Value
from ...ops.shapes import numel
from ...sizes import largest
from ...types import Shape
from .. import scalar
from ..kernel import Function, KernelCode, Number, Pointer, Text
from ..nest import Layout, counts_from_end, merge_axes
from .functions import COMBINED

#: Sums and products of these are rounded as eager execution rounds them, one by one.
ADDED = ("f32", "f64", "i32", "i64")
#: Elements at a position that are worth looking at it twice.
WORTH_SHARING = 16
_COMBINATIONS = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}


def scatters(value: Value) -> bool:
    """Does a value consist of another with elements written, or combined, at positions a tensor holds?"""
    name = value.op.name if value.op is not None else ""
    if name not in ("put", "scatter", "scatter_add", "scatter_combine"):
        return False
    if not value.spec.shape or value.spec.numel == 0 or value.spec.dtype.is_complex:
        return False
    return combination(value) is None or value.spec.dtype.short in ADDED


def combination(value: Value) -> str | None:
    """How new elements are combined with what is there, by NumPy's name; None where they are written over it."""
    assert value.op is not None
    if value.op.name == "scatter_combine":
        return _COMBINATIONS[value.attributes["reduce"]]
    added = value.op.name == "scatter_add" or value.attributes.get("accumulate")
    return "add" if added else None


def combined(value: Value, place: str, element: str) -> str:
    """The expression of what is written to ``place`` for a new element."""
    how = combination(value)
    if how is None:
        return element
    kind = scalar.storage_type(value.spec.dtype)
    return COMBINED[how].replace("@", kind).format(place, element)


def verb(value: Value) -> str:
    """What a scatter does, in the words of a comment."""
    return {None: "writes", "add": "adds"}.get(combination(value), "combines")


@dataclass(frozen=True)
class Walk:
    """The loops of a scatter: extents, and the strides of the result, the positions and the new values along them."""

    extents: Shape
    out: Shape
    index: Shape
    new: Shape
    lookup: int  # the loops that the position depends on are before this one
    first: int  # the loops over positions are from this one
    last: int  # to before this one


def write_scatter(value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> KernelCode:
    """The kernel that writes the new values of a scatter into memory that lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse('''graph f(x: f32[9, 5], i: i64[4], y: f32[4, 5]) {
    ...     %0: f32[9, 5] = put(x, i, y, dim=0, accumulate=True)
    ...     return %0
    ... }''')
    >>> [kernel.name for kernel in make_plan(graph, [(5, 1), (1,), (5, 1)]).kernels]
    ['k_clone', 'k_put']
    """
    assert value.op is not None
    name = f"k_{value.op.name}"
    walk = walk_of(value, out, layout_of)
    _, index, new = value.value_operands
    shared = shared_axis(walk)
    text = Text()
    indent = _open_loops(text, walk, range(walk.lookup), shared, 1)
    _find(text, value, index.spec.dtype, walk, indent, out)
    if shared is None and not is_single(walk):
        text.add(indent, "if (p >= lo) and (p < hi):")
        indent += 1
    indent = _open_loops(text, walk, range(walk.lookup, len(walk.extents)), shared, indent)
    place = f"out[{place_of(text, 'out', walk.out, 'p * out_at')}]"
    text.parameter("out_at", "i64", Number(out.strides[value.attributes["dim"]]))
    element = scalar.load(f"new[{place_of(text, 'new', walk.new)}]", new.spec.dtype)
    element = combined(value, place, element)
    text.add(indent, f"{place} = {scalar.store(element, value.spec.dtype)}")
    pointers = {
        "out": (value, out),
        "index": (index, layout_of(index)),
        "new": (new, layout_of(new)),
    }
    return KernelCode(name, (_finish(text, name, value, walk, pointers),), None, (value,))


def walk_of(value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> Walk:
    """The loops of a scatter, neighbours merged where memory allows.

    See `write_scatter`.
    """
    _, index, new = value.value_operands
    dim, ndim = value.attributes["dim"], index.spec.ndim
    strides = layout_of(index).strides
    if "accumulate" in value.attributes:  # put: one tensor of positions along one dimension
        shape, last = new.spec.shape, dim + ndim
        there = (*out.strides[:dim], *(0 for _ in range(ndim)), *out.strides[dim + 1 :])
        strides = (*(0 for _ in range(dim)), *strides, *(0 for _ in shape[last:]))
        positions = frozenset(range(dim, last))
    else:
        shape, last = index.spec.shape, ndim
        there = (*out.strides[:dim], 0, *out.strides[dim + 1 :])
        positions = frozenset((dim,))
    walked = (there, strides, layout_of(new).strides)
    runs = merge_axes(shape, positions, walked)
    extents = tuple(numel([shape[a] for a in run]) for run in runs)
    a, b, c = (tuple(s[run[-1]] for run in runs) for s in walked)
    end = dim + len(positions)
    before = [sum(run[0] < edge for run in runs) for edge in (last, dim, end)]
    return Walk(extents, a, b, c, *before)


def shared_axis(walk: Walk) -> int | None:
    """The first loop, among those that tell a position, over places that no other round of it writes to.

    >>> shared_axis(Walk((9, 5), (0, 1), (5, 1), (5, 1), 2, 0, 1)), shared_axis(Walk((9,), (0,), (1,), (1,), 1, 0, 1))
    (1, None)
    """
    return next((a for a in range(walk.lookup) if not walk.first <= a < walk.last), None)


def is_single(walk: Walk) -> bool:
    """Is one element written at each position, so that one thread does it all unless another loop is shared?

    >>> is_single(Walk((9, 5), (0, 1), (1, 0), (5, 1), 1, 0, 1)), is_single(Walk((9,), (0,), (1,), (1,), 1, 0, 1))
    (False, True)
    """
    return walk.lookup == len(walk.extents)


def _open_loops(text: Text, walk: Walk, axes: range, shared: int | None, indent: int) -> int:
    """Nested loops; the indent inside them. Threads share the one over the axis ``shared``."""
    for axis in axes:
        if axis == shared:
            text.add(indent, f"for i{axis} in range(lo, hi):")
        else:
            extent = text.parameter(f"n{axis}", "i64", Number(walk.extents[axis]))
            text.add(indent, f"for i{axis} in range({extent}):")
        indent += 1
    return indent


def _find(text: Text, value: Value, dtype: DType, walk: Walk, indent: int, out: Layout) -> None:
    """The position, checked: one out of range ends the program.

    One comparison finds all of those: negative ones are large without a sign. Counting from the end makes no choice
    that a processor could guess wrong.
    """
    size = value.spec.shape[value.attributes["dim"]]
    text.parameter("size", "i64", Number(size))
    position = f"index[{place_of(text, 'index', walk.index)}]"
    text.add(indent, f"p = {scalar.convert(position, dtype, int64)}")
    if counts_from_end(value):
        text.add(indent, "p = p + ((p >> 63) & size)", "negative ones count from the end")
    text.add(indent, "if uint64(p) >= uint64(size):")
    text.add(indent + 1, "return 1")


def place_of(text: Text, name: str, strides: Sequence[int], first: str = "") -> str:
    """The index of an element at the loops' variables."""
    terms = [first] if first else []
    for axis, stride in enumerate(strides):
        if stride == 1 and axis == len(strides) - 1:
            terms.append(f"i{axis}")
        elif stride != 0:
            terms.append(f"i{axis} * {text.parameter(f'{name}_s{axis}', 'i64', Number(stride))}")
    return " + ".join(terms) or "0"


def _finish(
    text: Text, name: str, value: Value, walk: Walk, pointers: dict[str, tuple[Value, Layout]]
) -> Function:
    for key, (shown, layout) in pointers.items():
        dtype = shown.spec.dtype
        pointer = Pointer(layout.root, layout.offset * dtype.itemsize, key == "out")
        text.parameter(key, scalar.storage_type(dtype) + "*", pointer)
    dim, shared = value.attributes["dim"], shared_axis(walk)
    doc = f"{value.spec}: {verb(value)} at positions along {dim}"
    if shared is None and is_single(walk):
        return Function(name, text.source(name, doc), tuple(text.parameters.values()), 1, 1)
    extent = value.spec.shape[0] if shared is None else walk.extents[shared]
    work = largest(1, numel(walk.extents))
    grain = largest(1, config.grain_elements * extent // work)
    if shared is None:
        there = largest(1, numel(walk.extents[walk.lookup :]))
        grain = largest(grain, extent * (WORTH_SHARING // there))
    return Function(name, text.source(name, doc), tuple(text.parameters.values()), extent, grain)
