"""Eager draws of many numbers, or many draws of few: made by a kernel, the same bits as the op's own body."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import tracejit as tj
from tracejit.runtime.eager import draws

KINDS = {
    "uniform": lambda size, dtype: tj.rand(size, dtype=dtype),
    "normal": lambda size, dtype: tj.randn(size, dtype=dtype),
}
DTYPES = (tj.float32, tj.float64, tj.float16, tj.bfloat16)
#: Around the number of words in a block, and around the ranges threads take.
SIZES = ((), 1, 2, 3, 4, 5, 7, 8, 64, 65, 66, 67, 68, 1023, 4096, 16387, (3, 50, 41), (2, 0))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing was drawn before."""
    monkeypatch.setattr(draws, "_drawn", {})
    before = tj.get_rng_state()
    yield
    tj.set_rng_state(before)


def eager_and_by_kernel(
    monkeypatch: pytest.MonkeyPatch, draw: object, seed: int
) -> list[tj.Tensor]:
    """The same draw by the op's body, and by a kernel."""
    found = []
    for patience in (1 << 62, 0):
        monkeypatch.setattr(draws, "PATIENCE", patience)
        tj.manual_seed(seed)
        found.append(draw())  # type: ignore[operator]
    return found


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_draw_the_same_bits(
    kind: str, dtype: tj.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, size in enumerate(SIZES):
        body, kernel = eager_and_by_kernel(
            monkeypatch, lambda size=size: KINDS[kind](size, dtype), 2**40 + number
        )
        assert kernel.dtype is dtype
        assert kernel.shape == body.shape
        assert tj.equal(body, kernel)
    assert (f"random_{kind}", dtype.short) in draws._tables


def test_integers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    body, kernel = eager_and_by_kernel(monkeypatch, lambda: tj.randint(-5, 1000, (1001,)), 3)
    assert tj.equal(body, kernel)


def test_little_is_drawn_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(draws, "_on_host", lambda *_: asked.append(1))
    for _ in range(100):
        tj.randn(1000)
    assert not asked  # a hundred thousand elements are worth no compiler
    tj.randn(draws.PATIENCE)
    assert asked


def test_many_calls_are_worth_a_kernel_however_little_they_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(draws, "_on_host", lambda *_: asked.append(1))
    calls = draws.PATIENCE // draws.EACH_CALL
    for _ in range(calls - 2):
        tj.randn(1)
    assert not asked
    for _ in range(3):
        tj.randn(1)
    assert asked


def test_every_thread_count_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "PATIENCE", 0)
    before, found = tj.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            tj.set_num_threads(count)
            tj.manual_seed(11)
            found.append(tj.randn(100_003))
    finally:
        tj.set_num_threads(before)
    assert tj.equal(found[0], found[1])
    assert tj.equal(found[0], found[2])


def test_threads_may_draw_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "PATIENCE", 0)
    generators = [tj.Generator().manual_seed(n) for n in range(4)]
    expected = [tj.randn(5000, generator=tj.Generator().manual_seed(n)) for n in range(4)]
    found: dict[int, tj.Tensor] = {}

    def work(n: int) -> None:
        found[n] = tj.randn(5000, generator=generators[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(tj.equal(found[n], expected[n]) for n in range(4))


def test_empty_and_single_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "PATIENCE", 0)
    assert tj.randn(0, 5).shape == (0, 5)
    assert tj.rand(()).shape == ()
