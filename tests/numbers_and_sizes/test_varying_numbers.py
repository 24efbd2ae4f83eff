"""Numbers that vary from call to call: one recording serves them, with the values Python computes."""

from __future__ import annotations

import copy
import dataclasses
import math
import operator
import pickle
import threading

import numpy as np
import pytest

import tracejit as tj
from tracejit.varying import VaryingFloat, VaryingInt, is_varying, plain

FLOATS = [2.5, -0.0, 0.0, float("nan"), float("inf"), -float("inf"), 1e308, -3.0, 5e-324]
INTS = [3, 0, -7, 2**63, -(2**70), 1]
BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    divmod,
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
]
BITS = [operator.and_, operator.or_, operator.xor]
UNARY = [
    operator.neg,
    operator.pos,
    abs,
    round,
    math.floor,
    math.ceil,
    math.trunc,
    bool,
    int,
    float,
    str,
    repr,
    hash,
    complex,
    lambda p: round(p, 1),
    lambda p: f"{p:.3f}" if isinstance(p, float) else f"{p:>5}",
    lambda p: p.real,
    lambda p: p.is_integer() if isinstance(p, float) else p.bit_length(),
    lambda p: [p, {"a": (p, 1)}],
    lambda p: max(p, 1) + min(2, p),
    lambda p: sum([p, p], start=0),
]


def outcome(function, *args):
    """The result of a call with its types, or the class of its error."""
    try:
        return typed(function(*args))
    except (ArithmeticError, ValueError, TypeError) as error:
        return type(error)


def typed(value):
    """Values with their types, floats to the last bit."""
    if isinstance(value, (list, tuple)):
        return type(value), [typed(x) for x in value]
    if isinstance(value, dict):
        return {k: typed(x) for k, x in value.items()}
    if isinstance(value, tj.Tensor):
        return value.dtype, value.requires_grad, typed(value.tolist())
    return type(value), repr(value)


def agree(function, calls, *, recordings=None):
    """Compiled results are eager results; returns the compiled function."""
    f = tj.compile(function)
    for args in calls:
        assert outcome(f, *args) == outcome(function, *args), args
    if recordings is not None:
        assert f.stats.recordings == recordings, str(f.explain())
    return f


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("values", [FLOATS, INTS], ids=["floats", "ints"])
def test_binary_operators_on_special_values(op, values) -> None:
    x = tj.ones(2)

    def both(x, p, q):
        return x.sum(), op(p, q)

    def left(x, p):
        return x.sum(), op(p, 3), op(p, 1.5), op(p, True)

    def right(x, p):
        return x.sum(), op(3, p), op(1.5, p)

    agree(both, [(x, p, q) for p in values for q in values])
    agree(both, [(x, p, q) for p in FLOATS[:5] for q in INTS[:4]])
    agree(left, [(x, p) for p in values])
    agree(right, [(x, p) for p in values])


@pytest.mark.parametrize("op", BITS, ids=lambda op: op.__name__)
def test_operators_on_bits(op) -> None:
    x = tj.ones(2)
    f = agree(
        lambda x, p, q: (x * 2, op(p, q), op(p, 6), op(5, q), p << 2, ~q, q >> 1),
        [(x, p, q) for p in INTS for q in INTS],
    )
    assert f.stats.compiled_calls > 20


def test_powers_change_type_with_their_values() -> None:
    x = tj.ones(2)
    pairs = [(2, 3), (2, -3), (0, -1), (-8.0, 0.5), (2.0, 3), (-8.0, 2), (0.0, -1.0), (10, 400)]
    agree(lambda x, p, q: (x * 2, p**q), [(x, *pair) for pair in pairs * 2])
    agree(lambda x, p: (x * 2, p**2, 2**p, pow(7, p, 5)), [(x, p) for p in (3, 5, 0, 2, -1, 8)])


@pytest.mark.parametrize("values", [FLOATS, INTS], ids=["floats", "ints"])
def test_unary_operations_on_special_values(values) -> None:
    x = tj.ones(2)
    for op in UNARY:
        agree(lambda x, p, op=op: (x * 2, op(p)), [(x, p) for p in values * 2])


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool"]
)
def test_operands_take_the_type_a_literal_would(dtype) -> None:
    kind = getattr(tj, dtype)
    tensors = [tj.tensor([1.0, 2.0, 0.0]).to(kind), tj.tensor(2.0).to(kind)]

    def f(x, p):
        chosen = tj.where(x > 1, p, x if dtype != "uint8" else x + 0.0)  # bytes do not hold all
        parts = [x * p, p + x, p * 2 + x, x == p, chosen, x / (p + 4)]
        return [*parts, x.clone().mul(p), tj.maximum(x, tj.ones_like(x)) * p]

    for values in ([0.5, 3.0, 1e39, 0.1, -0.0], [2, 300, -1, 2**40, 7]):
        values = [v for v in values if abs(v) < 1e30 or dtype not in ("uint8", "bool", "int64")]
        for x in tensors:
            g = agree(f, [(x, v) for v in values])
            assert g.stats.recordings <= 3, str(g.explain())


