"""Memory that each worker has for itself: a program planned for few threads is right, and keeps to it, with more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F
from tracejit.runtime import allocator, threads
from tracejit.runtime.launcher import Step, for_workers

ZONE = 1 << 14
CANARY = 0xA5


class Guarded:
    """Memory with bytes around it that nobody may write to."""

    def __init__(self) -> None:
        self.whole: list[tuple[np.ndarray, int, int]] = []

    def new(self, size: int) -> np.ndarray:
        raw = np.full(size + 2 * ZONE + 64, CANARY, np.uint8)
        start = ZONE + -(raw.ctypes.data + ZONE) % 64
        self.whole.append((raw, start, size))
        return np.frombuffer(memoryview(raw.data)[start : start + size], np.uint8)

    def check(self) -> None:
        for raw, start, size in self.whole:
            assert (raw[:start] == CANARY).all()
            assert (raw[start + size :] == CANARY).all()


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    found = Guarded()
    before = tj.get_num_threads()
    allocator.empty_cache()
    monkeypatch.setattr(allocator, "_new", found.new)
    monkeypatch.setattr(threads, "_usual", lambda: 1)
    tj.set_num_threads(1)
    yield found
    tj.set_num_threads(before)


def parts(found: Any) -> list[Any]:
    return [found] if isinstance(found, tj.Tensor) else list(found)


def rows(x: Any) -> Any:
    y = x - x.mean(-1, keepdim=True)
    return y, y.amax(0), (y * y).sum(0), y.abs().amax(-1)


def turned(x: Any) -> Any:
    return (x.t().exp() * x.t().sum(0)).contiguous()


def leading(x: Any) -> Any:
    return x.topk(3, -1)


def logs(x: Any) -> Any:
    return x.exp().log_softmax(-1).logsumexp(0)


def attention(x: Any) -> Any:
    q = x.reshape(-1, 30, 20)
    return (q @ q.mT).softmax(-1) @ q


def convolution(x: Any) -> Any:
    return F.conv2d(x.reshape(10, 3, 20, -1), tj.ones(8, 3, 3, 3), padding=1)


PROGRAMS = [rows, turned, leading, logs, attention, convolution]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_more_threads_than_planned_for_keep_to_the_memory(
    program: Callable[..., Any], guarded: Guarded
) -> None:
    compiled, x = tj.compile(program), tj.randn(600, 300)
    expected = [np.asarray(y) for y in parts(program(x))]
    for number in (1, 1, 6):
        tj.set_num_threads(number)
        for _ in range(20):
            found = [np.asarray(y) for y in parts(compiled(x))]
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, 1e-4, 1e-4)
            guarded.check()
    assert compiled.stats.compiled_calls > 50
    assert guarded.whole


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_steps_say_for_how_many_they_have_memory(
    program: Callable[..., Any], guarded: Guarded
) -> None:
    compiled, x = tj.compile(program), tj.randn(600, 300)
    for _ in range(3):
        compiled(x)
    (plan,) = [p.plan for entry in compiled._all() for p in entry.programs()]
    limits = {step.flags >> 8 << 8 for step in plan.items if isinstance(step, Step)}
    assert for_workers(1) in limits
    assert limits <= {0, for_workers(1)}
