"""Differences that random stories have found, each as the smallest story that showed it."""

from __future__ import annotations

import pytest

from tracejit.testing import soundness

HEAD = "import tracejit as tj\nN = 3\n"
CALLS = """
with stage.step():
    out0 = program(x0)
with stage.step():
    out1 = program(x0)
with stage.step():
    out2 = program(x0)
"""


def agree(text: str, compiled: int) -> None:
    """The story is the same eager and compiled, with this many compiled calls."""
    assert soundness.check(HEAD + text)[1] == compiled


def test_outputs_count_the_writes_behind_them() -> None:
    agree(
        """
@stage.compile
def program(x):
    y = x * 2
    y.add_(1)
    y[0].mul_(2)
    return y, y[1:], y.detach()
x0 = stage.tensor(N, grad=True)
"""
        + CALLS,
        2,
    )


def test_data_of_a_result_and_of_state_counts_apart() -> None:
    agree(
        """
bank = stage.tensor(N)
@stage.compile
def program(x):
    bank.copy_(x)
    y = x * 2
    bank.data.mul_(0.5)
    y.data.add_(1)
    return bank.data, y.data, y
x0 = stage.tensor(N)
"""
        + CALLS,
        2,
    )


def test_writing_to_a_part_of_an_expanded_argument() -> None:
    agree(
        """
@stage.compile
def program(x):
    x[0].add_(0.25)
x0 = stage.tensor(2, N, layout='expanded')
"""
        + CALLS,
        0,
    )


@pytest.mark.parametrize("order", ["leaf, made", "made, leaf"])
def test_backward_inside_from_a_leaf_and_from_a_result(order: str) -> None:
    agree(
        f"""
@stage.compile
def program(x):
    (x * x).sum().backward()
    return x.detach() * 2
leaf = stage.tensor(N, grad=True)
for _ in range(3):
    made = leaf * 2
    leaf.grad = None
    for x0 in ({order}):
        with stage.step():
            out0 = program(x0)
""",
        2 if order == "leaf, made" else 0,
    )
