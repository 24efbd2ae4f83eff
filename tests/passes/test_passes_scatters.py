"""Values that are changed part by part: what slices of them become, and how much is written for it."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from rolling_tools import record
from tracejit.ir import interpreter, verify
from tracejit.ops.source import full
from tracejit.passes.simplify.dead_code import dead_code
from tracejit.passes.simplify.simplify import simplify


def simplified(program, *shapes):
    """The simplified graph of a program, which computes the same bits."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("f4") for shape in shapes]
    graph = record(program, *map(tj.tensor, arrays))
    found = dead_code(verify(simplify(dead_code(graph))))  # as the pieces of programs are
    for a, b in zip(interpreter.run(found, arrays), interpreter.run(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def names(graph):
    return [v.op.name for v in graph.values]


def growing(n):
    def program(x):
        y = tj.zeros(n)
        for i in range(n):
            y[i] = x[i] + y[:i].sum()
        return y

    return program


def alternating(n):
    def program(x):
        y = tj.zeros(n, 2)
        for i in range(1, n):
            y[i] = y[i - 1] * 2 + x[i]
        return y * 1.5

    return program


@pytest.mark.parametrize("make", [growing, alternating])
def test_what_is_written_grows_with_the_writes(make):
    shape = (lambda n: (n,)) if make is growing else (lambda n: (n, 2))
    few, many = (len(simplified(make(n), shape(n)).body) for n in (20, 40))
    assert many <= 2 * few + 5


def test_what_rounds_read_of_the_one_before_is_what_that_wrote():
    found = simplified(alternating(8), (8, 2))
    assert "slice_scatter" not in names(found)
    assert names(found).count("cat") == 1
    shown = [v for v in found.values if v.op.name == "slice"]
    assert {v.value_operands[0].op for v in shown} <= {
        None,
        full,
    }  # the input, and what was there first


def test_slices_far_behind_are_read_from_what_was_written_part_by_part():
    def program(x):
        y = x * 2
        for i in range(1, 30):
            y[i] = x[i - 1].exp()
        return y[0] + y[29], y[1:2] * 1

    found = simplified(program, (30, 3))
    assert names(found).count("slice_scatter") == 29  # y itself is read


def test_joins_leave_out_what_is_written_over():
    def program(a, b):
        y = tj.zeros(4, 3)
        y[:2] = a
        y[2:] = b
        y[:2] = a + 1
        return y

    found = simplified(program, (2, 3), (2, 3))
    assert sorted({*names(found)} - {"clone"}) == ["add", "cat"]
    assert len(found.outputs[0].operands) == 2


def test_what_is_shown_in_between_stays():
    def program(a, b):
        y = tj.zeros(4, 3)
        y[:2] = a
        between = y * 2
        y[2:] = b
        return between, y

    found = simplified(program, (2, 3), (2, 3))
    assert "mul" in names(found)


def test_overlapping_writes_are_no_join():
    def program(a, b):
        y = tj.zeros(4, 3)
        y[:3] = a
        y[1:] = b
        y[2] = 7.0
        return y

    simplified(program, (3, 3), (3, 3))  # computes the same
