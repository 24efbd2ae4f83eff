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


def test_a_value_that_backward_needs_is_overwritten_inside() -> None:
    agree(
        """
bank = stage.tensor(N)
@stage.compile
def program(x):
    y = x * bank
    z = y * y
    y.add_(1)
    return z
for _ in range(3):
    x0 = stage.tensor(N, grad=True)
    out0 = program(x0)
    with stage.step():
        stage.backward(out0)
""",
        0,
    )


def test_state_that_backward_needs_is_written_by_the_next_call() -> None:
    agree(
        """
bank = stage.tensor(N)
@stage.compile
def program(x):
    bank.mul_(0.5)
    bank.add_(0.1)
    return (bank * x).sum()
x0 = stage.tensor(N, grad=True)
outs = []
for number in range(5):
    with stage.step():
        outs.append(program(x0))
    with stage.step():
        stage.backward(outs[number if number % 2 else number - 1])
""",
        4,
    )


SOME = """
bank = stage.tensor(N)
@stage.compile
def program(x, y):
    return {body}
for number in range(6):
    x0, y0 = tj.zeros(N, requires_grad=True), stage.tensor(N, grad=True)
    with stage.step():
        out0 = program(x0, y0)
    with stage.step():
        stage.backward(out0, retain=True, part=slice(number % 3, number % 3 + 1))
    with stage.step():
        bank.add_(1)
    with stage.step():
        stage.backward(out0, retain=True, part=slice(1, None))
    with stage.step():
        slopes = stage.slopes(out0[number % 3], x0, y0)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "body",
    [
        "x.log(), x * 2, y * 3",
        "(x + 1).log() * y, (x + 1).log() / x, y.sum()",
        "x * bank, y.sin(), x * y * bank",
        "tj.cat([x, y]).log(), tj.cat([x, y]) * 2, x.sum() * y",
        "tj.where(x > 0, x.sqrt(), y), (x.exp() @ y) * 2, y / x",
        "x.floor(), x.ceil() * y, x.trunc().sum()",
    ],
)
def test_backward_from_some_of_the_results(body: str) -> None:
    """Others give nothing: no zeros, no nan, no gradients of inputs that only they depend on, no version checks."""
    agree(SOME.replace("{body}", body), 5)


def test_backward_from_one_result_of_rolled_rounds() -> None:
    agree(
        """
@stage.compile
def program(x, w):
    h = x
    for _ in range(12):
        h = tj.tanh(h @ w + x)
    return h.sum(), (x * 2).sum(), (h / (x - x)).sum()
for number in range(6):
    x0, w0 = stage.tensor(2, N, grad=True), stage.tensor(N, N, grad=True)
    with stage.step():
        out0 = program(x0, w0)
    with stage.step():
        stage.backward(out0, part=slice(number % 2, number % 2 + 1))
""",
        5,
    )


def test_a_fact_of_state_changes_back() -> None:
    agree(
        """
weight = stage.tensor(N, N, grad=True)
@stage.compile
def program(x):
    if weight.requires_grad:
        return x.sum(0)
    return weight[0] * x
x0 = stage.tensor(1, N, grad=True)
"""
        + CALLS
        + "with stage.step():\n    weight.requires_grad_(False)\n"
        + CALLS
        + "with stage.step():\n    weight.requires_grad_()\n"
        + CALLS,
        7,
    )


def test_a_second_pass_through_a_call_that_kept_nothing() -> None:
    agree(
        """
bank = stage.tensor(2, N)
@stage.compile
def program(x):
    return x.transpose(0, -1).clone().transpose(0, -1), x.reshape(-1), x + bank
for _ in range(3):
    x0 = stage.tensor(2, N, grad=True)
    with stage.step():
        out0 = program(x0)
    with stage.step():
        slopes0 = stage.slopes(out0, x0, order=1)
    with stage.step():
        stage.backward(out0)
    with stage.step():
        stage.backward(out0, part=slice(1, 2))
""",
        2,
    )


def test_two_losses_of_one_call_go_backward_one_after_the_other() -> None:
    agree(
        """
@stage.compile
def program(x, y):
    return (x * x).sum(), y.exp() + x, x * y
for number in range(6):
    x0, y0 = stage.tensor(N, grad=True), stage.tensor(N, grad=True)
    with stage.step():
        out0 = program(x0, y0)
    with stage.step():
        stage.backward(out0, part=slice(number % 3, number % 3 + 1))
    with stage.step():
        stage.backward(out0, part=slice(1, None))
    with stage.step():
        slopes0 = stage.slopes(out0[0], x0, order=1)
    with stage.step():
        slopes0 = stage.slopes(out0[1], y0, order=1)
""",
        5,
    )


def test_branches_that_were_given_up_decide_nothing_about_sizes() -> None:
    agree(
        """
