"""Contexts of the driver: threads have none at first, and which device is current is the program's affair."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("gpu")


def in_a_thread(function: Any) -> list[Any]:
    """What a function returns, or raises, in a new thread."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(function())
        except Exception as error:  # noqa: BLE001
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found


def test_compiled_calls_in_a_thread_that_has_no_context(library: Any) -> None:
    function = tj.compile(lambda x: (x * 2).exp() - 1)
    there = [tj.ones(5, device=f"cuda:{index}") for index in (0, 1)]
    for x in there:
        for _ in range(2):
            function(x)
    assert sorted(set(library.owners)) == [0, 1]  # each device has its own kernels
    assert tj.cuda.current_device() == 0  # and loading them does not choose a device
    expected = [function(x).tolist() for x in there]
    for order in (0, 1), (1, 0):
        found = in_a_thread(lambda order=order: [function(there[i]).tolist() for i in order])
        assert found == [[expected[i] for i in order]]
    assert in_a_thread(lambda: (function(there[1]), tj.cuda.current_device())[1]) == [0]
    assert function.stats.eager_calls == 2


def test_draws_in_a_thread_that_has_no_context() -> None:
    tj.manual_seed(5)
    expected = tj.rand(4, device="cuda").tolist()
    tj.manual_seed(5)
    assert in_a_thread(lambda: tj.rand(4, device="cuda").tolist()) == [expected]


def test_kernels_compiled_in_a_thread_that_has_no_context() -> None:
    function = tj.compile(lambda x: x.sin() * 3)
    x = tj.arange(3.0, device="cuda:1")
    (found,) = in_a_thread(lambda: [function(x) for _ in range(2)][1].tolist())
    assert found == pytest.approx((x.cpu().sin() * 3).tolist(), rel=1e-6)
