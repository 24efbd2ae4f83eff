"""Elements that have lines of memory for themselves take longer: fewer of them are worth a second thread."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import parse
from tracejit.runtime.launcher import Step
from tracejit.runtime.plan.plan import make_plan

SIDES = "graph f(x: f32[{0}], y: f32[{1}]) {{ %0: f32[{2}] = cat(x, y, dim={3}) return %0 }}"


@pytest.mark.parametrize(
    ("x", "y", "both", "dim", "grain"),
    [
        ("9000, 40", "9000, 1", "9000, 41", 1, 2048),  # a column of long rows
        ("9000, 4", "9000, 1", "9000, 5", 1, 16384),  # rows share lines
        ("9000, 40", "100, 40", "9100, 40", 0, 16384),
    ],
)
def test_columns_are_divided_sooner(x: str, y: str, both: str, dim: int, grain: int):
    graph = parse(SIDES.format(x, y, both, dim))
    strides = [(v.spec.shape[1], 1) for v in graph.inputs]
    second = make_plan(graph, strides).items[1]
    assert isinstance(second, Step)
    assert second.grain == grain


def test_reflected_borders_are_right():
    pad = tj.nn.functional.pad
    compiled = tj.compile(lambda x: pad(x, (2, 3, 1, 4), mode="reflect"))
    x = tj.from_numpy(np.random.default_rng(0).standard_normal((8, 30, 50, 60)))
    for _ in range(3):
        found = compiled(x).numpy()
    assert (found == np.pad(x.numpy(), ((0, 0), (0, 0), (1, 4), (2, 3)), mode="reflect")).all()
