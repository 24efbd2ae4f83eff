"""A straight list of statements, made ready for finding repetitions in it.

Every statement gets a *local key*: what it is, apart from what it reads. Statements whose key occurs often are
*members* and are numbered in order; the others are *rare* (what rounds share, such as a transposed weight, is recorded
once and is rare). Everything a member reads is a *code*: the number of a member, or a negative one for all else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.builder import attribute_keys
from ...ir.graph import Value
from ...ops import movement
from ...ops.source import full
from ...ops.table import Elementwise, operand_info
from ...passes.fusion.groups import is_view

if TYPE_CHECKING:
    from .evidence import Least
    from .loop import Loop

Codes = Any  # an array of codes


class Numbering(dict[Value, int]):
    """Codes of values: members are entered, whatever else is asked for gets the next negative number."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[Value] = []

    def __missing__(self, value: Value) -> int:
        self.outside.append(value)
        code = self[value] = -len(self.outside)
        return code


class Record:
    """The statements with their members, what these read, and the loops found so far."""

    def __init__(
        self,
        inputs: Sequence[Value],
        statements: Sequence[Value],
        kept: Sequence[Value],
        least: Least,
    ) -> None:
        #: What a loop has at least.
        self.least = least
        self.statements = statements
        self.kept = kept
        live = _liveness(statements, kept)
        keys, twins = _promoted(statements, *local_keys(statements), live, least.rounds)
        often = _often(keys, live, least.rounds)[keys]
        often &= ~_shared_views(inputs, statements, keys, least.rounds)
        #: Where the members stand among the statements.
        self.places = np.flatnonzero(often)
        self.rare = np.flatnonzero(~often)
        self.keys = keys[self.places]
        #: Is it used by anything kept?
        self.live = live[self.places]
        self.members = [statements[i] for i in self.places.tolist()]
        self.owner: list[Loop | None] = [None] * len(self.members)
        #: Members that begin with a number what others go on with, rewritten to begin with a tensor.
        self.twins = {int(np.searchsorted(self.places, i)): twin for i, twin in twins.items()}
        self.constants = {
            x
            for i, v in twins.items()
            for x in {*v.value_operands} - {*statements[i].value_operands}
        }
        self._number(inputs)

    def _number(self, inputs: Sequence[Value]) -> None:
        self.codes = codes = Numbering()
        for value in inputs:
            codes[value]
        codes.update(zip(self.members, range(len(self.members)), strict=True))
        members = list(self.members)
        for number, twin in self.twins.items():
            members[number] = twin
        counts = [len(v.value_operands) for v in members]
        self.offsets = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        #: The codes of what members read, one member after the other.
        self.reads = np.array([codes[x] for v in members for x in v.value_operands], np.int64)
        rare = [self.statements[i] for i in self.rare.tolist()]
        operands = [[codes[x] for x in v.value_operands] for v in rare]
        mine = [codes[v] for v in rare]
        latest = [-1] * len(codes.outside)
        for code, needs in zip(mine, operands, strict=True):
            latest[-code - 1] = max((n if n >= 0 else latest[-n - 1] for n in needs), default=-1)
        #: For each negative code the last member its value is computed from.
        self.latest = np.array(latest, np.int64)

    def value(self, code: int) -> Value:
        """The value of a code."""
        return self.members[code] if code >= 0 else self.codes.outside[-code - 1]

    def available(self, codes: Codes) -> Codes:
        """The last member each value is computed from (members: themselves)."""
        if not len(self.latest):
            return codes
        return np.where(codes >= 0, codes, self.latest[-np.minimum(codes, -1) - 1])

    def reads_of(self, first: int, last: int) -> Codes:
        """What the members ``first .. last`` read."""
        return self.reads[self.offsets[first] : self.offsets[last]]

    def place(self, value: Value) -> tuple[Loop, int, int] | None:
        """The loop a value was rolled into, its position in the body, and its round."""
        code = self.codes.get(value, -1)
        loop = self.owner[code] if code >= 0 else None
        if loop is None:
            return None
        number, position = divmod(code - loop.start, loop.period)
        return loop, position, number