def test_a_schedule_is_two_recordings() -> None:
    weight = tj.tensor([1.0, -2.0, 3.0], requires_grad=True)

    def step(w, x, lr, number):
        loss = ((w * x).sum() - 1.0) ** 2 * (1 - 0.9**number)
        return w.detach() - lr * loss, loss

    f = tj.compile(step)
    x = tj.tensor([0.1, 0.2, 0.3])
    for number in range(1, 1001):
        lr = 0.1 / math.sqrt(number)
        new, loss = f(weight, x, lr, number)
        if number % 97 == 0:
            a, b = step(weight, x, lr, number)
            assert np.allclose(new.tolist(), a.tolist(), rtol=1e-6)
            (ours,) = tj.autograd.grad(loss, [weight])
            (theirs,) = tj.autograd.grad(b, [weight])
            assert np.allclose(ours.tolist(), theirs.tolist(), rtol=1e-6)
    assert f.stats.recordings == 2
    assert f.stats.compiled_calls == 998
    assert "varies: lr" in str(f.explain())


def test_backward_passes_read_the_numbers_of_their_calls() -> None:
    def function(x, p):
        return (x * p).sin().sum() * p

    f = tj.compile(function)
    x = tj.tensor([1.0, 2.0], dtype=tj.float64, requires_grad=True)
    kept = [(f(x, p), function(x, p)) for p in (0.5, 1.5, 2.5, 3.5)]
    for ours, theirs in reversed(kept):
        (a,) = tj.autograd.grad(ours, [x], create_graph=True)
        (b,) = tj.autograd.grad(theirs, [x], create_graph=True)
        assert np.allclose(a.tolist(), b.tolist(), rtol=1e-12)
        (a,) = tj.autograd.grad(a.sum(), [x])
        (b,) = tj.autograd.grad(b.sum(), [x])
        assert np.allclose(a.tolist(), b.tolist(), rtol=1e-12)
    assert f.stats.recordings == 2


def test_backward_inside_the_function_uses_the_number() -> None:
    weight = tj.tensor([1.0, 2.0], requires_grad=True)

    def function(p):
        loss = (weight * p).pow(2).sum()
        (gradient,) = tj.autograd.grad(loss, [weight])
        return gradient

    f = agree(function, [(0.5,), (1.5,), (2.5,), (-1.0,)], recordings=2)
    assert f.stats.compiled_calls == 2


def test_branches_and_phases() -> None:
    def function(x, step, warm):
        rate = 0.1 * min(1.0, (step + 1) / warm)
        if step > 30:
            rate = rate / 10
        return x * rate if step % 10 else x - rate

    f = agree(function, [(tj.ones(3), i, 20) for i in range(60)])
    assert f.stats.recordings <= 8
    assert f.stats.eager_calls <= 8


def test_a_number_that_decides_a_shape_is_a_size() -> None:
    def function(x, n):
        return x[:n].sum() + tj.zeros(n).sum() + n

    x = tj.arange(200.0)
    agree(function, [(x, n) for n in range(1, 60)], recordings=3)


def test_a_number_that_counts_rounds_is_a_constant() -> None:
    def function(x, n):
        for k in range(n):
            x = x + k * x[k]
        return x

    x = tj.ones(20)
    f = agree(function, [(x, n) for n in range(1, 20) for _ in range(2)])
    assert "n: decides what is computed at almost every call" in str(f.explain())
    f = agree(function, [(x, n) for n in (3, 4, 5, 6, 7, 8)] * 4)
    assert f.stats.compiled_calls >= 10


def test_long_lists_of_numbers_stay_constants() -> None:
    def function(x, numbers):
        return x * tj.tensor(numbers)

    x = tj.ones(200)
    f = agree(function, [(x, [float(i + k % 3) for i in range(200)]) for k in range(9)])
    assert f.stats.recordings == 3
    assert "more than 64 numbers" in str(f.explain())


