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


@pytest.mark.sampled(3)
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