@stage.compile
def program(x, y, mode='a'):
    x = x if mode else y
    v0 = x.reshape(-1, N)[-1:].sum(0)
    v1 = y.transpose(0, -1).clone().transpose(0, -1)
    for i in range(min(int(x.detach().abs().amax()), 3) + 1):
        v1 = v1.flip(-1)
    v6 = v0 + v1
    return v6.view(v6.shape)
N = 4
x0, y0 = stage.tensor(N, grad=True), stage.tensor(N, grad=True)
modes = ['b', 'a', 'a', 'b', 'a', 'a', 'b', 'a']
for number, mode in enumerate(modes):
    if number == 3:
        x0 = stage.tensor(N, grad=True)
    with stage.step():
        out0 = program(x0, y0, mode=mode)
""",
        4,
    )


DRAWN = """
gen = tj.Generator().manual_seed(3)
scale = 0.5
bank = tj.zeros(N)
@stage.compile
def program(x):
{body}
x0 = stage.tensor(N)
for number in range(8):
    with stage.step():
        out0 = program(x0)
    with stage.step():
        scale += 0.25
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "body",
    [
        "v = x + tj.rand(N, generator=gen)\n    if v.sum() > -9:\n        return v",
        "v = x + tj.empty(N).exponential_()\n    return v if v.sum() > -9 else x",
        "v = x * scale + tj.rand(N) * scale\n    bank.copy_(v)\n    return v - 1",
        "v = x * scale + tj.rand(N) * tj.rand(N, generator=gen)\n    return v * (scale + 1)",
        "v = tj.rand(N) * scale\n    return v if v.sum() > -9 else x, tj.rand(N, generator=gen)",
        "k = float(tj.rand(()))\n    return x * k + math.sqrt(k) * scale + tj.rand(N)",
    ],
)
def test_draws_at_the_end_of_a_path_and_beside_numbers_that_vary(body: str) -> None:
    story = HEAD + "import math\n" + DRAWN.replace("{body}", f"    {body}")
    assert soundness.check(story)[1] >= 5


@pytest.mark.parametrize(
    "body",
    [
        "y = x.clone()\n    y.copy_(x)\n    x.copy_(x)\n    return y",
        "y = x * 2\n    z = x * 2.0\n    x.copy_(z)\n    return y",
        "y = x * 2\n    x.mul_(2)\n    return y, x",
        "y, z = x + 1, x + 1\n    x.copy_(y)\n    return y, z",
        "y = x + 0.5\n    bank.copy_(x + 0.5)\n    x.add_(0.5)\n    return y, y * 2",
        "y = tj.relu(x)\n    x.relu_()\n    if y.sum() > -1:\n        return y\n    return x * 2",
    ],
)
def test_a_result_that_equals_what_is_written_is_a_tensor_of_its_own(body: str) -> None:
    agree(
        f"""
bank = stage.tensor(N)
@stage.compile
def program(x):
    {body}
x0 = stage.tensor(N)
for _ in range(4):
    with stage.step():
        out0 = program(x0)
    with stage.step():
        x0.mul_(0.5)
""",
        3,
    )


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "body",
    [
        "return tj.asinh(x + tj.arange(N) * 0.5)",
        "return (x * (tj.arange(N) * level).sin()).sin()",
        "return tj.where(x > 0, 1.0, level) * x, x.long().sum() / 2",
        "return (x > 0).long().cumsum(-1) * 0.5 + x",
    ],
)
@pytest.mark.parametrize("retain", [True, False])
def test_the_default_dtype_changes_between_calls_and_before_backward(
    body: str, retain: bool
) -> None:
    agree(
        f"""
level = 0.5
@stage.compile
def program(x):
    {body}
for number in range(9):
    with stage.step():
        tj.set_default_dtype((tj.float32, tj.float64)[number // 3 % 2])
    x0 = tj.full((2, N), 0.5, dtype=tj.float32, requires_grad=True)
    with stage.step():
        out0 = program(x0)
    with stage.step():
        tj.set_default_dtype((tj.float32, tj.float64)[number % 2])
    with stage.step():
        stage.backward(out0, retain={retain})
    with stage.step():
        slopes0 = stage.slopes(out0, x0)
""",
        7,
    )


def test_views_that_may_no_longer_be_used_are_looked_at() -> None:
    """Asked for their history they raise, eager and compiled, which ends no story."""
    agree(
        """
@stage.compile
def program(x):
    with tj.no_grad():
        v = x[1:]
    return x * 2, v
x0 = stage.tensor(N, grad=True)
with stage.step():
    x0, v0 = x0 * 1, x0
with stage.step():
    with tj.no_grad():
        v1 = x0[1:]
    x0.mul_(2)
"""
        + CALLS,
        2,
    )
