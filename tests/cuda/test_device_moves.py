"""What moves elements on a device, and loops: kernels of the program, none of them a call of an op's own body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_device_compiled import close, moved

import tracejit as tj
from tracejit.runtime.launcher import Loop

pytestmark = pytest.mark.usefixtures("gpu")
F = tj.nn.functional
FLOATS = [tj.float32, tj.float64, tj.float16, tj.bfloat16]


def programs(f: Any) -> list[Any]:
    return [p for entry in f._all() for p in entry.programs()]


def loops(f: Any) -> list[Loop]:
    return [i for p in programs(f) for i in p.plan.items if isinstance(i, Loop)]


def library_calls(f: Any) -> list[str]:
    return [p.host_name(n) for p in programs(f) for n in range(p.plan.hosts)]


def check(
    function: Callable[..., Any],
    *arguments: Any,
    backward: bool = True,
    allowed: set[str] = frozenset(),
) -> Any:
    """Compiled on the device is eager on the host, without calls of ops' bodies; the compiled function."""
    f = tj.compile(function, strict=True)
    results = []
    for device, run in (("cpu", function), ("cuda", f), ("cuda", f)):
        tj.manual_seed(1)
        given = [moved(x, device) for x in arguments]
        out = run(*given)
        leaves = [x for x in given if isinstance(x, tj.Tensor) and x.requires_grad]
        if backward and leaves:
            weights = tj.arange(out.numel(), dtype=out.dtype, device=out.device).reshape(out.shape)
            (out * (weights * 0.1 + 1)).sum().backward()
        results.append([out, *(x.grad for x in leaves if x.grad is not None)])
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            close(a, b)
    assert f.stats.compiled_calls == 1, f.explain()
    assert set(library_calls(f)) <= allowed
    return f


def numbers(*shape: int, dtype: Any = tj.float32, seed: int = 0) -> Any:
    draws = np.random.default_rng(seed).uniform(-2, 2, shape)
    return tj.from_numpy(draws).to(dtype).requires_grad_()


def positions(high: int, *shape: int, low: int = 0, dtype: Any = tj.int64) -> Any:
    return tj.from_numpy(np.random.default_rng(3).integers(low, high, shape)).to(dtype)


MOVES = {
    "cat": lambda x, y: tj.cat([x.exp(), y * 2, x], 1),
    "cat of views": lambda x, y: tj.cat([x.T, y.T[1:3]], 0) * 2,
    "stack": lambda x, y: tj.stack([x, y, x * y]),
    "pad": lambda x, y: F.pad(x * y, (1, 2, 0, 3), value=0.5),
    "negative pad": lambda x, y: F.pad(x, (-1, 2)),
    "roll": lambda x, y: x.roll(2, 1) + y,
    "repeat": lambda x, y: (x + y).repeat(2, 3),
    "tril": lambda x, y: (x @ y.T).tril(),
    "joined products": lambda x, y: tj.cat([x @ y.T, y @ x.T], 1).relu(),
    "flip": lambda x, y: x.flip(0, 1) * y,
    "diagonal": lambda x, y: x.diagonal() + y.sum(0)[:5],
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, dtype: Any) -> None:
    check(MOVES[name], numbers(5, 7, dtype=dtype), numbers(5, 7, dtype=dtype, seed=1))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("width", [1, 3, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 5, 9])
def test_rows_of_a_table(count: int, width: int) -> None:
    index = positions(6, count)
    check(lambda t, i: F.embedding(i, t) * 2, numbers(6, width), index)
    check(lambda t, i: t[i], numbers(6, width), positions(6, count, low=-6))
    check(lambda t, i: t.index_select(1, i).exp(), numbers(3, 6, width), positions(6, count))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gathers(dtype: Any) -> None:
    allowed = (
        {"scatter_add"} if dtype.itemsize == 2 else set()
    )  # sums of halves are rounded one by one
    x = numbers(4, 6, dtype=dtype)
    check(lambda x, i: x.gather(1, i) * 2, x, positions(6, 4, 9), allowed=allowed)
    check(lambda x, i: x.gather(0, i), x, positions(4, 3, 6), allowed=allowed)


SCATTERS = {
    "add rows": lambda x, i, y: x.index_add(0, i, y),
    "copy rows": lambda x, i, y: x.index_copy(0, i, y),
    "assigned rows": lambda x, i, y: _assigned(x, i, y),
    "add columns": lambda x, i, y: x.T.contiguous().index_add(1, i, y.T),
}


def _assigned(x: Any, i: Any, y: Any) -> Any:
    z = x * 1
    z[i] = y
    return z


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("shape", [(9, 1), (9, 5), (3, 300), (700, 2)], ids=str)
def test_scatters(name: str, shape: tuple[int, int]) -> None:
    count = 11 if "add" in name else min(shape[0], 4)
    index = positions(shape[0], count)
    if "add" not in name:
        index = tj.from_numpy(np.random.default_rng(0).permutation(shape[0])[:count])
    check(SCATTERS[name], numbers(*shape), index, numbers(count, shape[1], seed=2))


