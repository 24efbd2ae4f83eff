"""Recognising rounds: values that repeat what was done to their own operands a round before.

A chain of cells (the steps of a loop that was written out, the levels of a tree) is one long elementwise chain where
nothing else stands between the cells. Fused as a whole it would be a kernel of its own for every length and every shape
of tree. Cut into rounds, it is launches of one kernel. That pays where a round reads enough of its own: a cut costs a
write and a read of what is handed on. Rounds that read less stay in one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.graph import Value
from ..fusion.groups import Group, root

#: A round has at least this many values of its own, and reads as many values from elsewhere.
ROUND_VALUES = 6
ROUND_READS = 3
#: Values are alike when they are computed alike, so many operations back.
DEPTH = 4

Kind = tuple[int, ...]  # how a value is computed: by its op, by one operation more, and so on


class Rounds:
    """What a group did last in the way of each kind."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.kinds: dict[Value, Kind] = {}
        self.seen: dict[Group, dict[int, tuple[Value, int, int]]] = {}

    def kind(self, value: Value) -> Kind:
        """How ``value`` is computed; its operands come first."""
        found = self.kinds.get(value)
        if found is None:
            name = value.op.name if value.op is not None else ""
            operands = [self.kind(x) for x in value.value_operands] if name else []
            parts = [self.numbers.setdefault((name,), len(self.numbers))]
            for depth in range(DEPTH):
                key = (name, depth, *(x[depth] for x in operands))
                parts.append(self.numbers.setdefault(key, len(self.numbers)))
            found = self.kinds[value] = tuple(parts)
        return found

    def enter(self, group: Group, value: Value) -> None:
        """``value`` was added to ``group``."""
        seen = self.seen.setdefault(group, {})
        seen[self.kind(value)[-1]] = value, len(group.values), len(group.externals)

    def begins_another(self, group: Group, value: Value) -> bool:
        """Would ``value`` begin in ``group`` what the group did already, on the result of that?"""
        last = self.seen.get(group, {}).get(self.kind(value)[-1])
        if last is None:
            return False
        earlier, values, reads = last
        if len(group.values) - values < ROUND_VALUES or len(group.externals) - reads < ROUND_READS:
            return False
        return _depends(value, earlier, group.level)


def _depends(value: Value, earlier: Value, inside: Mapping[Value, Any]) -> bool:
    """Is ``value`` computed from ``earlier`` by way of values of a group?"""
    waiting, seen = [value], {value}
    while waiting:
        for x in map(root, waiting.pop().value_operands):
            if x is earlier:
                return True
            if x in inside and x not in seen:
                seen.add(x)
                waiting.append(x)
    return False
