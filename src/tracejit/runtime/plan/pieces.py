"""What copying movement ops write where: the pieces of a result, and the view of it that each piece fills.

``cat`` has a piece per operand, ``pad`` its operand in the middle and constants around it, a scatter the new values and
what is left of the old ones. Pieces of one result never overlap, except where it says so: a *late* piece is written
over those before it, and all others over the *ground*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ...codegen.cpu.scatter import scatters
from ...codegen.nest import Layout
from ...extents import hint
from ...ir.graph import Value
from ...ops import movement
from ...ops.complex_views import complex_join, imag_view, real_view
from ...ops.conversions import convert_scalar
from ...ops.source import full
from ...ops.table import Movement
from ...passes.fusion.groups import root
from ...passes.simplify.fold import as_number
from ...types import Scalar, Shape, TensorType
from .views import strided_view

#: A scatter that would leave more pieces of the old values than this copies all of them first.
MOST_PIECES = 4
#: Rows of up to so many bytes are filled whole before something is written into them: their ends, a few elements each,
#: take as long as two or three vectors.
SHORT_ROW = 256


@dataclass(frozen=True)
class Place:
    """A part of a value: a view of it (all of it without an op)."""

    op: Movement | None = None
    attributes: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={x}" for name, x in self.attributes)
        return "all" if self.op is None else f"{self.op.name}({values})"

    def kind(self, whole: TensorType) -> TensorType:
        """The type of the part."""
        return whole if self.op is None else self.op.infer([whole], dict(self.attributes))

    def layout(self, whole: Layout, kind: TensorType) -> Layout:
        """How the part lies when a value of type ``kind`` lies like ``whole``."""
        if self.op is None:
            return whole
        shape = self.kind(kind).shape
        found = strided_view(self.op, dict(self.attributes), whole, kind.shape, shape)
        assert found is not None
        return found

    def of_array(self, array: Any) -> Any:
        """The part of an array."""
        return array if self.op is None else self.op.body(array, **dict(self.attributes))


@dataclass(frozen=True)
class Piece:
    """Something to write: a part of an operand, or (where ``operand`` is None) a number everywhere."""

    place: Place
    operand: int | None = None
    part: Place = Place()
    number: Scalar = 0
    late: bool = False
    ground: bool = False


def sliced(starts: Shape, counts: Shape) -> Place:
    """The part that begins at ``starts``."""
    steps = (1,) * len(starts)
    return Place(movement.slice, (("starts", starts), ("counts", counts), ("steps", steps)))


def is_move(value: Value) -> bool:
    """Does an op move elements into memory of its own?"""
    return value.op in _PIECES and (value.op is complex_join or not value.spec.dtype.is_complex)


def pieces_of(value: Value) -> list[Piece]:
    """The pieces of the result of a movement op that copies."""
    if scatters(value):
        return _old_values(value)
    return [] if value.spec.numel == 0 else _PIECES[value.op](value)


def on_ground(value: Value) -> list[Piece] | None:
    """The ground of what is padded and what is written over it; None where pieces around that are better."""
    if value.op is not movement.pad or value.value_operands[0].spec.numel == 0:
        return None
    shape = tuple(map(hint, value.spec.shape))
    padded = [d for d, ends in enumerate(value.attributes["widths"]) if tuple(ends) != (0, 0)]
    if not padded or prod(shape[padded[-1] :]) * value.spec.dtype.itemsize > SHORT_ROW:
        return None
    around, inside = Piece(Place(), number=_number_around(value), ground=True), _inside(value)
    return [around, inside]


def over_base(value: Value) -> list[Piece] | None:
    """The pieces of a scatter that is written over what it changes; None for other ops."""
    is_scatter = scatters(value)
    if not is_scatter and value.op not in (movement.slice_scatter, movement.diagonal_scatter):
        return None
    if value.spec.numel == 0 or uniform(value.value_operands[0]) is not None:
        return None
    if is_scatter:
        return _old_values(value)
    return [Piece(Place(), 0), *_new_values(value, late=True)]


def uniform(value: Value) -> Scalar | None:
    """The number that every element of a constant is, None for other values."""
    source = root(value)
    if source.op is not full:
        return None
    number: Scalar = source.attributes["value"]
    return number


def _cat(value: Value) -> list[Piece]:
    dim, start, found = value.attributes["dim"], 0, []
    for position, x in enumerate(value.value_operands):
        if x.spec.numel != 0:
            starts = tuple(start if d == dim else 0 for d in range(x.spec.ndim))
            found.append(Piece(sliced(starts, x.spec.shape), position))
        start = start + x.spec.shape[dim]
    return found


def _pad(value: Value) -> list[Piece]:
    x, inside, number = value.value_operands[0], _inside(value), _number_around(value)
    starts = dict(inside.place.attributes)["starts"]
    around = _around(starts, x.spec.shape, value.spec.shape)
    found = [Piece(sliced(*box), number=number) for box in around]
    return [*found, inside] if x.spec.numel != 0 else found


def _inside(value: Value) -> Piece:
    """What is padded."""
    starts = tuple(before for before, _ in value.attributes["widths"])
    return Piece(sliced(starts, value.value_operands[0].spec.shape), 0)


def _number_around(value: Value) -> Scalar:
    return as_number(convert_scalar(value.attributes["value"], value.spec.dtype))


def _slice_scatter(value: Value) -> list[Piece]:
    """The rest of the old values around the new ones; all of them first, where the new ones lie in many pieces."""
    starts, counts, steps = (value.attributes[name] for name in ("starts", "counts", "steps"))
    new = _new_values(value, late=False)
    if not new:
        return _old_values(value)
    boxes = list(_around(starts, counts, value.spec.shape))
    if any(step != 1 for step in steps) or len(boxes) > MOST_PIECES:
        return [*_old_values(value), *_new_values(value, late=True)]
    number = uniform(value.value_operands[0])
    if number is not None:
        return [*(Piece(sliced(*box), number=number) for box in boxes), *new]
    return [*(Piece(sliced(*box), 0, sliced(*box)) for box in boxes), *new]


def _diagonal_scatter(value: Value) -> list[Piece]:
    return [*_old_values(value), *_new_values(value, late=True)]


def _old_values(value: Value) -> list[Piece]:
    number = uniform(value.value_operands[0])
    return [Piece(Place(), 0) if number is None else Piece(Place(), number=number)]


def _new_values(value: Value, late: bool) -> list[Piece]:
    if value.value_operands[1].spec.numel == 0:
        return []
    view = movement.slice if value.op is movement.slice_scatter else movement.diagonal
    return [Piece(Place(view, tuple(value.attributes.items())), 1, late=late)]


def _around(starts: Shape, counts: Shape, shape: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Boxes (starts, counts) that fill ``shape`` around one of them, the outer dimensions first.

    >>> list(_around((1, 2), (3, 2), (4, 6)))
    [((0, 0), (1, 6)), ((1, 0), (3, 2)), ((1, 4), (3, 2))]
    """
    for d, extent in enumerate(shape):
        end = starts[d] + counts[d]
        for first, count in ((0, starts[d]), (end, extent - end)):
            if count != 0:
                rest = (0,) * (len(shape) - d - 1)
                yield (*starts[:d], first, *rest), (*counts[:d], count, *shape[d + 1 :])


def _parts(value: Value) -> list[Piece]:
    return [Piece(Place(real_view), 0), Piece(Place(imag_view), 1)]


_PIECES: dict[Any, Callable[[Value], list[Piece]]] = {
    movement.cat: _cat,
    movement.pad: _pad,
    movement.slice_scatter: _slice_scatter,
    movement.diagonal_scatter: _diagonal_scatter,
    complex_join: _parts,
}
