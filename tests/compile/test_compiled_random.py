"""Random numbers in compiled code: the bits eager draws, inside the kernels that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F


def runs(function: Callable[[], Any], calls: int) -> list[Any]:
    """The results of several calls after seeding, and one eager draw behind them."""
    tj.manual_seed(11)
    results = [function().detach().numpy().copy() for _ in range(calls)]
    return [*results, tj.rand(3).numpy()]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("sampler", ["rand", "randn"])
def test_compiled_draws_are_the_eager_bits(sampler: str, dtype: str) -> None:
    def draw() -> Any:
        return getattr(tj, sampler)(7, 5, dtype=getattr(tj, dtype))

    compiled = tj.compile(draw, strict=True)
    for eager, fused in zip(runs(draw, 3), runs(compiled, 3), strict=True):
        assert eager.dtype == fused.dtype
        assert eager.tobytes() == fused.tobytes()


def test_dropout_is_part_of_the_kernel_that_uses_it() -> None:
    x = tj.tensor(np.linspace(-2, 2, 60, dtype=np.float32).reshape(6, 10))

    def f() -> Any:
        return F.dropout(x * 2.0, 0.4) + 1.0

    compiled = tj.compile(f, strict=True)
    for eager, fused in zip(runs(f, 4), runs(compiled, 4), strict=True):
        np.testing.assert_array_equal(eager, fused)
    assert [len(e.plan.items) for e in compiled_programs(compiled)] == [1]
    assert any("philox_u32" in kernel.source for kernel in compiled.kernels)


def compiled_programs(function: Any) -> list[Any]:
    """The programs of a compiled function."""
    return [p for entries in function.entries.values() for e in entries for p in e.programs()]


def test_dropout_gradients_use_the_same_mask() -> None:
    def f(x: Any) -> Any:
        return F.dropout(x, 0.5).exp()

    compiled = tj.compile(f, strict=True)
    found = []
    for function in (f, compiled, compiled):
        tj.manual_seed(5)
        x = tj.ones(40, requires_grad=True)
        function(x).sum().backward()
        assert x.grad is not None
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[0], found[2], rtol=1e-6)
    assert 0 < (found[0] == 0).sum() < 40


def test_threads_do_not_change_the_draws() -> None:
    from tracejit.runtime.threads import get_num_threads, set_num_threads

    compiled = tj.compile(lambda: tj.randn(200_000), strict=True)
    before = get_num_threads()
    try:
        drawn = []
        for threads in (1, 2):
            set_num_threads(threads)
            drawn.append(runs(compiled, 2)[1])
    finally:
        set_num_threads(before)
    assert drawn[0].tobytes() == drawn[1].tobytes()


def test_draws_written_out_of_order_are_the_eager_ones() -> None:
    """The kernel that draws writes into memory that lies otherwise than the draws are counted."""

    def f(x):
        drawn = tj.rand_like(x) * 1.0
        drawn.transpose(0, -1)[0] = 0.25
        return ((drawn * drawn).sum(-1, keepdim=True) * 0.1 + drawn)[..., :1]

    g = tj.compile(f)
    x = tj.zeros(3, 4)
    for _ in range(3):
        tj.manual_seed(0)
        expected = f(x)
        tj.manual_seed(0)
        np.testing.assert_allclose(g(x).numpy(), expected.numpy(), rtol=1e-6)
    assert g.stats.compiled_calls == 2


class Buffer:
    """Keeps the latest rows, and draws among those that there are."""

    def __init__(self) -> None:
        self.rows, self.rewards = tj.zeros(6, 3), tj.zeros(6)
        self.next, self.full = 0, False

    def add(self, row: Any, reward: float) -> Any:
        self.rows[self.next] = row
        self.rewards[self.next] = reward
        self.next = (self.next + 1) % 6
        self.full = self.full or self.next == 0
        chosen = tj.randint(0, 6 if self.full else self.next, (4,))
        return self.rows[chosen], self.rewards[chosen]


def test_draws_among_the_rows_that_there_are() -> None:
    found = []
    for compiled in (False, True):
        buffer = Buffer()
        add = tj.compile(Buffer.add) if compiled else Buffer.add
        for k in range(30):
            tj.manual_seed(k)
            rows, rewards = add(buffer, tj.randn(3), 0.5 * k)
            found.append((rows.tolist(), rewards.tolist(), buffer.next, buffer.full))
        assert not compiled or add.stats.recordings <= 6
    assert found[:30] == found[30:]


@pytest.mark.parametrize(
    "draw",
    [
        lambda low, high: tj.randint(low, high, (5,)),
        lambda low, high: tj.randint(high, (3, 2), dtype=tj.int32) + low,
        lambda low, high: tj.randint_like(tj.zeros(4), low, high),
        lambda low, high: tj.randint(tj.tensor(low).item(), tj.tensor(high).item(), (4,)),
    ],
)
def test_bounds_of_draws_that_vary(draw: Any) -> None:
    compiled = tj.compile(draw)
    for low, high in [
        (0, 5),
        (1, 6),
        (2, 9),
        (-3, 4),
        (3, 3),
        (-8, -2),
        (7, 2),
        (0, 1),
        (4, 2**40),
    ]:
        seen = []
        for run in (draw, compiled):
            tj.manual_seed(high)
            try:
                seen.append(run(low, high).tolist())
            except RuntimeError as error:
                seen.append(str(error).split("\n")[0])
        assert seen[0] == seen[1]
    for high in (3, 4, 6, 8, 7):
        compiled(2, high)
    before = compiled.stats.compiled_calls
    for high in (11, 13, 12):
        compiled(2, high)
    assert compiled.stats.compiled_calls == before + 3
