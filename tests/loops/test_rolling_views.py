"""The views behind stacks: many slices as one view, views of items, items joined."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from rolling_tools import record
from tracejit.ir import interpreter
from tracejit.ir.builder import Builder
from tracejit.ir.graph import Graph
from tracejit.trace.rolling.views import apply_steps, batched, joined, overlapping, windows
from tracejit.types import TensorType


def evaluated(array, chains, dim=0):
    """What chains of views show of an array, side by side."""
    builder = Builder("f")
    x = builder.input("x", TensorType(array.shape, tj.float64))
    found = []
    for chain in chains:
        made = apply_steps(x, chain, None)
        found.append(Graph("f", (x,), tuple(made), (made[-1] if made else x,)))
    return np.concatenate([interpreter.run(g, [array])[0] for g in found], dim + 1)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_windows_show_the_slices(dim):
    shown = overlapped = 0
    rng = np.random.default_rng(dim)
    for _ in range(400):
        shape = tuple(int(n) for n in rng.integers(1, 5, 3))
        shape = (*shape[:dim], int(rng.integers(4, 40)), *shape[dim + 1 :])
        array = rng.standard_normal(shape)
        size, count = int(rng.integers(1, 5)), int(rng.integers(2, 6))
        stride, delta = (int(rng.choice([-4, -3, -2, -1, 1, 2, 3, 4, 6])) for _ in range(2))
        places = [t * delta + j * stride for t in range(count) for j in range(size)]
        low, high = min(places), max(places)
        if high - low >= shape[dim]:
            continue
        first = int(rng.integers(-low, shape[dim] - high))
        attributes = {
            "starts": (*(0,) * dim, first, *(0,) * (2 - dim)),
            "counts": (*shape[:dim], size, *shape[dim + 1 :]),
            "steps": (*(1,) * dim, stride, *(1,) * (2 - dim)),
        }
        index = [[first + t * delta + j * stride for j in range(size)] for t in range(count)]
        expected = np.stack([array.take(i, dim) for i in index])
        found = windows(shape, attributes, dim, delta, count)
        if found is None:
            overlapped += 1
            chains = overlapping(shape, attributes, dim, delta, count)
            np.testing.assert_array_equal(evaluated(array, chains, dim), expected)
        else:
            shown += 1
            np.testing.assert_array_equal(evaluated(array, [found]), expected)
    assert shown > 50
    assert overlapped > 20


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(6, 2),
        lambda x: x.permute(2, 0, 1),
        lambda x: x.unsqueeze(1).expand(5, 2, 3, 3, 2)[0],
        lambda x: x[:1].squeeze(0),
        lambda x: x.unsqueeze(3),
        lambda x: x[1:, ::2, 1:],
        lambda x: x.diagonal(0, 1, 2),
        lambda x: x[:, 0].expand(4, 2, 2),
    ],
)
def test_views_of_items_as_views_of_the_stack(view):
    array = np.random.default_rng(0).standard_normal((4, 2, 3, 2))
    expected = np.stack([view(tj.from_numpy(a)).numpy() for a in array])
    chain = []
    for item in record(view, tj.from_numpy(array[0])).values:
        chain += batched(item, 4)
    np.testing.assert_array_equal(evaluated(array, [chain]), expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_joined_items(dim):
    array = np.random.default_rng(0).standard_normal((4, 2, 3, 2))
    found = evaluated(array, [joined(TensorType(array.shape, tj.float64), dim)])
    np.testing.assert_array_equal(found, np.concatenate(list(array), dim))
