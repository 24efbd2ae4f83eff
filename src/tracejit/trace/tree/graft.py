"""Adding recorded runs to a trace tree: follow what is known, and attach what is new in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from ...ir.graph import Value
from ...sizes import Decided
from ...symbols import Decision
from ..numbers.numbers import ANY, ItemRead, Number, NumberGuard, outcome_key
from ..recording.inputs import Signature
from ..recording.recording import Recording
from .tree import FOUND, Divergence, Finding, Leaf, Raise, Segment, is_found, path_graph, same_end


def graft(root: Segment, recording: Recording, signature: Signature, structure: Any) -> Leaf:
    """Add a recorded path to the tree; raises :class:`Divergence` when it contradicts what is there."""
    place, rest = _follow(root, _with_choices(recording))
    if place.segment is not None:
        known = place.segment.leaf
        if known is None or not same_end(known, recording, structure):
            raise Divergence("a run took a known path to its end and did something else")
        return known
    known_end = place.parent.raises.get(place.outcome)
    if known_end is not None and not known_end.by_values:
        raise Divergence(f"something other than tensors decides about {known_end}")
    leaf = Leaf(recording, path_graph(recording, signature), structure)
    if place.outcome is not None:
        leaf.branched = place.parent, place.outcome
    pieces, ends = _pieces(rest, place.depth)
    pieces[-1].leaf = leaf
    _attach(place, _chain(pieces, ends))
    return leaf


def graft_error(root: Segment, path: Sequence[Any], end: Raise) -> bool:
    """Remember that ``path`` ends in an error, unless the tree knows how it goes on; has the tree grown?

    Raises :class:`Divergence` when the path contradicts the tree.
    """
    place, rest = _follow(root, path)
    if place.segment is not None:
        if not end.by_values:
            raise Divergence(f"something other than tensors decides about {end}")
        return False
    pieces, ends = _pieces(rest, place.depth)
    pieces = pieces[:-1]  # what comes after the last guard is not run
    if not pieces:
        known = place.parent.raises.setdefault(place.outcome, end)
        if known.doubts is not None:
            known.doubts.note(str(end))
        return False
    pieces[-1].raises[_outcome(ends[-1])] = end
    _attach(place, _chain(pieces, ends))
    return True


def prune(root: Segment, path: Leaf) -> None:
    """Forget the paths that were never compiled, but for the one that ends in ``path``."""
    kept = {s for s in root.segments() if s.runner is not None or s.leaf is path}
    for segment in reversed(root.segments()):  # those below first
        for outcome, child in list(segment.children.items()):
            if child in kept:
                kept.add(segment)
            else:
                del segment.children[outcome]
                if segment.choices is not None:
                    segment.choices.pop(outcome, None)


# --- paths and their ends -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Choice:
    """What a run decided about sizes in the piece that follows."""

    decisions: tuple[Decision, ...]
    values: Mapping[int, int]
    scope: Any

    @cached_property
    def key(self) -> Any:
        """The decisions, to be compared."""
        return frozenset((d.extent.terms, d.relation, d.outcome) for d in self.decisions)


def _with_choices(recording: Recording) -> list[Any]:
    """The path with what was decided about sizes in a piece before that piece."""
    found = recording.sizes
    if found is None:
        return list(recording.path)
    path: list[Any] = []
    piece: list[Any] = []
    for statement in (*recording.path, None):
        if isinstance(statement, Number) or (
            isinstance(statement, Value) and not is_found(statement)
        ):
            piece.append(statement)
            continue
        decisions = found.decided.get(statement, ())
        if decisions:
            path.append(_Choice(decisions, found.values, found.scope))
        path += [*piece, statement]
        piece = []
    return path[:-1]


def _is_end(statement: Any) -> bool:
    """Does a segment end here?"""
    if isinstance(statement, Number):
        return False
    return not isinstance(statement, Value) or is_found(statement)


def _outcome(end: Any) -> Any:
    """The key of the child to which a path goes on from an end."""
    if isinstance(end, _Choice):
        return end.key
    if isinstance(end, ItemRead):
        return ANY
    return FOUND if isinstance(end, Value) else outcome_key(end.expected)


def _check_end(known: Segment, end: Any) -> None:
    """Does a known segment end like a piece of a path?"""
    if isinstance(end, _Choice):
        if known.choices is None:
            raise Divergence("sizes were compared differently than in an earlier run")
        if end.key not in known.choices:
            if any(decided(end.values) for decided in known.choices.values()):
                raise Divergence("sizes were compared differently than in an earlier run")
            known.choices[end.key] = Decided(end.scope, end.decisions)
    elif isinstance(end, Value):
        if known.finding is None or known.finding.value is not end:
            raise Divergence("a different size was found than in an earlier run")
    elif known.guard is None or known.guard.value is not end.value:
        raise Divergence("a different condition was tested than in an earlier run")


# --- the tree -----------------------------------------------------------------------------------------------------


@dataclass
class _Place:
    """Where a path leaves the tree: below ``parent`` after ``outcome`` (None: at the root), or in ``segment``.

    ``end`` is what has that outcome.
    """

    parent: Segment
    outcome: Any
    segment: Segment | None
    depth: int = 0  # guards and found sizes above
    end: Any = None


def _follow(root: Segment, path: Sequence[Any]) -> tuple[_Place, list[Any]]:
    """Go down the tree as far as it knows a path; what is left of it, and statements that wait for numbers.

    Numbers that the path had before, and the tree has not, come with what is left: earlier runs had no use for them.
    """
    place = _Place(root, None, None if root.empty else root)
    first = 0
    waiting: list[Value] = []
    numbers: list[Number] = []
    known_numbers: set[int] = set()
    for i, statement in enumerate(path):
        if place.segment is None:
            break
        if not _is_end(statement):
            kind: list[Any] = waiting if isinstance(statement, Value) else numbers
            kind.append(statement)
            continue
        known, number_only = place.segment, isinstance(statement, NumberGuard)
        known_numbers.update(map(id, known.numbers))
        _check_end(known, statement)
        if not number_only and {*map(id, known.statements)} != {*map(id, waiting)}:
            raise Divergence("other operations ran than in an earlier run")
        outcome = _outcome(statement)
        depth = known.depth + (not isinstance(statement, _Choice))
        place = _Place(known, outcome, known.children.get(outcome), depth, statement)
        first, waiting = i + 1, waiting if number_only else []
    known_numbers.update(map(id, path[first:]))
    left = [*(x for x in numbers if id(x) not in known_numbers), *path[first:]]
    return place, [*waiting, *left] if place.segment is None else left


def _pieces(path: Sequence[Any], depth: int = 0) -> tuple[list[Segment], list[Any]]:
    """The segments of a piece of a path, not yet connected, and their ends; the last has neither an end nor a leaf."""
    pieces, ends = [Segment(depth=depth)], []
    for statement in path:
        last = pieces[-1]
        if not _is_end(statement):
            kind: list[Any] = last.numbers if isinstance(statement, Number) else last.statements
            kind.append(statement)
            continue
        ends.append(statement)
        pieces.append(Segment(depth=last.depth + (not isinstance(statement, _Choice))))
        if isinstance(statement, _Choice):
            last.choices = {statement.key: Decided(statement.scope, statement.decisions)}
        elif isinstance(statement, Value):
            last.finding = Finding.of(statement)
        else:
            last.guard = statement
        if isinstance(statement, NumberGuard):  # statements can wait until it is known
            last.statements, pieces[-1].statements = [], last.statements
    return pieces, ends


def _chain(pieces: Sequence[Segment], ends: Sequence[Any]) -> Segment:
    """The first of the segments, each the child of the one before."""
    for (above, below), end in zip(pairwise(pieces), ends, strict=False):
        above.children[_outcome(end)] = below
    return pieces[0]


def _attach(place: _Place, made: Segment) -> None:
    """Put new segments into the tree, in one step: an interrupt leaves the tree with them or without them."""
    parent = place.parent
    if isinstance(place.end, ItemRead):  # what was recorded for single numbers is given up
        parent.guard, parent.children, parent.raises = place.end, {ANY: made}, {}
    elif place.outcome is not None:
        parent.children[place.outcome] = made
        parent.raises.pop(place.outcome, None)
    else:  # the root itself, which counts as known once it has a guard or a leaf
        parent.statements, parent.children, parent.raises = (
            made.statements,
            made.children,
            made.raises,
        )
        parent.numbers, parent.choices = made.numbers, made.choices
        parent.leaf, parent.guard, parent.finding = made.leaf, made.guard, made.finding
