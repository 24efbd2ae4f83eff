"""Printing running sums weighted by exponentials: what gradients of running logarithms are made of.

From one element to the next a sum shrinks by a factor that does not depend on it. Rows go piece by piece through
three loops: the factors and the sum itself, of which only the latter waits for the element before; those that evaluate
exponentials are vector code.
"""

from __future__ import annotations

from ...ops.shapes import numel
from .. import scalar
from ..along import AlongWriter
from ..kernel import Function, Scratch
from .logs import PIECE


def weighted_along(writer: AlongWriter) -> Function:
    """A row after the other, piece by piece, from the end that the sums begin at."""
    text, walk = writer.text, writer.walk
    after, axis = writer.op == "sums_after", walk.along
    extent, dtype = writer.extent(axis), scalar.compute_dtype(writer.source)
    cells = {}
    for name in ("shrunk", "sums"):
        scratch = Scratch(name, dtype, PIECE, per_worker=True)
        text.parameter(name, scalar.storage_type(dtype) + "*", scratch)
        cells[name] = f"{name}[worker * {PIECE} + i{axis} - start]"
    text.add(1, "for row in range(lo, hi):")
    if walk.outer:
        text.add(2, "rest = row")
    variables = writer.split("rest", walk.outer, 2)
    here, beside = {**variables, axis: f"i{axis}"}, {**variables, axis: "beside"}
    a, x, top = (writer.element(here, name) for name in ("a", "x", "top"))
    neighbour = writer.element(beside, "top")
    zero = f"{scalar.cast_name(dtype)}(0)"
    text.add(2, f"total = {zero}")
    text.add(2, f"for piece in range(0, {extent}, {PIECE}):")
    if after:
        text.add(3, f"stop = {extent} - piece")
        text.add(3, f"start = maximum_i64(stop - {PIECE}, 0)")
        first, where = f"i{axis} == {extent} - 1", f"minimum_i64(i{axis} + 1, {extent} - 1)"
        factor = _factor(writer, "next_top", "top_here")
        weighted, added, found = a, None, f"total_here * {_factor(writer, 'top_here', 'x_here')}"
    else:
        text.add(3, "start = piece")
        text.add(3, f"stop = minimum_i64(start + {PIECE}, {extent})")
        first, where = f"i{axis} == 0", f"maximum_i64(i{axis} - 1, 0)"
        factor = _factor(writer, "top_here", "next_top")
        weighted, added, found = f"{a} * {_factor(writer, 'top_here', 'x_here')}", x, "total_here"
    text.add(3, f"for i{axis} in range(start, stop):")
    text.add(4, f"beside = {where}")
    text.add(4, f"next_top = {neighbour}")
    text.add(4, f"top_here = {top}")
    text.add(4, f"{cells['shrunk']} = select({first}, {zero}, {factor})")
    if added is not None:
        text.add(4, f"x_here = {added}")
    text.add(4, f"{cells['sums']} = {weighted}")
    text.add(3, "for turn in range(start, stop):")
    text.add(4, f"i{axis} = {'start + stop - 1 - turn' if after else 'turn'}")
    text.add(4, f"total = {cells['sums']} + total * {cells['shrunk']}")
    text.add(4, f"{cells['sums']} = total")
    text.add(3, f"for i{axis} in range(start, stop):")
    text.add(4, f"total_here = {cells['sums']}")
    if after:
        text.add(4, f"x_here = {x}")
        text.add(4, f"top_here = {top}")
    text.add(4, f"{writer.at('out', here)} = {scalar.store(found, writer.value.spec.dtype)}")
    tasks = numel([walk.extents[n] for n in walk.outer])
    doc = f"{writer.value.spec}: along rows"
    return writer.finish(writer.name, tasks, walk.extents[axis] * 4, doc)


def _factor(writer: AlongWriter, later: str, earlier: str) -> str:
    """``exp(earlier - later)``; nothing is left of what has no weight."""
    dtype = scalar.compute_dtype(writer.source)
    kind, cast = scalar.compute_type(dtype), scalar.cast_name(dtype)
    nothing = f"{earlier} == {scalar.worst(dtype, 'max')}"
    return f"select({nothing}, {cast}(0), exp_{kind}({earlier} - {later}))"
