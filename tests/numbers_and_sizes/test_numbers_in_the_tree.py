"""Where numbers stand in a trace tree that several runs have grown."""

from __future__ import annotations

from tracejit.trace.numbers.numbers import NumberGuard, NumberTable, outcome_key
from tracejit.trace.tree.graft import graft_error
from tracejit.trace.tree.tree import Raise, Segment


def test_numbers_that_only_a_later_run_has_stand_where_it_leaves_the_tree() -> None:
    table = NumberTable()
    size = table.source("argument", 0, int, "size")
    rest = table.operation("sub", (4, size), int)
    half = table.operation("floordiv", (rest, 2), int)
    end = Raise.of(ValueError("no"), True)
    root = Segment()
    assert graft_error(root, [size, NumberGuard(size, 1, None), NumberGuard(half, 0, None)], end)
    path = [size, rest, NumberGuard(size, 2, None), half, NumberGuard(half, 1, None)]
    assert graft_error(root, path, end)
    assert root.numbers == [size]
    assert root.children[outcome_key(2)].numbers == [rest, half]
    # What the tree has by then, or what comes behind, is not there twice.
    path = [size, rest, NumberGuard(size, 2, None), half, NumberGuard(half, 2, None), rest]
    again = [*path[:-1], table.operation("neg", (rest,), int), NumberGuard(rest, 3, None)]
    assert graft_error(root, again, end)
    below = root.children[outcome_key(2)].children[outcome_key(2)]
    assert [str(number) for number in below.numbers] == ["neg"]
