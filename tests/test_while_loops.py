"""Loops that tensors end: compiled calls equal eager ones for every number of rounds, and run as one native loop."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

LIMIT = 12


def loops(compiled):
    """How many open loops were recorded, over all paths."""
    return sum(str(graph).count("until=") for graph in compiled.graphs)


def same(compiled, eager, calls):
    """Compiled calls equal eager ones, bit for bit, at first and when they are repeated."""
    for _ in range(2):
        for arguments in calls:
            expected, found = eager(*arguments), compiled(*arguments)
            if not isinstance(expected, (tuple, list)):
                expected, found = [expected], [found]
            assert len(expected) == len(found)
            for x, y in zip(expected, found, strict=True):
                if isinstance(x, tj.Tensor):
                    assert x.dtype is y.dtype
                    assert x.shape == y.shape
                    np.testing.assert_array_equal(x.numpy(), y.numpy())
                else:
                    assert x == y


def checked(f, calls, rolled=True):
    """``f`` compiled, after calls that were compared; was it rolled as it should be?"""
    compiled = tj.compile(f)
    same(compiled, f, calls)
    assert (loops(compiled) > 0) is rolled, compiled.explain()
    return compiled


STARTS = [(tj.tensor([s, 1.0, 0.1]),) for s in (3.0, 500.0, 1e-3, 40.0, 1e6, 7.0, 2.5, 1.01, 1e9)]


def newton(x):
    while (x * x - 2).abs().max() > 1e-5:
        x = x - (x * x - 2) / (2 * x)
    return x


def halved(x):
    while x.max() > 1:
        x = x / 2
    return x


def counted(x):
    rounds = 0
    while rounds < LIMIT and x.max() > 1:
        x = x / 2
        rounds += 1
    return x * 3


def counted_down(x, left=9):
    while x.max() > 1 and left:
        x = x / 2
        left -= 1
    return x


def counted_late(x):
    rounds = 0
    while x.max() > 1:
        if rounds >= 7:
            break
        rounds += 1
        x = x / 2
    return x + 1


def counted_to_equality(x):
    rounds = 10
    while x.max() > 1 and rounds != 0:
        rounds -= 2
        x = x / 2
    return x + 1


def broken_off(x):
    while True:
        x = x / 2
        if x.max() < 1:
            break
    return x - 1


def until_false(x):
    while not x.max() <= 1:
        x = x / 2
    return x


def of_a_number(x):
    while (x.max() > 1).float():
        x = x / 2
    return x


def two_in_a_row(x):
    while x.max() > 10:
        x = x / 2
    y = x + 1
    while y.max() > 1:
        y = y / 3
    return x, y


def exchanged(x):
    y = x * 0.5
    while x.max() > 1:
        x, y = y * 0.5, x
    return x, y


def with_a_branch_after(x):
    while x.max() > 1:
        x = x / 2
    if x.sum() > 1:
        return x * 2
    return x - 2


def reads_what_is_outside(x):
    shift = x.mean()
    while x.max() > 1:
        x = x * 0.5 + shift * 1e-12
    return x + shift


def equal_computations(x):
    p = x * 2
    while p.max() < 1e7:
        y = p * 2 + x * 2 + 1
        p = y
    return p


def helped(x):
    def large(y):
        return bool(y.max() > 1)

    while large(x):
        x = x / 2
    return x


def in_a_context(x):
    with tj.no_grad():
        while x.max() > 1:
            x = x / 2
    return x


def products(x):
    w = x.reshape(3, 1) * x.reshape(1, 3) / x.max() ** 2
    v = x
    while (v * v).sum() > 1e-3:
        v = w @ v * 0.25
    return v


def number_decides_late(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / 3 if n > 4 else x / 2
    return x


def over_a_range(x):
    for _ in range(30):
        if x.max() <= 1:
            break
        x = x / 2
    return x


def over_a_range_of(x, start=3, stop=-15, step=-2):
    for n in range(start, stop, step):
        x = x / 2 if n > -50 else x
        if x.max() <= 1:
            return x * 2
    return x - 1


def over_a_range_or_else(x):
    for n in range(LIMIT):
        if x.max() <= 1:
            break
        x = x / 2 if n < 4 else x / 3
    else:
        x = x + 100
    return x


ROLLED = [
    newton,
    halved,
    counted,
    counted_down,
    counted_late,
    counted_to_equality,
    broken_off,
    until_false,
    of_a_number,
    two_in_a_row,
    exchanged,
    with_a_branch_after,
    reads_what_is_outside,
    equal_computations,
    helped,
    in_a_context,
    number_decides_late,
    over_a_range,
    over_a_range_of,
    over_a_range_or_else,
]


@pytest.mark.parametrize("f", ROLLED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("turn", [0, 3, 5])
def test_every_number_of_rounds(f, turn):
    checked(f, STARTS[turn:] + STARTS[:turn])


def test_few_paths_serve_all_numbers_of_rounds():
    compiled = checked(halved, STARTS)
    recordings = compiled.stats.recordings
    for power in range(2, 60):
        x = tj.tensor([2.0**power, 1.0, 1.0])
        np.testing.assert_array_equal(compiled(x).numpy(), halved(x).numpy())
    assert compiled.stats.recordings == recordings <= 3


def test_matrix_products_in_rounds():
    compiled = tj.compile(products)
    for (x,) in STARTS:
        np.testing.assert_allclose(compiled(x).numpy(), products(x).numpy(), 1e-4, 1e-7)
        np.testing.assert_allclose(compiled(x).numpy(), products(x).numpy(), 1e-4, 1e-7)
    assert loops(compiled) > 0


# --- what must not be taken for a loop -------------------------------------------------------------------------


def number_computes(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / (1 + n)
    return x


def number_returned(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / 2
    return x, n


def number_used_after(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / 2
    return x * n


def counted_unevenly(x):
    n = 0
    while x.max() > 1 and n < 17:
        n += 1
        if n == 6:
            n += 3
        x = x / 2
    return x


def flipping(x):
    odd = False
    while x.max() > 1:
        odd = not odd
        x = x / 2 if odd else x / 3
    return x


def collecting(x):
    seen = []
    while x.max() > 1:
        x = x / 2
        seen.append(x)
    return seen


def keeps_the_first(x):
    first = None
    while x.max() > 1:
        x = x / 2
        if first is None:
            first = x
    return x, first if first is not None else x


def list_grows(x):
    seen = [0]
    while x.max() > 1:
        seen.append(1)
        x = x / 2 if len(seen) < 6 else x / 4
    return x


def closure_counts(x):
    n = 0

    def step(y):
        nonlocal n
        n += 1
        return y / 2 if n < 5 else y / 5

    while x.max() > 1:
        x = step(x)
    return x


def default_counts(x):
    def step(y, box=[0]):  # noqa: B006
        box[0] += 1
        return y / 2 if box[0] < 5 else y / 5

    while x.max() > 1:
        x = step(x)
    return x


def iterator_decides(x):
    steps = iter([2, 2, 2, 2, 5, 5, 5] + [3] * 100)
    while x.max() > 1:
        x = x / next(steps)
    return x


def generator_decides(x):
    def numbers():
        n = 0
        while True:
            n += 1
            yield 2 if n < 5 else 6

    steps = numbers()
    while x.max() > 1:
        x = x / next(steps)
    return x


def over_a_range_and_more(x):
    for n in range(30):
        if x.max() <= 1:
            break
        x = x / (2 + n)
    return x


def over_a_range_twice(x):
    for n in range(30):
        if x.max() <= 1:
            break
        x = x / 2
    return x * n


def over_pairs(x):
    for _, by in zip(range(40), [2, 2, 2, 2, 3, 3, 3] * 5, strict=False):
        if x.max() <= 1:
            break
        x = x / by
    return x


def stack_holds_a_number(x):
    def large(y, n):
        return bool(y.max() > n)

    n = 0
    while (lambda k, y: large(y, k))(n // 5, x):
        n += 1
        x = x / 2
    return x


class Stateful:
    def __init__(self):
        self.n = 0

    def step(self, x):
        self.n += 1
        return x / 2 if self.n < 5 else x / 5


def object_counts(x):
    state = Stateful()
    while x.max() > 1:
        x = state.step(x)
    return x


TOTAL = [0]


def start_over_globally(x):
    TOTAL[0] = 0
    while x.max() > 1:
        TOTAL[0] += 1
        x = x / 2 if TOTAL[0] < 5 else x / 5
    TOTAL[0] = 0
    return x


STRAIGHT = [
    number_computes,
    number_returned,
    number_used_after,
    counted_unevenly,
    flipping,
    collecting,
    list_grows,
    closure_counts,
    default_counts,
    iterator_decides,
    generator_decides,
    over_a_range_and_more,
    over_a_range_twice,
    over_pairs,
    stack_holds_a_number,
    object_counts,
    start_over_globally,
]


@pytest.mark.parametrize("f", STRAIGHT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("turn", [0, 4])
def test_what_rounds_do_differently(f, turn):
    checked(f, STARTS[turn:] + STARTS[:turn], rolled=False)


@pytest.mark.parametrize("turn", [0, 4])
def test_what_only_the_first_round_does(turn):
    same(tj.compile(keeps_the_first), keeps_the_first, STARTS[turn:] + STARTS[:turn])


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.scale = nn.Linear(3, 3)

    def forward(self, x):
        self.steps = 0
        while x.max() > 1:
            self.steps += 1
            x = x / 2 if self.steps < 5 else x / 5
        self.steps = 0
        return x


def test_an_attribute_that_ends_as_it_began():
    with tj.no_grad():
        module, other = Counting(), Counting()
        same(tj.compile(module), other, STARTS)


class Settling(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        before = x + 10
        while (x - before).abs().max() > 1e-4:
            before, x = x, (self.inner(x) * 0.2).tanh()
        return x


def test_a_fixed_point_of_a_module_follows_its_parameters():
    tj.manual_seed(3)
    module = Settling()
    compiled = tj.compile(module)
    with tj.no_grad():
        for scale in (1.0, 0.5, 2.0, 1.5):
            module.inner.weight.mul_(scale)
            for (x,) in STARTS:
                np.testing.assert_allclose(compiled(x).numpy(), module(x).numpy(), 1e-6, 1e-7)
    assert loops(compiled) > 0


def test_a_limit_that_changes():
    global LIMIT
    compiled = tj.compile(counted)
    try:
        for limit in (12, 5, 3, 30, 12):
            LIMIT = limit
            same(compiled, counted, STARTS)
    finally:
        LIMIT = 12


def test_gradients_are_those_of_eager_execution():
    compiled = tj.compile(newton)
    for start in (3.0, 50.0, 1.5, 700.0):
        x, y = (tj.tensor([start, 1.0, 2.0], requires_grad=True) for _ in range(2))
        newton(x).sum().backward()
        compiled(y).sum().backward()
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), 1e-5)
        with tj.no_grad():
            np.testing.assert_array_equal(compiled(y).numpy(), newton(x).numpy())


def test_errors_after_a_loop():
    def f(x):
        rounds = 0
        while rounds < 6 and x.max() > 1:
            x = x / 2
            rounds += 1
        if x.max() > 1:
            raise ArithmeticError("it does not converge")
        return x

    compiled = tj.compile(f)
    for _ in range(2):
        for (x,) in STARTS:
            try:
                expected = f(x)
            except ArithmeticError:
                with pytest.raises(ArithmeticError, match="converge"):
                    compiled(x)
            else:
                np.testing.assert_array_equal(compiled(x).numpy(), expected.numpy())


def test_not_a_number_ends_it_as_in_python():
    calls = [(tj.tensor([s, 1.0, 1.0]),) for s in (9.0, float("nan"), 100.0, float("inf"))]
    same(tj.compile(counted), counted, calls)


def test_a_loop_without_end_can_be_interrupted():
    def f(x):
        while x.max() > 1:
            x = x * 0.5 + x.min()
        return x

    compiled = tj.compile(f)
    usual = tj.tensor([100.0, 0.0])
    for _ in range(3):
        compiled(usual)
    assert loops(compiled) > 0

    def interrupt(*_):
        raise KeyboardInterrupt

    known = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            compiled(tj.tensor([100.0, 5.0]))
        assert time.monotonic() - start < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, known)
    np.testing.assert_array_equal(compiled(usual).numpy(), f(usual).numpy())


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16, tj.int32, tj.uint8])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (17,), (5, 3), (33, 2)])
def test_types_and_shapes(dtype, shape):
    def f(x, y):
        while (x < 100).all():
            x, y = x + y, x
        return x, y

    rng = np.random.default_rng(1)
    calls = []
    for most in (3, 9, 2):
        x = tj.tensor(rng.integers(1, most, shape)).to(dtype)
        calls.append((x, x * 1))
    compiled = tj.compile(f)
    same(compiled, f, calls)


def test_strided_and_empty():
    def f(x):
        n = 0
        while n < 9 and (x < 50).all():
            x = x * 2 + 1
            n += 1
        return x

    base = tj.arange(24, dtype=tj.float32).reshape(4, 6)
    for x in (base.t(), base[:, ::2], base[1], base[:0], base[:, :1]):
        same(tj.compile(f), f, [(x,), (x * 0.5,), (x + 60,)])