def _liveness(statements: Sequence[Value], kept: Sequence[Value]) -> Any:
    """For every statement: does something kept depend on it?"""
    live = set(kept)
    found = []
    for value in reversed(statements):
        used = value in live
        found.append(used)
        if used:
            live.update(value.value_operands)
    found.reverse()
    return np.array(found, bool)


def _often(keys: Any, live: Any, rounds: int) -> Any:
    """Which keys occur often enough to be those of rounds?"""
    count = int(keys.max()) + 1 if len(keys) else 0
    return np.bincount(keys[live], minlength=count) >= rounds


def _shared_views(
    inputs: Sequence[Value], statements: Sequence[Value], keys: Any, rounds: int
) -> Any:
    """Which statements show an input in a way that no more than a few do: what rounds share, recorded in the first one.

    Else the transposed weights of several layers would look like something of each round.
    """
    found = np.zeros(len(statements), bool)
    views = [(place, v) for place, v in enumerate(statements) if is_view(v)]
    outside = {*inputs}
    while outside:
        shown = [
            (place, (int(keys[place]), v.operands[0]))
            for place, v in views
            if v.operands[0] in outside
        ]
        counts = Counter(group for _, group in shown)
        shared = [place for place, group in shown if counts[group] < rounds]
        found[shared] = True
        outside = {statements[place] for place in shared}
    return found


def _promoted(
    statements: Sequence[Value], keys: Any, known: dict[Any, int], live: Any, rounds: int
) -> tuple[Any, dict[int, Value]]:
    """Rare statements with a number where many others have a tensor: their keys become those of the others.

    ``loss = 0`` before ``loss = loss + term`` makes the first round another one than those that follow. Returns the
    keys, and by place the statement on a constant tensor instead of the number.
    """
    often = _often(keys, live, rounds)
    twins: dict[int, Value] = {}
    for place in np.flatnonzero(~often[keys]).tolist():
        value = statements[place]
        if len(value.value_operands) == len(value.operands):
            continue
        key = known.get(_key(value, len(value.operands)), -1)
        twin = _on_tensors(value) if key >= 0 and often[key] else None
        if twin is not None:
            keys[place], twins[place] = key, twin
    return keys, twins


def is_operator(op: Elementwise) -> bool:
    """Is the op an operator of the kernel language, which does the same to a number as to an element?"""
    return op.scalar is not None and "(" not in op.scalar


def _on_tensors(value: Value) -> Value | None:
    """The same statement on tensors only, where that makes no difference to the bits."""
    op, kind = value.op, value.spec
    if not isinstance(op, Elementwise) or not is_operator(op):
        return None
    operands = [
        x
        if isinstance(x, Value)
        else Value(
            kind,
            full,
            (),
            {"shape": kind.shape, "value": x, "dtype": kind.dtype},
            line=value.line,
        )
        for x in value.operands
    ]
    mine, other = (
        op.types(tuple([operand_info(x.spec if isinstance(x, Value) else x) for x in xs]), a)
        for xs, a in ((value.operands, value.attributes), (operands, value.attributes))
    )
    same = mine == other and all(d is kind.dtype for d in mine[0])
    return Value(kind, op, tuple(operands), value.attributes, line=value.line) if same else None


def _key(value: Value, operands: Any) -> Any:
    """What makes statements alike."""
    attributes = value.attributes
    rest: Any = None
    if value.op is movement.slice or value.op is movement.slice_scatter:
        rest = (attributes["counts"], attributes["steps"])
    elif attributes:
        rest = attribute_keys(value)  # tells 1 from 1.0 and 0.0 from -0.0
    kind = value.spec
    return value.op, value.line, kind.shape, id(kind.dtype), operands, rest


def local_keys(statements: Sequence[Value]) -> tuple[Any, dict[Any, int]]:
    """Equal numbers for statements that are alike but for what they read, and where slices start.

    Returns also the number of each key.
    """
    known: dict[Any, int] = {}
    again: dict[Value, int] = {}  # of statements that came again
    found = []
    for value in statements:
        first = value if value.like is None else value.like
        number = again.get(first)
        if number is None:
            operands = value.operands
            count: Any = len(operands)
            if len(value.value_operands) != count:
                count = tuple([None if isinstance(x, Value) else repr(x) for x in operands])
            number = again[first] = known.setdefault(_key(value, count), len(known))
        found.append(number)
    return np.array(found, np.int64), known
