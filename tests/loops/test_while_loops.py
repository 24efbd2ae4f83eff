"""Loops that tensors end: compiled calls equal eager ones for every number of rounds, and run as one native loop."""

from __future__ import annotations

import linecache
import signal
import sys
import time

import numpy as np
import pytest

import tracejit as tj
import while_rolled
from tracejit import nn
from while_rolled import ROLLED, counted, halved, newton, products
from while_straight import STRAIGHT, keeps_the_first


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
                    assert (x is arguments[0]) is (y is arguments[0])
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


@pytest.mark.sampled(12)
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


@pytest.mark.sampled(24)
@pytest.mark.parametrize("f", STRAIGHT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("turn", [0, 4])
def test_what_rounds_do_differently(f, turn):
    checked(f, STARTS[turn:] + STARTS[:turn], rolled=False)


@pytest.mark.parametrize("turn", [0, 4])
def test_what_only_the_first_round_does(turn):
    same(tj.compile(keeps_the_first), keeps_the_first, STARTS[turn:] + STARTS[:turn])


def test_a_result_that_is_an_argument_is_it_for_every_number_of_rounds():
    def f(x, y):
        while x.max() > 1:
            x, y = y * 0.5, x
        return x, y

    compiled = tj.compile(f)
    starts = [7.0, 2.5, 1e9, 1.5, 0.5, 3.0, 100.0, 1.01]
    for start in [*starts, *starts[::-1]]:
        x = tj.tensor([start, 1.0])
        for y in (x * 0.5, x):
            for wanted, found in zip(f(x, y), compiled(x, y), strict=True):
                np.testing.assert_array_equal(found.numpy(), wanted.numpy())
                assert (wanted is x, wanted is y) == (found is x, found is y)
    assert loops(compiled) > 0


def long_loop(test):
    """A loop whose jumps are longer than a byte can say."""
    lines = ["def f(x):", *test, *["        x = x + 1", "        x = x - 1"] * 40]
    names, name = {}, f"<long loop {test[0].strip()}>"
    source = "\n".join([*lines, "        x = x / 2", "    return x"])
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), names)
    return names["f"]


@pytest.mark.parametrize(
    "test",
    [
        ["    while x.max() > 1:"],
        ["    for n in range(35):", "        if x.max() <= 1:", "            break"],
    ],
    ids=["while", "for"],
)
def test_long_bodies(test):
    checked(long_loop(test), STARTS[:5])


def test_loops_are_found_while_instructions_are_traced():
    def trace(frame, event, argument):
        frame.f_trace_opcodes = True
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        compiled = tj.compile(counted)
        found = [compiled(x) for (x,) in STARTS]
    finally:
        sys.settrace(before)
    for (x,), y in zip(STARTS, found, strict=True):
        np.testing.assert_array_equal(y.numpy(), counted(x).numpy())
    assert loops(compiled) > 0


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
    compiled = tj.compile(counted)
    try:
        for limit in (12, 5, 3, 30, 12):
            while_rolled.LIMIT = limit
            same(compiled, counted, STARTS)
    finally:
        while_rolled.LIMIT = 12


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


@pytest.mark.sampled(4)
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
