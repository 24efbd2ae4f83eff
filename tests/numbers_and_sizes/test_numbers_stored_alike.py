"""Numbers that a recorded run stores where the same ones are already: later calls store others."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit import nn


class Left(nn.Module):
    """Where numbers of a call may be left."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.pair, self.items, self.named = 3, (3, 1), [3, 0], {"n": 3}


class Plain:
    """The same of an object."""

    count = 3


PLACES = {
    "of a module": "left.count = n",
    "in a tuple": "left.pair = (n, 1)",
    "in a list": "left.items[0] = n",
    "in a dict": "left.named['n'] = n",
    "of an object": "plain.count = n",
    "of a class": "Plain.count = n",
}
NUMBERS = {
    "a count": "n = x[1][x[1] > 0].shape[0]; y = x[0][x[1] > 0]",
    "an index": "k = x[0].argmax().item(); n = x[1].argmin().item(); y = x[0, k] * x[1, n]",
    "a number read": "k = x[0].max().item(); n = x[1].argmin().item(); y = x * k * n",
    "a sum": "k = x[0].argmax().item(); n = int(x[1].argmin()) * k // k; y = x[1] * n",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_stored_where_they_are_already(number: str, place: str) -> None:
    """That a call stores what was there by chance does not mean that all calls do."""
    found = []
    for compiled in (False, True):
        left, plain, kind = Left(), Plain(), type("Kind", (), {"count": 3})
        space = {"left": left, "plain": plain, "Plain": kind}
        exec(f"def f(x):\n    {NUMBERS[number]}\n    {PLACES[place]}\n    return y", space)
        run = tj.compile(space["f"]) if compiled else space["f"]
        for k, n in enumerate((3, 3, 3, 3, 3, 3, 2, 4, 4, 1, 3, 2)):
            x = tj.stack([tj.zeros(6), tj.linspace(-2, -1, 6)])
            x[0, 1 + k % 4] = 1.0 + k
            x[1, :n], x[1, n] = tj.linspace(1, 2, n), -3.0
            y = run(x)
            where = (left.count, left.pair, left.items, left.named, plain.count, kind.count)
            found.append(str((y.tolist(), where)))
    assert found[:12] == found[12:]
