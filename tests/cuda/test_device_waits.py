"""Numbers that Python reads from a device: those that are ready together are fetched after one wait."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import stand_in_arrays

import tracejit as tj

pytestmark = pytest.mark.usefixtures("gpu")


def two_numbers(x: Any) -> Any:
    total, most = x.sum(), x.amax()
    return total.item() + most.item(), x * 2


def two_guards(x: Any) -> Any:
    positive, large = x.sum() > 0, x.amax() > 2
    if positive:
        return x * 2 if large else x * 3
    return x - 1 if large else x + 1


def one_after_the_other(x: Any) -> Any:
    y = x * 2 if x.sum() > 0 else x - 1
    return y + 1 if y.amax() > 2 else y - 1


def a_number_of_the_host(x: Any, y: Any) -> Any:
    total = (x * y).sum()
    return x * 2 if y > 0 and total > 1 else x + 1


def called(function: Callable[..., Any], *given: Any) -> tuple[Any, int]:
    """The result and how often the device was waited for."""
    stand_in_arrays.LOG.clear()
    result = function(*given)
    return result, sum(stand_in_arrays.LOG.count(what) for what in ("item", "get", "synchronize"))


def shown(result: Any) -> Any:
    """Results as numbers and lists."""
    parts = result if isinstance(result, tuple) else (result,)
    return [x.tolist() if isinstance(x, tj.Tensor) else x for x in parts]


@pytest.mark.parametrize(
    ("function", "each", "most"),
    [(two_numbers, 1, 1), (two_guards, 1, 1)],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_is_ready_is_read_at_once(function: Any, each: int, most: int) -> None:
    compiled = tj.compile(function)
    inputs = [tj.tensor(x) for x in ([1.0, 3.0], [0.1, 0.2], [-9.0, 3.0], [-1.0, -2.0])]
    for _ in range(4):
        for x in inputs:
            compiled(x.cuda())
    for x in inputs:
        found, count = called(compiled, x.cuda())
        assert shown(found) == shown(function(x))
        assert count == each
    (waits,) = re.findall(r"waits for the device at (\d+)", str(compiled.explain()))
    assert int(waits) == most


def halved(x: Any) -> Any:
    rounds = 0
    while (x * x).sum() > 1:
        x, rounds = x * 0.5, rounds + 1
    return x + rounds


def by_items(x: Any) -> Any:
    if x.sum().item() > 0:
        x = x * 2
        if x.amax().item() > 3:
            x = x - x.amin().item()
    return x


def drawing(x: Any) -> Any:
    y = x + tj.rand_like(x) if x.sum() > 0 else x - tj.rand_like(x)
    return y * 2 if y.amax() > 1 else y + tj.rand_like(y)


def writing(x: Any) -> Any:
    y = x * 2 if x.sum() > 0 else x - 1
    if y.amax() > 2:
        x.mul_(3.0)
    return y + x


def looking_up(x: Any) -> Any:
    y = x[(x[:1] * 0 + x.numel() - 1).long()] if x.sum() > 0 else x[:1] - 1
    return y * 2 if y.sum() > 1 else y


CHAINS = (one_after_the_other, halved, by_items, drawing, writing, looking_up)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("function", CHAINS, ids=lambda f: f.__name__)
def test_guards_that_come_out_as_before_are_presumed(function: Callable[..., Any]) -> None:
    compiled = tj.compile(function)
    values = [[1.0, 3.0], [0.1, 0.2], [-9.0, 3.0], [-1.0, -2.0], [5.0, 4.0], [0.25, 0.5]]
    order = [i for i in range(6) for _ in range(5)] + [*range(6)] * 3
    for i in order:
        found = []
        for run, device in ((function, "cpu"), (compiled, "cuda")):
            tj.manual_seed(i)
            x = tj.tensor(values[i], device=device)
            found.append([run(x).tolist(), x.tolist(), tj.rand(1).tolist()])
        assert found[0] == found[1], i
    assert compiled.stats.compiled_calls > 30, compiled.explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", CHAINS[:5], ids=lambda f: f.__name__)
def test_presumed_guards_cost_one_wait(function: Callable[..., Any]) -> None:
    compiled = tj.compile(function)
    counts = [called(compiled, tj.tensor([3.0, 1.0]).cuda())[1] for _ in range(6)]
    assert counts[-1] == 1, counts
    assert "as come out as they last did" in str(compiled.explain())


def test_gradients_through_presumed_guards() -> None:
    compiled = tj.compile(one_after_the_other)
    for value in ([1.0, 3.0], [1.0, 3.0], [1.0, 3.0], [0.1, 0.2], [-9.0, 3.0], [1.0, 3.0]):
        grads = []
        for run, device in ((one_after_the_other, "cpu"), (compiled, "cuda")):
            x = tj.tensor(value, device=device, requires_grad=True)
            run(x * 1.5).square().sum().backward()
            grads.append(x.grad.tolist())
        assert grads[0] == grads[1]


def test_numbers_of_the_host_need_no_wait() -> None:
    compiled = tj.compile(a_number_of_the_host)
    for sign in (1.0, 2.0, -1.0, 1.0, 3.0, -2.0):
        x, y = tj.tensor([1.0, 2.0]), tj.tensor(sign)
        assert compiled(x.cuda(), y).cpu().equal(a_number_of_the_host(x, y))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "uint8"])
def test_numbers_of_every_dtype(dtype: str) -> None:
    compiled = tj.compile(two_numbers)
    x = tj.tensor([1, 3, 2], dtype=getattr(tj, dtype))
    for _ in range(4):
        assert shown(compiled(x.cuda())) == shown(two_numbers(x))
    assert "together(" in compiled.source()
