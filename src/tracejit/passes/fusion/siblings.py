"""Merging independent groups that read the same values: several gradients of one chain become one kernel.

Copies of one cell (the leaves of a tree, the steps of a loop) read common values too: parameters, parts of one input.
They stay apart, so that all of them are launches of one small kernel, however many there are. A value is *common* when
it is read by groups of equal structure that read other things besides. Components of short rows, such as the corners
of boxes, lie side by side in memory: groups that read some each are one kernel, which reads whole vectors.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...dtypes import DType
from ...extents import hint
from ...ir.graph import Value
from ...ops.movement import slice as slice_op
from ...ops.movement import squeeze
from .groups import LONGEST_ROW, Group, root

Merge = Callable[[int, int], bool]


def merge_siblings(groups: Mapping[int, Group], merge: Merge) -> None:
    """Merge groups over equal domains that share what they read; ``merge`` tries it and tells whether it did."""
    by_domain: dict[tuple[int, ...], list[int]] = {}
    for step, group in groups.items():
        by_domain.setdefault(tuple(group.domain), []).append(step)
    for steps in by_domain.values():
        if len(steps) > 1:
            _merge_over_one_domain({s: groups[s] for s in steps}, merge)


def _merge_over_one_domain(groups: Mapping[int, Group], merge: Merge) -> None:
    readers = _readers(groups)
    gone: set[int] = set()
    for first, group in groups.items():
        if first in gone:
            continue
        reads = {*map(root, group.externals), *group.values}
        waiting = _following(readers, reads, first)
        heapq.heapify(waiting)
        last = first
        while waiting:
            second = heapq.heappop(waiting)
            if second == last or second in gone:
                continue
            last = second
            if merge(first, second):
                gone.add(second)
                more = {*map(root, group.externals), *group.values} - reads
                reads |= more
                for step in _following(readers, more, second):
                    heapq.heappush(waiting, step)


def _readers(groups: Mapping[int, Group]) -> dict[Value, list[int]]:
    """The groups that read each value, common ones left out."""
    found: dict[Value, list[int]] = {}
    for step, group in groups.items():
        for value in dict.fromkeys(map(root, group.externals)):
            found.setdefault(value, []).append(step)
    keys: dict[int, Any] = {}
    return {
        value: steps
        for value, steps in found.items()
        if len(steps) > 1 and not _is_common([groups[s] for s in steps], keys)
    }


def _is_common(groups: Iterable[Group], keys: dict[int, Any]) -> bool:
    """Are two of these groups copies of one cell?"""
    seen: dict[Any, Group] = {}
    for group in groups:
        key = keys.get(id(group))
        if key is None:
            key = keys[id(group)] = structure(group)
        other = seen.setdefault(key, group)
        apart = set(other.externals) ^ set(group.externals)
        if apart and not all(map(_is_component, apart)):
            return True
    return False


def _is_component(value: Value) -> bool:
    """Is this one number of each short row of a tensor: ``x[..., 2]``?"""
    sliced = value.value_operands[0] if value.op is squeeze else value
    if sliced.op is not slice_op:
        return False
    whole, part = sliced.value_operands[0].spec.shape, sliced.spec.shape
    return whole[:-1] == part[:-1] and hint(part[-1]) == 1 and hint(whole[-1]) <= LONGEST_ROW


def _following(readers: Mapping[Value, list[int]], values: Iterable[Value], step: int) -> list[int]:
    """The steps after ``step`` that read one of ``values``."""
    return [s for value in values for s in readers.get(value, ()) if s > step]


def structure(group: Group) -> tuple[Any, ...]:
    """What a kernel of this group looks like, whatever it reads and however long its axes are."""
    numbers: dict[Value, int] = {}
    parts: list[Any] = [len(group.domain), tuple(sorted(group.reduced or ()))]
    for value in group.values:
        assert value.op is not None
        operands = tuple([_operand(group, x, numbers) for x in value.operands])
        attributes = tuple([_attribute(x) for x in value.attributes.values()])
        dims, level = group.dims[value], group.level[value]
        parts.append((value.op.name, value.spec.dtype.short, dims, level, operands, attributes))
        numbers[value] = len(numbers)
    return tuple(parts)


def _operand(group: Group, x: Any, numbers: dict[Value, int]) -> Any:
    if not isinstance(x, Value):
        return type(x).__name__
    if x in group.externals:
        return numbers.setdefault(x, len(numbers)), x.spec.dtype.short, group.externals[x]
    return numbers.get(root(x), -1), x.op.name if x not in group.dims and x.op else ""


def _attribute(x: Any) -> Any:
    """Names, flags and dimensions belong to the structure; sizes are arguments of a kernel."""
    if isinstance(x, (str, bool)):
        return x
    return x.short if isinstance(x, DType) else None
