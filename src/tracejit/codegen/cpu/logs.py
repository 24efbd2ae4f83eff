"""Printing running logarithms of sums of exponentials.

What is carried is the largest element and the sum of the exponentials of all others' distances from it, so that nothing
overflows and the largest terms keep all their places. There is one exponential and one logarithm per element, and the
next element waits for neither. Rows that lie along the dimension go piece by piece through four loops, of which those
that evaluate functions are vector code.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...dtypes import DType, float64
from ...ops.shapes import numel
from .. import scalar
from ..along import AlongWriter
from ..kernel import Function, Scratch

#: Elements of a row between one loop and the next: what is known of them stays in the first-level cache.
PIECE = 256


def carried_logs(dtype: DType) -> dict[str, tuple[DType, str]]:
    """What goes from one element to the next: names, dtypes, and what is there before the first.

    Long sums need more places than what they are made of.
    """
    return {"top": (dtype, scalar.worst(dtype, "max")), "sum": (float64, "float64(0)")}


def _distance(new: str, top: str, dtype: DType) -> str:
    """How far an element is from the largest before it, as a negative number; equal infinities have no distance."""
    none = f"{scalar.cast_name(dtype)}(0)"
    return f"select({new} == {top}, {none}, -fabs_{scalar.compute_type(dtype)}({new} - {top}))"


def _summed(total: str, up: str, far: str) -> str:
    """The sum with one more element; if that is the largest so far, what was summed is scaled. NaN stays in the sum."""
    return f"select({up}, {total} * {far} + float64(1), {total} + {far})"


def _kept(writer: AlongWriter, at: str, new: str, found: str) -> str:
    """What is stored: the first element is its own result, to the sign of a zero."""
    return scalar.store(f"select({at} == 0, {new}, {found})", writer.value.spec.dtype)


def log_step(
    writer: AlongWriter, number: int | str, variables: Mapping[int, str], indent: int
) -> None:
    """One more element; ``number`` is behind the names of what is carried."""
    text, dtype = writer.text, scalar.compute_dtype(writer.source)
    kind, cast = scalar.compute_type(dtype), scalar.cast_name(dtype)
    top, total, new, far, up = (f"{name}{number}" for name in ("top", "sum", "new", "far", "up"))
    text.add(indent, f"{new} = {writer.element(variables)}")
    text.add(indent, f"{up} = {new} > {top}")
    text.add(indent, f"{far} = float64(exp_{kind}({_distance(new, top, dtype)}))")
    text.add(indent, f"{total} = {_summed(total, up, far)}")
    text.add(indent, f"{top} = select({up}, {new}, {top})")
    found = f"{top} + log_{kind}({cast}({total}))"
    stored = _kept(writer, variables[writer.walk.along], new, found)
    text.add(indent, f"{writer.at('out', variables)} = {stored}")


def logs_along(writer: AlongWriter) -> Function:
    """A row after the other, piece by piece."""
    text, walk = writer.text, writer.walk
    dtype, at = scalar.compute_dtype(writer.source), f"i{walk.along}"
    kind, cast = scalar.compute_type(dtype), scalar.cast_name(dtype)
    cells = {}
    for name in ("top", "far"):
        scratch = Scratch(f"{name}s", dtype, PIECE, per_worker=True)
        text.parameter(f"{name}s", scalar.storage_type(dtype) + "*", scratch)
        cells[name] = f"{name}s[worker * {PIECE} + {at} - start]"
    text.add(1, "for row in range(lo, hi):")
    if walk.outer:
        text.add(2, "rest = row")
    variables = {**writer.split("rest", walk.outer, 2), walk.along: at}
    for name, (_, nothing) in carried_logs(dtype).items():
        text.add(2, f"{name} = {nothing}")
    text.add(2, f"for start in range(0, {writer.extent(walk.along)}, {PIECE}):")
    text.add(3, f"stop = minimum_i64(start + {PIECE}, {writer.extent(walk.along)})")
    new, before = f"new = {writer.element(variables)}", f"before = {cells['top']}"
    bodies = (
        (new, f"{cells['top']} = top", "top = select(new > top, new, top)"),
        (new, before, f"{cells['far']} = exp_{kind}({_distance('new', 'before', dtype)})"),
        (
            new,
            before,
            f"far = float64({cells['far']})",
            f"sum = {_summed('sum', 'new > before', 'far')}",
            f"{cells['far']} = {cast}(sum)",
        ),
        (
            new,
            before,
            f"found = select(new > before, new, before) + log_{kind}({cells['far']})",
            f"{writer.at('out', variables)} = {_kept(writer, at, 'new', 'found')}",
        ),
    )
    for lines in bodies:
        text.add(3, f"for {at} in range(start, stop):")
        for line in lines:
            text.add(4, line)
    tasks = numel([walk.extents[a] for a in walk.outer])
    doc = f"{writer.value.spec}: along rows"
    return writer.finish(writer.name, tasks, walk.extents[walk.along] * 4, doc)
