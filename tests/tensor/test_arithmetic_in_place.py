"""Arithmetic in place goes through memory once where only memory is concerned, with the bits of the other kind."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.slabs import POOLED

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1.5, -2.0]
OPERATIONS = ["add", "sub", "mul", "div"]
FLOATS = [tj.float32, tj.float64]
SHAPES: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:],
    "columns": lambda x: x[:, 1::2],
    "turned": lambda x: x.t(),
    "flat": lambda x: x.view(-1),
    "element": lambda x: x[0, 0],
    "none": lambda x: x[:0],
}


def data(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if not dtype.is_floating_point:
        return tj.tensor(rng.integers(-100, 100, shape)).to(dtype)
    values = rng.standard_normal(shape)
    values.flat[: len(SPECIAL)] = rng.permutation(SPECIAL)
    return tj.tensor(values).to(dtype)


def check(operation: str, x: Any, other: Any) -> None:
    """``x.add_(other)`` against ``x.add(other)``."""
    before, place = x.data_ptr(), x._version
    expected = getattr(x, operation)(other).numpy().copy()
    assert getattr(x, f"{operation}_")(other) is x
    assert (x.data_ptr(), x._version) == (before, place + 1)
    assert x.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [*FLOATS, tj.float16, tj.bfloat16], ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_floats(operation: str, dtype: Any, shape: str) -> None:
    for other in (2.5, -3, 0.0, 1e20 if dtype in FLOATS else 7.0):
        check(operation, SHAPES[shape](data(dtype, (8, 10), 0)), other)
    check(operation, SHAPES[shape](data(dtype, (8, 10), 0)), SHAPES[shape](data(dtype, (8, 10), 1)))
    check(operation, SHAPES[shape](data(dtype, (8, 10), 0)), tj.tensor(1.25, dtype=dtype))
    x = SHAPES[shape](data(dtype, (8, 10), 0))
    check(operation, x, x)


@pytest.mark.parametrize("dtype", [tj.int64, tj.int32, tj.int8, tj.uint8], ids=str)
@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
def test_integers(operation: str, dtype: Any) -> None:
    for other in (3, -7, data(dtype, (8, 10), 1)):
        if not (isinstance(other, int) and other < 0 and dtype is tj.uint8):
            check(operation, data(dtype, (8, 10), 0), other)
    with pytest.raises(RuntimeError, match="can't be cast"):
        data(dtype, (3,), 0).add_(1.5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        data(dtype, (3,), 0).div_(2)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_large_tensors(operation: str) -> None:
    for other in (1.5, data(tj.float32, (2, POOLED), 1), data(tj.float32, (POOLED,), 2)):
        check(operation, data(tj.float32, (2, POOLED), 0), other)
    x = data(tj.float32, (2 * POOLED,), 0)
    check(operation, x, x)
    check(operation, x[: 2 * POOLED - 3], x[: 2 * POOLED - 3])


def test_nothing_is_made_on_the_way() -> None:
    x, y = tj.ones(1 << 20), tj.ones(1 << 20)
    x.add_(y).mul_(0.5)
    tracemalloc.start()
    try:
        x.add_(y).mul_(0.5).sub_(y)
        x += y
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 16
    assert x.numpy().tolist()[:2] == [1.0, 1.0]


def test_parameters_without_histories() -> None:
    """As a step by hand does: nothing is made on the way, and histories notice the write."""
    rng = np.random.default_rng(0)
    p = tj.nn.Parameter(tj.tensor(rng.standard_normal(1 << 20).astype(np.float32)))
    loss = (p * p).sum()
    loss.backward()
    again = (p * p).sum()
    assert p.grad is not None
    expected = p.detach().numpy() - np.float32(0.1) * p.grad.numpy()
    scaled, version = 0.1 * p.grad, p._version
    with tj.no_grad():
        tracemalloc.start()
        try:
            p -= scaled
            p.mul_(1.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 1 << 16
    assert p._version == version + 2
    assert type(p) is tj.nn.Parameter
    assert p.requires_grad
    np.testing.assert_array_equal(p.detach().numpy(), expected)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        again.backward()


def test_what_compiled_code_made() -> None:
    """Its results are memory without an array until somebody asks for one."""
    double = tj.compile(lambda x: x * 2)
    x = tj.ones(1 << 20)
    double(x)
    found, other = double(x), double(x)
    place = found.data_ptr()
    tracemalloc.start()
    try:
        found.add_(other)
        x.sub_(double(x))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 16
    assert found.data_ptr() == place
    assert (found[0].item(), x[-1].item()) == (4.0, -1.0)


def test_memory_that_is_seen_elsewhere() -> None:
    numbers = np.arange(6.0)
    x, shifted = tj.from_numpy(numbers[:5]), tj.from_numpy(numbers[1:])
    x.add_(shifted)  # two tensors of one array, which no tensor knows
    np.testing.assert_array_equal(numbers, [1, 3, 5, 7, 9, 5])
    whole = tj.arange(6.0)
    with pytest.raises(RuntimeError, match="refer to"):
        whole[1:].add_(whole[:-1])
    windows = tj.arange(5.0).as_strided((3, 3), (1, 1))
    expected = tj.arange(5.0).as_strided((3, 3), (1, 1)) * 2
    windows.mul_(2)
    assert windows[0, 0].item() == expected[0, 0].item()
    with pytest.raises(RuntimeError, match="single memory location"):
        tj.zeros(1).expand(3).add_(tj.ones(3))


def test_what_is_more_than_memory() -> None:
    w = tj.tensor([1.0, 2.0], requires_grad=True)
    x = tj.tensor([3.0, 4.0])
    product = (w * x).sum()
    x.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    x = tj.tensor([3.0, 4.0])
    x.add_(w)
    assert x.requires_grad
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="leaf"):
        w.add_(1.0)
    with tj.no_grad():
        w.sub_(w.grad)
    assert w.tolist() == [0.0, 1.0]
    with tj.inference_mode():
        y = tj.ones(2)
    with pytest.raises(RuntimeError, match="inference tensor"):
        y.add_(1.0)
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = tj.from_numpy(frozen)
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1.0)
