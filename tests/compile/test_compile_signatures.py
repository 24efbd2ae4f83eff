"""compile(): what makes two calls alike, and when a function is recorded again."""

from __future__ import annotations

import enum
import gc
import logging
import threading
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import config


def recordings(f) -> int:
    return f.stats.recordings


def test_signatures_tell_apart() -> None:
    f = tj.compile(lambda x: x * 2)
    base = tj.ones(4, 3)
    cases = [
        base,
        tj.ones(4, 3, dtype=tj.float64),
        tj.ones(4, 4),
        tj.ones(3, 4).T,
        tj.ones(4, 3, requires_grad=True),
    ]
    for number, x in enumerate(cases, 1):
        for _ in range(2):
            y = f(x)
            assert (y.dtype, y.shape, y.requires_grad) == (x.dtype, x.shape, x.requires_grad)
        assert recordings(f) == number
    with tj.no_grad():
        assert not f(cases[-1]).requires_grad
        assert not f(cases[-1]).requires_grad
    assert recordings(f) == 6
    with tj.inference_mode():
        assert f(base).is_inference()
        assert f(base).is_inference()
    assert recordings(f) == 7


def test_inference_tensors_are_refused_as_in_eager() -> None:
    w = tj.ones(2, requires_grad=True)
    f = tj.compile(lambda x: x * w)
    plain = tj.ones(2)
    for _ in range(2):
        f(plain)
    with tj.inference_mode():
        x = tj.ones(2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            f(x)


def test_default_dtype_is_part_of_the_signature() -> None:
    f = tj.compile(lambda x: x + tj.zeros(2))
    x = tj.ones(2, dtype=tj.int64)
    for dtype in (tj.float32, tj.float64, tj.float32):
        tj.set_default_dtype(dtype)
        try:
            assert {f(x).dtype for _ in range(3)} == {dtype}
        finally:
            tj.set_default_dtype(tj.float32)


class Mode(enum.Enum):
    ADD = 1
    MUL = 2


def test_static_arguments_by_type_and_value() -> None:
    def f(x, n):
        if n is None:
            return x
        if isinstance(n, str):
            return x + len(n)
        if isinstance(n, Mode):
            return x + 5 if n is Mode.ADD else x * 5
        return x.to(tj.float64) * n

    g = tj.compile(f)
    values = [1, 1.0, True, 0.0, -0.0, float("nan"), "a", "bb", None, Mode.ADD, Mode.MUL, 2, -2.5]
    for _ in range(3):
        for value in values:
            for x in (tj.tensor([3.0]), tj.tensor([-3.0])):
                a, b = g(x, value), f(x, value)
                assert a.dtype == b.dtype
                assert a.numpy().tobytes() == b.numpy().tobytes(), value
    assert recordings(g) == len(values) - 3  # five floats are two signatures: the first, and all


def test_values_made_anew_do_not_retrace() -> None:
    f = tj.compile(lambda x, s, size: x[s].reshape(size))
    for _ in range(5):
        x = tj.arange(6.0)
        assert f(x, slice(0, 4), (2, 2)).tolist() == [[0, 1], [2, 3]]
        assert f(x, slice(1, 5), x[:4].shape).tolist() == [1, 2, 3, 4]
    assert recordings(f) == 2
    g = tj.compile(lambda x, k, d: x.to(device=d) * float(k))
    for _ in range(3):
        assert g(tj.ones(1), np.float32(2.0), tj.device("cpu")).item() == 2
    assert recordings(g) == 1


def test_keywords_and_positions() -> None:
    f = tj.compile(lambda x, y=None, *rest, **more: x * 2 - (y if y is not None else 0) + len(rest))
    a, b = tj.ones(2) * 5, tj.ones(2)
    for _ in range(3):
        assert f(a, b).tolist() == [9, 9]
        assert f(a, y=b).tolist() == [9, 9]
        assert f(y=b, x=a).tolist() == [9, 9]
        assert f(x=b, y=a).tolist() == [-3, -3]
        assert f(a, b, b, b).tolist() == [11, 11]
        assert f(a, k=b).tolist() == [10, 10]


def test_the_same_tensor_twice() -> None:
    f = tj.compile(lambda x, y: (x * y, x is y))
    a = tj.tensor([3.0], requires_grad=True)
    b = tj.tensor([4.0], requires_grad=True)
    for _ in range(3):
        a.grad = b.grad = None
        y, same = f(a, a)
        y.backward()
        assert (y.item(), same, a.grad.item()) == (9, True, 6)
        y, same = f(a, b)
        assert (y.item(), same) == (12, False)


def test_python_state_back_and_forth() -> None:
    state = {"scale": 2.0}
    f = tj.compile(lambda x: x * state["scale"])
    for _ in range(5):
        for scale in (2.0, 3.0):
            state["scale"] = scale
            assert f(tj.ones(1)).item() == scale
    assert recordings(f) == 2
    assert any("was 2.0 and is 3.0" in h for s in f.explain().signatures for h in s["history"])


def test_many_python_states_stop_being_recorded() -> None:
    state = {"scale": "0.0"}
    f = tj.compile(lambda x: x * float(state["scale"]))
    for step in range(200):
        state["scale"] = str(step)
        assert f(tj.ones(1)).item() == step
    assert recordings(f) < 30
    assert any("Python states" in reason for reason in f.reasons)
    before = f.stats.compiled_calls
    for _ in range(1500):
        f(tj.ones(1))
    assert f.stats.compiled_calls > before  # it came to rest and is recorded again


def test_lazy_initialisation() -> None:
    class Lazy:
        w = None

        def __call__(self, x):
            if self.w is None:
                self.w = tj.full((1,), 3.0)
            return x * self.w

    f = tj.compile(Lazy(), strict=True)
    assert [f(tj.ones(1)).item() for _ in range(5)] == [3] * 5
    assert f.stats.compiled_calls == 3


def test_a_counter_runs_eagerly_with_the_reason() -> None:
    counts = []

    def f(x):
        counts.append(1)
        return x * len(counts)

    g = tj.compile(f)
    assert [g(tj.ones(1)).item() for _ in range(50)] == [*range(1, 51)]
    assert recordings(g) < 12
    assert any("changes Python state at every call" in reason for reason in g.reasons)
    strict = tj.compile(f, strict=True)
    strict(tj.ones(1))
    strict(tj.ones(1))
    with pytest.raises(tj.errors.CaptureError, match="changes Python state"):
        strict(tj.ones(1))


def test_changed_modes_and_defaults_run_eagerly() -> None:
    f = tj.compile(lambda x: (tj.set_grad_enabled(False), x * 2)[1])
    try:
        for _ in range(3):
            tj.set_grad_enabled(True)
            f(tj.ones(1))
            assert not tj.is_grad_enabled()
    finally:
        tj.set_grad_enabled(True)


def test_why_it_was_recorded_again(caplog: pytest.LogCaptureFixture) -> None:
    f = tj.compile(lambda x, n: x * n)
    with caplog.at_level(logging.INFO, "tracejit"):
        f(tj.ones(3), 2)
        f(tj.ones(4), 2)
        f(tj.ones(4), 3)
        f(tj.ones(4, requires_grad=True), 3)
        f(tj.nn.Parameter(tj.ones(4)), 3)
    text = str(f.explain())
    for words in (
        "the first call",
        "x: now f32[4], before f32[3]",
        "numbers among the arguments changed, and vary from here on",
        "x: requires_grad now True, before False",
        "x: now a Parameter, before a Tensor",
    ):
        assert words in text
        assert words in caplog.text


def test_signatures_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    import linecache

    monkeypatch.setattr(config, "max_signatures", 16)
    f = tj.compile(lambda x: x * 2 + 1, dynamic=False)
    sizes = []
    for n in range(1, 100):
        for _ in range(2):
            assert f(tj.ones(n)).shape == (n,)
        if n in (40, 99):
            gc.collect()
            sizes.append(sum(name.startswith("<tracejit") for name in linecache.cache))
    assert len(f.entries) == 16
    assert sizes[1] <= sizes[0] + 4


def test_threads_with_different_shapes() -> None:
    def work(x):
        y = x * 2
        return (y if y.sum() > 0 else -y).exp().sum()

    f = tj.compile(work)
    failures = []

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for k in range(60):
            x = tj.tensor(rng.standard_normal(k % 5 + 1), requires_grad=True)
            y = f(x)
            y.backward()
            z = tj.tensor(x.tolist(), dtype=tj.float64, requires_grad=True)
            expected = work(z)
            expected.backward()
            if not (
                np.allclose(y.item(), expected.item())
                and np.allclose(x.grad.tolist(), z.grad.tolist())
            ):
                failures.append((seed, k))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert f.stats.compiled_calls > 100, f.explain()
    assert set(f.reasons) <= {"another thread was recording"}


def test_recursion_and_calls_inside_hooks() -> None:
    @tj.compile
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert [power(tj.tensor(2.0), 5).item() for _ in range(3)] == [32] * 3
    double = tj.compile(lambda g: g * 2)
    square = tj.compile(lambda x: x * x)
    for _ in range(3):
        x = tj.tensor(3.0, requires_grad=True)
        x.register_hook(lambda g: double(g))
        square(x).backward()
        assert x.grad.item() == 12
    assert double.stats.compiled_calls > 0


def test_a_recording_that_raises_leaves_nothing_behind() -> None:
    w, v = tj.ones(2), tj.ones(2) * 2

    def f(x, bad=None):
        if x.sum() > 0:
            y = x * v
            if w.sum() > 5:
                raise KeyError("stop")
            return y + 1
        return x - w

    g = tj.compile(f)
    for _ in range(3):
        assert g(-tj.ones(2)).tolist() == [-2, -2]
    w.fill_(9.0)
    for _ in range(3):
        with pytest.raises(KeyError, match="stop"):
            g(tj.ones(2))
        assert g(-tj.ones(2)).tolist() == [-10, -10]
    w.fill_(1.0)
    for _ in range(3):
        assert g(tj.ones(2)).tolist() == [3, 3]
        assert g(-tj.ones(2)).tolist() == [-2, -2]
    assert not g.reasons


def test_signatures_that_never_come_back() -> None:
    f = tj.compile(lambda x, step: x * int(step))
    for step in range(1000):
        assert f(tj.ones(1), str(step)).item() == step
    assert recordings(f) == 16
    assert any("signatures in a row were new" in reason for reason in f.reasons)
    for _ in range(3):
        for step in range(10):
            assert f(tj.ones(1), str(step)).item() == step
    assert f.stats.compiled_calls >= 20


def test_saved_tensor_hooks_see_every_tensor() -> None:
    packed = []
    f = tj.compile(lambda x: (x * x).exp().sum())
    for _ in range(2):
        f(tj.ones(2, requires_grad=True))
    with tj.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(1), t)[1], lambda t: t):
        x = tj.ones(2, requires_grad=True)
        f(x).backward()
    assert packed
    assert f.stats.compiled_calls == 1


