"""Numbers that code compares by ``is``, by mistake: compiled calls say what eager ones say."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

import tracejit as tj

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    LITERALS = eval("lambda x, i: (i is 2, 3 is not i, {}.get('none', i) is 3)")
SPACE = SimpleNamespace(last=3, table={})


@pytest.mark.parametrize(
    "question",
    [
        LITERALS,
        lambda x, i: (i is SPACE.last, SPACE.last is not i),
        lambda x, i: [j for j in range(5) if j is i],
        lambda x, i: x.shape[0] is SPACE.last,
    ],
)
def test_numbers_that_are_one_object(question) -> None:
    def step(x, i):
        return x * i, question(x, i)

    compiled = tj.compile(step)
    for i in (0, 2, 3, 1, 2, 2, 3, 3, 1):
        SPACE.last = i if i % 2 else 3
        x = tj.ones(i + 1)
        assert compiled(x, i)[1] == step(x, i)[1]


def test_other_questions_let_numbers_vary() -> None:
    @tj.compile
    def step(x, y, i, scale=None):
        return x * i if scale is None and x is not y else x

    for i in range(12):
        x = tj.ones(2)
        assert tj.equal(step(x, tj.ones(2), float(i)), x * i)
    assert step.stats.recordings <= 3
