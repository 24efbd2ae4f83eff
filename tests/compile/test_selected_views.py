"""``x[t]`` with a position in a 0-d tensor is a view, eagerly and recorded; another call has another position."""

from __future__ import annotations

import pytest

import tracejit as tj
from trap_tools import agree, check

POSITIONS = (0, 2, -1, 1, 1)


def written(x, t):
    y = x * 1
    y[t].mul_(10)
    y[t][0] = 7
    return y, y.sum(0)


def counted(x, t):
    x[t] += 1
    x[t][t.remainder(2)] += 0.5
    return x * 2


def shows_later_writes(x, t):
    y = x * 1
    row = y[t]
    y += 1
    y[0] = 5
    return row * 2, y


def position_changes_later(x, t):
    y = x * 1
    at = t * 1
    row = y[at]
    at += 1
    y.mul_(3)
    return row.exp(), at


def through_columns(x, t):
    y = x * 1
    y[:, t.remainder(2)].neg_()
    y[1:, t.remainder(2)] += 2
    return y


def of_a_selected_one(x, t):
    y = x.reshape(3, 2, 1) * 1
    row = y[t]
    row[t.remainder(2)].add_(2)
    return y.sum(1), row * 1


def only_part_left(x, t):
    return (x * 2)[t]


def read(x, t):
    total = x.sum() * 0
    for k in range(3):
        total = total + (x[t] * (k + 1)).sum() + x[k].sum()
    return total


def untracked(x, t):
    y = x * 1
    with tj.no_grad():
        y[t].mul_(2)
    return y.sum()


def beside_found_sizes(x, t):
    many = x.detach()[x.detach() > 2]
    y = x * 1
    y[t] += many.shape[0]
    y[t][1] = many.sum()
    return y


FOLLOWED = [
    beside_found_sizes,
    written,
    shows_later_writes,
    position_changes_later,
    through_columns,
    of_a_selected_one,
    only_part_left,
    read,
]


def play(function, grad):
    def scenario(stage):
        f = stage.compile(function)
        for k in POSITIONS:
            x = tj.arange(6.0).reshape(3, 2)
            stage.call(f, x.requires_grad_() if grad else x, tj.tensor(k))
            stage.note("x", x)

    return scenario


@pytest.mark.sampled(2)
@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("function", FOLLOWED, ids=lambda f: f.__name__)
def test_recorded_once_for_all_positions(function, grad) -> None:
    check(play(function, grad), compiled=len(POSITIONS) - 1, recorded=1)


def test_arguments_are_written() -> None:
    check(play(counted, False), compiled=len(POSITIONS) - 1, recorded=1)


def test_writes_that_autograd_does_not_see() -> None:
    check(play(untracked, True), compiled=len(POSITIONS) - 1, recorded=1)


def saved_then_written(x, t, buffer):
    z = x * buffer[t]
    buffer.mul_(0.5)
    return z


def saved_then_changed_through_data(x, t, buffer):
    z = x * buffer[t]
    buffer.data.mul_(0.5)
    return z


def saved_after_a_write(x, t, buffer):
    buffer[t] = 0.5
    z = x * buffer[t]
    buffer[t].data.mul_(0.5)
    return z


def saved_and_overwritten_inside(x, t, buffer):
    y = buffer * 1
    z = x * y[t]
    y.add_(1)
    return z


def given_to_another(x, t, buffer):
    y = x * 1
    y[:] = buffer[t]
    z = y * buffer[t]
    y.data.mul_(2)
    return z


SAVED = [
    saved_then_written,
    saved_then_changed_through_data,
    saved_after_a_write,
    saved_and_overwritten_inside,
    given_to_another,
]


@pytest.mark.parametrize("function", SAVED, ids=lambda f: f.__name__)
def test_backward_passes_read_the_memory_of_the_whole(function) -> None:
    def scenario(stage):
        f = stage.compile(function)
        buffer = tj.ones(3, 2)
        for k in POSITIONS:
            x = tj.arange(6.0).reshape(3, 2).requires_grad_()
            stage.call(f, x, tj.tensor(k), buffer)
            stage.note("buffer", (buffer, buffer._version))

    agree(scenario)


def test_what_nobody_can_follow_runs_eagerly() -> None:
    def of_an_argument(x, t):
        return x[t]

    def two_that_share(x, t):
        y = x * 2
        return y[t], y

    def with_gaps(x, t):
        return (x * 2)[:, t.remainder(2)]

    for function in (of_an_argument, two_that_share, with_gaps):
        f = check(play(function, False), reason="tensor")
        assert f.stats.compiled_calls == 0


def test_copies_of_a_tensor_to_itself_are_counted() -> None:
    def to_itself(x, t):
        x.copy_(x)
        x[t] = x[t]
        x[0] += 1
        return x * 2

    def scenario(stage):
        f = stage.compile(to_itself)
        for k in POSITIONS:
            x = tj.arange(6.0).reshape(3, 2)
            stage.call(f, x, tj.tensor(k))
            stage.note("version", x._version)

    check(scenario, compiled=len(POSITIONS) - 1)


def test_results_that_are_changed_by_the_caller() -> None:
    def scenario(stage):
        f = stage.compile(only_part_left)
        for k in POSITIONS:
            x = tj.arange(6.0).reshape(3, 2)
            y = stage.call(f, x, tj.tensor(k))
            y.add_(1)
            stage.note("both", (x, y))

    check(scenario, compiled=len(POSITIONS) - 1)


def test_a_loop_that_tensors_end() -> None:
    def walk(links, weights, t):
        seen = weights.sum() * 0
        while t > 0:
            seen = seen + weights[t].sum()
            t = links[t]
        return seen

    def scenario(stage):
        f = stage.compile(walk)
        links, weights = tj.tensor([0, 0, 1, 2, 1]), tj.arange(10.0).reshape(5, 2)
        for k in (1, 3, 4, 2, 0, 3):
            stage.call(f, links, weights, tj.tensor(k))

    check(scenario, compiled=1)


def test_eager_views() -> None:
    x = tj.arange(6.0).reshape(3, 2)
    for index in (tj.tensor(1), tj.tensor(-2, dtype=tj.int32)):
        row = x[index]
        assert row.data_ptr() == x[1].data_ptr()
        row += 1
    assert x.tolist() == [[0, 1], [4, 5], [4, 5]]
    x[tj.tensor(0), tj.tensor(1)].fill_(9)
    assert x[0].tolist() == [0, 9]
    assert x[tj.tensor(1, dtype=tj.uint8)].shape == (1, 3, 2)  # a mask
    assert x[tj.tensor(0) : tj.tensor(2)].shape == (2, 2)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        x[tj.tensor(3)]


def test_eager_gradients() -> None:
    w = tj.ones(3, 2, requires_grad=True)
    assert w[tj.tensor(1)].grad_fn.name() == "SelectBackward0"
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        w[tj.tensor(1)].mul_(2)
    v = w * 1
    row = v[tj.tensor(1)]
    v[1] = w[0] * 3
    row.mul_(2)
    v.sum().backward()
    assert w.grad.tolist() == [[7, 7], [0, 0], [1, 1]]