def test_functions_whose_arguments_always_change_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nothing is recorded at first sight, a call costs no search for what is new about it."""
    searched = []
    monkeypatch.setattr(
        "tracejit.jit.why_new", lambda *given: (searched.append(given), "another number")[1]
    )
    f = tj.compile(lambda x, step: x * int(step))
    for step in range(400):
        assert f(tj.ones(1), str(step)).item() == step
    assert len(searched) == f.stats.recordings == 16
    for step in range(300, 400):
        assert f(tj.ones(1), str(step)).item() == step
    assert 64 <= len(searched) == f.stats.recordings < 80
    assert any("64 calls in a row had new signatures" in reason for reason in f.reasons)


def test_caches_that_grow_are_recorded_when_a_length_comes_again() -> None:
    """Where extents may not vary."""
    weight = tj.eye(8)

    def step(x: Any, cache: Any) -> Any:
        kept = tj.cat([cache, x @ weight], 0)
        return ((x @ kept.T).softmax(-1) @ kept).tanh() + 0.1, kept

    f = tj.compile(step, dynamic=False)
    for sequence in range(4):
        x = y = tj.full((1, 8), 0.1 * sequence)
        cache = other = tj.zeros(0, 8)
        before = f.stats.recordings, f.stats.compiled_calls
        for _ in range(40):
            (x, cache), (y, other) = f(x, cache), step(y, other)
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(cache.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
        recorded, compiled = (
            now - then
            for now, then in zip((f.stats.recordings, f.stats.compiled_calls), before, strict=True)
        )
        assert (recorded, compiled) == ((16, 0), (24, 16), (0, 40), (0, 40))[sequence]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("abc", "aa", "now 2 tensors, before 3"),
        ("aa", "abc", "now 3 tensors, before 2"),
        ("ab", "aa", "the same tensor is passed twice in another place"),
        ("aab", "abb", "the same tensor is passed twice in another place"),
    ],
)
def test_one_tensor_passed_twice_is_told_from_another_tensor(
    first: str, second: str, words: str
) -> None:
    """As many parts of a key, one of which says which tensors are one, are no reason to compare it with a tensor."""
    f = tj.compile(lambda *xs: sum(xs))
    for letters in (first, second):
        tensors = {letter: tj.ones(2) for letter in letters}
        f(*[tensors[letter] for letter in letters])
    assert f"recorded: {words}" in str(f.explain())
