"""Subnormal numbers: kept, or counted as zero where a thread asks for that, in its kernels on all threads too."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import tracejit as tj
from compiled_tools import ready

COUNT = 1 << 20  # enough for several threads to take part
SMALL = tj.full((COUNT,), 1e-40)


@pytest.fixture
def flushing() -> Iterator[None]:
    if not tj.set_flush_denormal(True):
        pytest.skip("this CPU cannot count subnormal numbers as zero")
    try:
        yield
    finally:
        assert tj.set_flush_denormal(False)


def halves(x):
    return x * 0.5 + x


def nonzero_halves(f: object, x: tj.Tensor) -> int:
    return int(tj.count_nonzero(f(x)))  # type: ignore[operator]


def test_they_are_kept() -> None:
    x = SMALL
    f = ready(halves, x)
    assert nonzero_halves(halves, x) == nonzero_halves(f, x) == COUNT


@pytest.mark.parametrize("threads", [1, 4])
def test_they_are_zero_in_every_chunk(threads: int, flushing: None) -> None:
    before = tj.get_num_threads()
    tj.set_num_threads(threads)
    try:
        x = SMALL
        f = ready(halves, x)
        for _ in range(20):  # who gets which chunk differs from run to run
            assert nonzero_halves(f, x) == nonzero_halves(halves, x) == 0
        assert tj.set_flush_denormal(False)
        for _ in range(20):
            assert nonzero_halves(f, x) == COUNT
    finally:
        tj.set_num_threads(before)
        tj.set_flush_denormal(True)


def test_it_is_a_matter_of_the_thread(flushing: None) -> None:
    x = SMALL
    f = ready(halves, x)
    found: list[int] = []

    def other() -> None:
        tj.set_flush_denormal(False)
        found.extend(nonzero_halves(f, x) for _ in range(5))

    thread = threading.Thread(target=other)
    thread.start()
    while thread.is_alive():
        assert nonzero_halves(f, x) == 0
    thread.join()
    assert found == [COUNT] * 5


def test_inside_a_compiled_function_it_is_done_at_every_call(flushing: None) -> None:
    @tj.compile
    def f(x: tj.Tensor, mode: bool) -> tj.Tensor:
        tj.set_flush_denormal(mode)
        return x * 0.5

    x = SMALL[:4]
    for mode in (True, False, True, True, False):
        assert bool(f(x, mode).any()) is not mode
    assert "set_flush_denormal" in str(f.explain())