def test_scatters_at_positions_of_every_element() -> None:
    x, i, y = numbers(4, 6), positions(6, 4, 9), numbers(4, 9, seed=1)
    check(lambda x, i, y: x.scatter_add(1, i, y), x, i, y)
    check(lambda x, i, y: x.scatter_add(0, i, y), x, positions(4, 7, 6), numbers(7, 6, seed=1))
    check(lambda x, i, y: x.scatter_add(0, i, y), numbers(50), positions(50, 90), numbers(90))
    distinct = tj.tensor([[0, 2], [3, 1]])
    check(lambda x, i, y: x.scatter(1, i, y), x, distinct, numbers(2, 2, seed=1))
    check(lambda x, i: x.scatter(1, i, 2.5), x, distinct)


def test_scatters_of_other_dtypes() -> None:
    for dtype in (tj.float64, tj.int32, tj.int64):
        x = tj.arange(12).reshape(6, 2).to(dtype)
        check(lambda x, i, y: x.index_add(0, i, y), x, positions(6, 9), tj.ones(9, 2, dtype=dtype))
    for dtype in (tj.float16, tj.bfloat16, tj.bool, tj.uint8):
        x, y = tj.zeros(6, 2, dtype=dtype), tj.ones(2, 2, dtype=dtype)
        check(lambda x, i, y: x.index_copy(0, i, y), x, tj.tensor([4, 1]), y)


def test_sums_at_one_place_are_in_order() -> None:
    """Not by atomics: the bits are those of the host."""
    x, y = tj.zeros(2, 3), tj.randn(500, 3) * tj.randn(500, 1).exp() * 1e4
    index = positions(2, 500)
    expected = x.index_add(0, index, y)
    f = tj.compile(lambda x, i, y: x.index_add(0, i, y), strict=True)
    for _ in range(2):
        found = f(x.cuda(), index.cuda(), y.cuda())
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["rows", "scatter"])
def test_positions_out_of_range_are_the_error_of_eager_code(name: str) -> None:
    def rows(t: Any, i: Any) -> Any:
        return F.embedding(i, t * 2)

    def scatter(t: Any, i: Any) -> Any:
        return (t * 2).scatter_add(0, i.unsqueeze(-1).expand(-1, 3), t[:2] * 1)

    function = {"rows": rows, "scatter": scatter}[name]
    f = tj.compile(function)
    t = tj.randn(5, 3)
    for i in ([0, 4], [1, 1]):
        close(f(t.cuda(), tj.tensor(i).cuda()), function(t, tj.tensor(i)))
    for i in ([0, 5], [-6, 0], [1 << 40, 0]):
        with pytest.raises((IndexError, RuntimeError)):
            f(t.cuda(), tj.tensor(i).cuda())
    close(f(t.cuda(), tj.tensor([2, 3]).cuda()), function(t, tj.tensor([2, 3])))
    assert f.stats.compiled_calls == 2


def test_a_refused_call_has_written_nothing() -> None:
    @tj.compile
    def step(w: Any, x: Any, i: Any) -> Any:
        loss = F.cross_entropy(x, i)
        w.mul_(0.5)
        w.add_(loss)
        return loss

    w = tj.ones(3).cuda()
    x = tj.zeros(2, 4).cuda()
    for _ in range(2):
        step(w, x, tj.tensor([1, 2]).cuda())
    before = w.tolist()
    with pytest.raises(IndexError):
        step(w, x, tj.tensor([1, 9]).cuda())
    assert w.tolist() == before
    assert step.stats.compiled_calls == 1


def rounds(x: Any, w: Any, count: int) -> Any:
    for _ in range(count):
        x = (x @ w).tanh() + x * 0.5
    return x


def test_a_loop_is_native(library: Any) -> None:
    f = tj.compile(rounds, strict=True)
    x, w = numbers(3, 4), numbers(4, 4, seed=1)
    for _ in range(3):
        results = []
        for device, run in (("cpu", rounds), ("cuda", f)):
            a, b = moved(x, device), moved(w, device)
            out = run(a, b, 30)
            out.square().sum().backward()
            results.append([out, a.grad, b.grad])
        for found, expected in zip(results[1], results[0], strict=True):
            close(found, expected, 1e-4)
    assert f.stats.compiled_calls == 2
    (loop, *_) = loops(f)
    before = len(library.launched) + len(library.products)
    f(moved(x, "cuda"), moved(w, "cuda"), 30)
    assert len(library.launched) + len(library.products) - before >= 60
    assert len(loop.steps) < 10


def test_items_and_results_of_rounds() -> None:
    def scan(xs: Any, h: Any) -> Any:
        found = []
        for x in xs.unbind(0):
            h = (h * 0.9 + x).tanh()
            found.append(h.sum(-1))
        return tj.stack(found)

    f = check(scan, numbers(20, 3, 4), numbers(3, 4, seed=1))
    assert loops(f)


def test_draws_of_rounds() -> None:
    def noisy(x: Any) -> Any:
        for _ in range(16):
            x = F.dropout(x, 0.3) + tj.rand_like(x)
        return x

    check(noisy, numbers(37), backward=False)
