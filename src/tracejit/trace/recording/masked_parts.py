"""Parts under a mask that are changed element by element: all elements are computed, and chosen where the mask holds.

``v[m] *= -1`` reads as many elements as the mask has true ones, multiplies them and puts them back. Only the run tells
how many, which ends a piece of the recording: a loop of such rounds is a piece for each of them. What is written down
instead knows no such size::

    %4: i64[n0, 1] = nonzero(m)
    %6: f32[n0] = take(v, %5, dim=0)                 (nothing reads these, and they are left out)
    %7: f32[n0] = mul(%6, -1)
    %8: f32[640] = mul(v, -1)
    %9: f32[640] = where(m, %8, v)                   (a put of %7)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.graph import Value
from ...ops.elementwise import where
from ...ops.indexing import put, take, wrap_index
from ...ops.kinds import Elementwise
from ...ops.movement import reshape
from ...ops.op import Op
from ...ops.ordering import nonzero
from ..sizes.found_sizes import has_extents
from ..sizes.sized_walk import sizes_in
from ..tree.tree import is_found
from .unread_lookups import behind, guard_unread

if TYPE_CHECKING:
    from .recorder import Recorder

#: What integers cannot all be given, so that it is computed for those only that the program gives it.
_CAN_FAIL = frozenset({"floor_divide", "remainder", "fmod", "pow"})


def written_down(
    recorder: Recorder,
    op: Op,
    values: Sequence[Any],
    attributes: dict[str, Any],
    tracked: bool,
    kind: Any,
    line: tuple[str, int] | None,
) -> Value:
    """What is written down for an op that ran: the op, or for a `put` of changed elements where they were the whole.

    Not where gradients are wanted: they would come from elements that the mask leaves out, too.
    """
    if op is put and not tracked and recorder.scope is not None and not attributes["accumulate"]:
        whole = _whole_part(recorder, values, attributes)
        if whole is not None:
            return whole
    return recorder.emit(op, values, attributes, tracked, kind, line)


def _whole_part(
    recorder: Recorder, values: Sequence[Any], attributes: dict[str, Any]
) -> Value | None:
    """All elements of a tensor, those under a mask changed; None where a `put` is something else."""
    base, index, new = values
    mask = _mask_of(index)
    if mask is None or not isinstance(new, Value) or not has_extents(new.spec.shape):
        return None
    dim, shape = attributes["dim"], base.spec.shape
    if has_extents(shape) or shape[dim] != mask.spec.numel:
        return None
    changed = _everywhere(recorder, new, index, dim, len(shape))
    if changed is None or changed.spec != base.spec:
        return None
    flat = (shape[dim], *(1 for _ in shape[dim + 1 :]))
    chosen = recorder.emit(reshape, (mask,), {"shape": flat})
    return recorder.emit(where, (chosen, changed, base), {})


def _mask_of(index: Any) -> Value | None:
    """The mask whose true elements these are the positions of, counted through all its dimensions."""
    found = _found_by(index)
    if found is None:
        return None
    (mask,) = found.value_operands
    shape = mask.spec.shape
    if len(shape) == 1:
        return mask if _column(index) == 0 else None
    position = index
    for d in range(len(shape) - 1, 0, -1):
        if not _is_made_by(position, "add"):
            return None
        rest, last = position.operands
        if not _is_wrapped(last, found, d, shape[d]) or not _is_made_by(rest, "mul"):
            return None
        position, extent = rest.operands
        if isinstance(extent, Value) or extent != shape[d]:
            return None
    return mask if _is_wrapped(position, found, 0, shape[0]) else None


def _found_by(index: Any) -> Value | None:
    """The `nonzero` that some positions are computed from, through first operands."""
    while isinstance(index, Value) and index.op is not None and index.op is not nonzero:
        index = index.operands[0] if index.operands else None
    return index if isinstance(index, Value) and index.op is nonzero else None


def _is_wrapped(value: Any, found: Value, dim: int, size: int) -> bool:
    """Is this a column of found positions, checked against the extent that they were found in?"""
    if not _is_made_by(value, wrap_index.name):
        return False
    (column,) = value.value_operands
    return (
        value.attributes["size"] == size and _column(column) == dim and _found_by(column) is found
    )


def _is_made_by(value: Any, name: str) -> bool:
    return isinstance(value, Value) and value.op is not None and value.op.name == name


def _column(value: Value) -> int | None:
    """The number of the column of found positions that a value is."""
    if not _is_made_by(value, "squeeze"):
        return None
    (part,) = value.value_operands
    if not _is_made_by(part, "slice") or part.value_operands[0].op is not nonzero:
        return None
    start: int = part.attributes["starts"][1]
    return start


def _everywhere(recorder: Recorder, new: Value, index: Value, dim: int, ndim: int) -> Value | None:
    """What ``new`` is at the positions ``index``, at all positions; None where it is not computed one by one."""
    if new.op is take:
        source, places = new.value_operands
        here = places is index and new.attributes["dim"] == dim
        return source if here and source.spec.ndim == ndim else None
    if not isinstance(new.op, Elementwise) or new.spec.ndim != ndim:
        return None
    if new.op.name in _CAN_FAIL and not new.spec.dtype.is_floating_point:
        return None
    operands: list[Any] = []
    for x in new.operands:
        whole: Any = x
        if isinstance(x, Value) and has_extents(x.spec.shape):
            whole = _everywhere(recorder, x, index, dim, ndim)
        elif isinstance(x, Value) and x.spec.ndim >= ndim - dim and x.spec.shape[dim - ndim] != 1:
            return None  # as many as the mask has true elements, which is known by chance
        if whole is None:
            return None
        operands.append(whole)
    return recorder.emit(new.op, operands, dict(new.attributes), line=new.line)


def settle_lookups(recorder: Recorder, roots: list[Value], structure: Any) -> None:
    """Leave out sizes that nothing depends on, and guard what lookups refuse whose results nothing reads.

    ``roots`` are the values that a run returns, in a ``structure``, or leaves in tensors.
    """
    if not sizes_in(structure):
        _leave_out_sizes(recorder, roots)
    guard_unread(recorder, roots)


def _leave_out_sizes(recorder: Recorder, roots: list[Value]) -> None:
    """Leave out what tells sizes, and what is of such sizes, where none of it is read or decided by.

    Not ahead of a branch: the size may be read on the other side of it, and paths must agree on what they come upon.
    """
    scope = recorder.scope
    if scope is None or scope.decisions or recorder.sizes_read or recorder.calls:
        return
    path = list(recorder.path)
    places = [i for i, s in enumerate(path) if isinstance(s, Value) and is_found(s)]
    found = [path[i] for i in places]
    if not found or not all(isinstance(s, Value) for s in path[places[0] :]):
        return
    if not behind(roots).isdisjoint(found):
        return
    sized = set(found)
    for statement in path:
        if isinstance(statement, Value) and not sized.isdisjoint(statement.value_operands):
            sized.add(statement)
    rest = [s for s in path if isinstance(s, Value) and s not in sized]
    if any(has_extents((s.spec.shape, s.operands, s.attributes)) for s in rest):
        return
    for statement in sized:
        recorder.path.pop(statement, None)
        recorder.decided.pop(statement, None)
    scope.closed = True
    recorder.scope = recorder.builder.scope = None
