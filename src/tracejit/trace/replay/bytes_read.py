"""Results of which a call reads one byte: those that decide a branch and nothing else."""

from __future__ import annotations

from ...ir.graph import Value
from ..tree.segments import Runner
from ..tree.tree import Leaf, needs_of_leaf


def guarded_block(runner: Runner) -> int | None:
    """The number of the result that decides a branch by one byte: its block is looked at, no tensor is made for it."""
    kinds = runner.results.kinds
    number = runner.guard_position - (len(runner.positions) - len(kinds))
    if runner.guard_position < 0 or number < 0:
        return None
    kind, layout, how = kinds[number]
    here = how == "block" and layout.device < 0
    return number if kind.dtype.name == "bool" and here else None


def byte_read(runner: Runner) -> int:
    """The number of a result of which only the byte that decides a branch is read, -1 where there is none."""
    block = guarded_block(runner)
    if block is None:
        return -1
    first = len(runner.positions) - len(runner.results.kinds)
    value = next(v for v, position in runner.positions.items() if position == first + block)
    leaf = runner.segment.leaf
    shared = read_later(runner, value) if leaf is None else value in read_besides(leaf)
    return -1 if shared else block


def read_besides(leaf: Leaf) -> set[Value]:
    """What the end of a path reads, but for the guards that were joined to be one."""
    kept = [*leaf.backward.saved, *leaf.backward.checked_outputs] if leaf.backward else []
    return {*leaf.graph.outputs, *kept}


def read_later(runner: Runner, value: Value) -> bool:
    """Does a segment below ``runner``, or the end of a path there, read this value?"""
    position = runner.positions[value]
    below = list(runner.children.values())
    for child in below:
        leaf = child.segment.leaf
        if position in child.reads or (leaf is not None and value in set(needs_of_leaf(leaf))):
            return True
        below.extend(child.children.values())
    return False