def test_a_forked_process_records() -> None:
    import os

    f = tj.compile(lambda x, p: x * p)
    for p in (1.0, 2.0):
        f(tj.ones(2), p)
    child = os.fork()
    if child == 0:
        g = tj.compile(lambda x, p: x * p + 1)
        good = all(g(tj.ones(2), p).tolist() == [p + 1] * 2 for p in (1.0, 2.0, 3.0, 4.0))
        os._exit(0 if good and g.stats.recordings == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_numbers_inside_containers_and_keywords() -> None:
    def function(x, *, options, pair):
        return x * options["scale"] + pair[0] - pair[1][0] * options["k"]

    f = tj.compile(function)
    x = tj.ones(2)
    for i in range(10):
        options, pair = {"scale": 0.5 * i, "k": 2}, (i, [float(i)])
        before = copy.deepcopy((options, pair))
        ours = f(x, options=options, pair=pair)
        assert ours.tolist() == function(x, options=options, pair=pair).tolist()
        assert (options, pair) == before
        assert type(options["scale"]) is float
    assert f.stats.recordings == 2


def test_dataclasses() -> None:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        rate: float
        count: int

    f = tj.compile(lambda x, settings: x * settings.rate + settings.count)
    for i in range(6):
        settings = Settings(0.5 * i, i)
        assert f(tj.ones(2), settings).tolist() == [1.5 * i] * 2
        assert settings == Settings(0.5 * i, i)
        assert type(settings.rate) is float
    assert f.stats.recordings == 2


def test_many_threads_with_their_own_numbers() -> None:
    f, errors = tj.compile(lambda x, p: (x * p).sum() if p > 0 else x.sum() + p), []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for p in map(float, rng.standard_normal(100)):
            x = tj.tensor([1.0, 2.0], dtype=tj.float64, requires_grad=True)
            y = f(x, p)
            (g,) = tj.autograd.grad(y, [x])
            if y.item() != (3 * p if p > 0 else 3 + p) or g.tolist() != [p if p > 0 else 1.0] * 2:
                errors.append(p)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not [p for p in errors if abs(p) > 0 and math.isfinite(p)]
    assert f.stats.compiled_calls > 300
    assert f.stats.recordings <= 4


def test_an_error_leaves_the_arguments_as_they_were() -> None:
    def function(x, numbers):
        if numbers[0] > 2:
            raise KeyError("too large")
        return x * numbers[0]

    f = tj.compile(function)
    for i in range(6):
        numbers = [float(i)]
        if i > 2:
            with pytest.raises(KeyError, match="too large"):
                f(tj.ones(2), numbers)
        else:
            assert f(tj.ones(2), numbers).tolist() == [float(i)] * 2
        assert type(numbers[0]) is float


def test_errors_of_arithmetic_are_those_of_python() -> None:
    def function(x, p):
        return x * (1 / p)

    f = tj.compile(function)
    for p in (1.0, 2.0, 3.0, 4.0):
        f(tj.ones(2), p)
    with pytest.raises(ZeroDivisionError):
        f(tj.ones(2), 0.0)
    assert f(tj.ones(2), 5.0).tolist() == function(tj.ones(2), 5.0).tolist()

    def caught(x, p):
        try:
            return x * (1 / p)
        except ZeroDivisionError:
            return x

    agree(caught, [(tj.ones(2), p) for p in (1.0, 0.0, 2.0, 0.0, 3.0, 0.0)])


def test_numpy_sees_values() -> None:
    def function(x, p):
        a = np.float32(2) * p
        b = np.sqrt(p) + np.array([1.0, 2.0])[0] * p
        return x * float(a) + float(b)

    agree(function, [(tj.ones(2), p) for p in (1.0, 4.0, 9.0, 4.0)])


def test_a_number_behaves_as_its_value_outside_a_recording() -> None:
    p, n = VaryingFloat(2.5, None, None), VaryingInt(3, None, None)
    assert isinstance(p, float)
    assert isinstance(n, int)
    assert is_varying(p)
    assert plain(n) == 3
    assert type(p + n) is float
    assert p + n == 5.5
    assert [0, 1, 2, 4][n] == 4
    assert pickle.loads(pickle.dumps(p)) == 2.5
    assert type(pickle.loads(pickle.dumps(p))) is float
    assert copy.copy(p) == copy.deepcopy(p) == 2.5
    assert {2.5: "there"}[p] == "there"
    assert (tj.ones(2) * p + n).tolist() == [5.5, 5.5]
    assert n in range(5)
    assert math.sqrt(VaryingInt(4, None, None)) == 2.0


def test_another_thread_sees_values() -> None:
    seen = []

    def function(x, p):
        thread = threading.Thread(target=lambda: seen.append((p * 2, p > 1, f"{p}")))
        thread.start()
        thread.join()
        return x * p

    f = tj.compile(function)
    _ = [f(tj.ones(2), p) for p in (1.0, 2.0, 3.0)]
    assert (4.0, True, "2.0") in seen
    assert all(type(a) is float for a, _, _ in seen)


def test_verification_replays_with_the_numbers_of_the_call() -> None:
    f = tj.compile(lambda x, p: (x * p).sum() + p, verify=True)
    for p in (0.5, 1.5, 2.5, 3.5):
        f(tj.ones(3, requires_grad=True), p)
    assert f.stats.recordings == 2
