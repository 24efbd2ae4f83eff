"""Lookups whose results nothing reads: eager execution refuses positions out of range all the same.

A program leaves out what nothing depends on, and with a lookup the check of its positions. So a path in which that
would happen has a guard on these positions: where it does not hold, the call runs eagerly and raises the error
where it belongs. The same goes for divisors of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...dtypes import int64
from ...extents import Extent
from ...ir.graph import Guard, Value
from ...ir.loops import loop, part
from ...ops import comparison, elementwise
from ...ops.kinds import Movement, Source
from ...ops.reduction import all_true
from ...ops.reduction import sum as total
from ...ops.source import full
from ..numbers.numbers import ItemRead, outcome_key
from ..sizes.found_sizes import user_line
from ..tree.tree import is_found

if TYPE_CHECKING:
    from .recorder import Recorder

#: Lookups by element, which take no negative positions, and those of whole slices, which do unless they say otherwise.
_BY_ELEMENT = frozenset({"gather", "scatter", "scatter_add", "scatter_combine"})
_BY_SLICE = frozenset({"take", "put"})
_DIVISIONS = frozenset({"floor_divide", "remainder", "fmod"})
_REFUSING = _BY_ELEMENT | _BY_SLICE | _DIVISIONS
#: Ops whose results are positions in what they are given.
_ORDERS = frozenset({"argmax", "argmin", "argsort", "cumextreme_index", "first_positions"})
_FOUND = frozenset({"nonzero", "as_sizes", "repeated_positions"})
_ALIKE = frozenset({"cast", "clone", "detach_copy", "wrap_index"})

#: So many that nothing reads are looked at; beyond them the function runs eagerly.
MOST = 64

#: What a statement asks of one of its operands: that, the extent it is to be a position in (as numbers that can be
#: compared; None: it may only not be zero), and whether positions may be negative.
Asked = tuple[Value, Any, bool]


def guard_unread(recorder: Recorder, roots: Iterable[Value]) -> None:
    """Guard what statements refuse that neither ``roots`` nor other guards depend on."""
    statements = [s for s in recorder.path if isinstance(s, Value)]
    if not any(s.op is loop or (s.op is not None and s.op.name in _REFUSING) for s in statements):
        return
    read = [s.value for s in recorder.path if isinstance(s, (Guard, ItemRead))]
    live = behind([*roots, *read])
    asked = asked_for_nothing(statements, live)
    if any(map(partial(_unread_in, live=live), statements)):
        recorder.unsupported("lookups in a loop whose results nothing reads")
        return
    if not asked:
        return
    if len(asked) > MOST:
        recorder.unsupported("lookups whose results nothing reads")
        return
    before = list(recorder.path)
    holds = [
        _holds(value, _told(size, recorder), negative, recorder.emit)
        for value, size, negative in asked
    ]
    whole = holds[0]
    for one in holds[1:]:
        whole = recorder.emit(comparison.logical_and, (whole, one), {})
    recorder.guards.setdefault((whole, outcome_key(True)))
    recorder.end_piece(Guard(whole, True, user_line()))
    if recorder.scope is None:
        _bring_forward(recorder.path, len(before))


def _bring_forward(path: dict[Any, None], count: int) -> None:
    """Move what stands behind the first ``count`` statements ahead, with what it needs: the rest stays one program.

    Other paths part from this one at guards that it has already, so it stays behind them.
    """
    statements = list(path)
    before, added = statements[:count], statements[count:]
    ends = [i for i, s in enumerate(before) if not isinstance(s, Value) or is_found(s)]
    place = ends[-1] + 1 if ends else 0
    needed = behind(s for s in added if isinstance(s, Value))
    first = [s for s in before[place:] if s in needed]
    rest = [s for s in before[place:] if s not in needed]
    path.clear()
    path.update(dict.fromkeys([*before[:place], *first, *added, *rest]))


def asked_by(value: Value) -> Asked | None:
    """What the statement of ``value`` refuses, if that hangs on elements."""
    op, operands = value.op, value.operands
    if op is None:
        return None
    if op.name in _BY_SLICE or op.name in _BY_ELEMENT:
        x, index = operands[:2]
        if not isinstance(x, Value) or not isinstance(index, Value):
            return None
        size = x.spec.shape[value.attributes["dim"]] if x.spec.shape else 1
        negative = op.name in _BY_SLICE and value.attributes.get("negative", True)
        return index, _plain(size), bool(negative)
    if op.name in _DIVISIONS and isinstance(operands[1], Value):
        return None if value.spec.dtype.is_floating_point else (operands[1], None, False)
    return None


def _plain(size: Any) -> Any:
    """An extent that can be compared without deciding anything: the terms of one that only the run tells."""
    return size.terms if type(size) is Extent else size


def asked_for_nothing(statements: Sequence[Value], live: set[Value]) -> list[Asked]:
    """What those statements refuse that are not ``live``, unless live ones refuse the same."""
    known = {asked_by(s) for s in statements if s in live}
    found: dict[Asked, None] = {}
    for statement in statements:
        asked = None if statement in live else asked_by(statement)
        if asked is not None and asked not in known and not _always(asked):
            found[asked] = None
    return list(found)


def _unread_in(statement: Value, live: set[Value]) -> bool:
    """Is the statement a loop in whose rounds something is looked up for nothing?"""
    if statement.op is not loop:
        return False
    body, carried = statement.attributes["body"].graph, statement.attributes["carried"]
    parts = (v for v in live if v.op is part and v.operands[0] is statement)
    wanted = {v.attributes["index"] for v in parts}
    if statement.attributes.get("until") is not None:
        wanted.add(carried - 1)
    inner, more = set[Value](), wanted
    while more:
        wanted |= more
        inner = behind(body.outputs[i] for i in wanted)
        more = {i for i in range(carried) if body.inputs[i] in inner} - wanted
    statements = [s for s in body.body if isinstance(s, Value)]
    return bool(asked_for_nothing(statements, inner)) or any(
        _unread_in(s, inner) for s in statements
    )


def behind(values: Iterable[Value]) -> set[Value]:
    """These values and all that they are computed from."""
    found: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            stack += value.value_operands
    return found


def _always(asked: Asked) -> bool:
    """Does it hold whatever the inputs are: for constants, and for positions that were found in such a tensor?"""
    value, size, _ = asked
    if _is_constant(value):
        return True
    if size is None:
        return False
    while value.op is not None and (isinstance(value.op, Movement) or value.op.name in _ALIKE):
        if len(value.value_operands) != 1:  # joined with others, which nobody knows
            return False
        (value,) = value.value_operands
    if value.op is None or value.op.name in _FOUND:
        return value.op is not None
    if value.op.name not in _ORDERS:
        return False
    source, attributes = value.value_operands[0], value.attributes
    dims: Sequence[int] = attributes.get("dims") or (attributes.get("dim", 0),)
    extents = [source.spec.shape[d] for d in dims] if source.spec.shape else [1]
    return all(_plain(extent) == size for extent in extents)


def _is_constant(value: Value) -> bool:
    if value.op is None:
        return False
    if not value.value_operands:
        return isinstance(value.op, Source)
    return all(map(_is_constant, value.value_operands))


def _told(size: Any, recorder: Recorder) -> Any:
    """The extent of which these are the terms as a tensor of one number; what else there is as it is."""
    if type(size) is not tuple:
        return size
    assert recorder.scope is not None
    count = {"shape": (recorder.scope.extent(size),), "value": 1, "dtype": int64}
    ones = recorder.emit(full, (), count)
    return recorder.emit(total, (ones,), {"dims": (0,), "keepdim": False})


def _holds(
    value: Value, size: int | Value | None, negative: bool, emit: Callable[..., Value]
) -> Value:
    if size is None:
        good = emit(elementwise.ne, (value, 0), {})
    else:
        below = emit(elementwise.neg, (size,), {}) if isinstance(size, Value) else -size
        low = emit(comparison.ge, (value, below if negative else 0), {})
        high = emit(comparison.lt, (value, size), {})
        good = emit(comparison.logical_and, (low, high), {})
    dims = tuple(range(len(good.spec.shape)))
    return emit(all_true, (good,), {"dims": dims, "keepdim": False})
