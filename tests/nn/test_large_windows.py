"""Pooling over windows of many elements: along one dimension after the other, or in one reduction of all there is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime.plan.records import HostCall

F = tj.nn.functional
#: Sizes, and options of pooling: kernel, stride, padding, dilation, ceil_mode.
CASES = [
    ((12, 13), (9, 9, 1, 4)),
    ((20, 21), (13, 13, 1, 6)),
    ((28, 28), (14, 14, 14, 0)),
    ((19, 23), (10, 8, 3, (4, 0))),
    ((25, 25), (9, 9, (2, 3), 3, (1, 2))),
    ((23, 23), (9, 9, 4, 0, 1, True)),
    ((12, 12), (12, 12, 12, 0)),
    ((160, 2), ((70, 1), 12, 0, (2, 1))),
    ((99, 1), ((96, 1), 1, (0, 0), 1, True)),
    ((5, 300), ((2, 130), (1, 7), 0)),
    ((9, 30), ((3, 25), 2, (1, 9))),
]
THREE = ((6, 7, 8), ((5, 4, 5), 2, (2, 1, 0)))


def options(given: tuple[Any, ...]) -> dict[str, Any]:
    if len(given) > 2 and isinstance(given[0], int):
        given = ((given[0], given[1]), *given[2:])
    return dict(
        zip(("kernel_size", "stride", "padding", "dilation", "ceil_mode"), given, strict=False)
    )


def numbers(shape: tuple[int, ...], seed: int, special: bool) -> np.ndarray:
    """Few different ones, so that there are ties; with NaN and infinities among them if they are to be special."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, shape).astype(np.float32)
    if special:
        x.reshape(-1)[rng.integers(0, x.size, 9)] = [
            np.nan,
            -np.inf,
            np.nan,
            np.inf,
            -0.0,
            0.0,
            *[np.nan] * 3,
        ]
        x[0, 0] = -np.inf
    return x


def scanned(x: np.ndarray, found: Any, **given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values and positions of pooling with results like ``found``, element by element."""
    rank = x.ndim - 2
    each = {k: v if isinstance(v, tuple) else (v,) * rank for k, v in given.items()}
    kernel, stride, padding = each["kernel_size"], each["stride"], each["padding"]
    dilation = each.get("dilation", (1,) * rank)
    values, positions = np.empty(found.shape, x.dtype), np.empty(found.shape, np.int64)
    size = x.shape[2:]
    for index in np.ndindex(*found.shape):
        best, where = -np.inf, -1
        for tap in itertools.product(*map(range, kernel)):
            parts = zip(index[2:], tap, stride, padding, dilation, strict=True)
            place = tuple(i * s - p + t * d for i, t, s, p, d in parts)
            if not all(0 <= at < n for at, n in zip(place, size, strict=True)):
                continue
            number = x[(*index[:2], *place)]
            if where < 0 or number > best or np.isnan(number):
                best, where = number, int(np.ravel_multi_index(place, size))
        values[index], positions[index] = best, where
    return values, positions


def hosts(compiled: Any) -> int:
    """Library calls of the programs of a compiled function, and of its backward passes."""
    found = 0
    for entries in compiled.entries.values():
        for entry in entries:
            for program in entry.programs():
                found += sum(isinstance(item, HostCall) for item in program.plan.items)
    return found


def pool(x: Any) -> Any:
    return F.max_pool3d if x.ndim == 5 else F.max_pool2d


@pytest.mark.sampled(12)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("size", "given"), [*CASES, THREE])
def test_maxima_are_those_of_a_scan(size: Any, given: Any, special: bool) -> None:
    x = numbers((2, 3, *size), 1, special)
    chosen = options(given)
    found, where = pool(x)(tj.tensor(x), **chosen, return_indices=True)
    chosen.pop("ceil_mode", None)
    values, positions = scanned(x, found, **chosen)
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(where, positions)
    np.testing.assert_array_equal(pool(x)(tj.tensor(x), **options(given)), values)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("size", "given"), [*CASES, THREE])
def test_gradients_go_to_the_largest_elements(size: Any, given: Any, special: bool) -> None:
    array, chosen = numbers((2, 3, *size), 2, special), options(given)
    x = tj.tensor(array).requires_grad_()
    found, where = pool(x)(x, **chosen, return_indices=True)
    weights = tj.tensor(np.random.default_rng(3).integers(-9, 10, found.shape).astype(np.float32))
    expected = tj.zeros(2, 3, x[0, 0].numel()).scatter_add(2, where.flatten(2), weights.flatten(2))
    compiled = tj.compile(lambda x: pool(x)(x, **chosen))
    for function in (compiled.function, compiled, compiled):
        x.grad = None
        function(x).backward(weights)
        np.testing.assert_array_equal(x.grad, expected.reshape(x.shape))
    assert compiled.stats.compiled_calls == 1
    assert hosts(compiled) == 0


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("size", "given"), [c for c in CASES if len(options(c[1])) == 3])
def test_means_are_sums_along_each_dimension(size: Any, given: Any) -> None:
    chosen = options(given)
    x = tj.randn(2, 3, *size).requires_grad_()
    compiled = tj.compile(lambda x: F.avg_pool2d(x, **chosen))
    wide = x.detach().double().requires_grad_()
    expected = F.unfold(wide, **chosen).reshape(2, 3, -1, compiled(x)[0, 0].numel()).mean(2)
    expected.backward(tj.ones_like(expected))
    for function in (compiled.function, compiled):
        x.grad = None
        found = function(x)
        found.backward(tj.ones_like(found))
        np.testing.assert_allclose(found.detach().flatten(2), expected.detach(), 1e-5, 1e-6)
        np.testing.assert_allclose(x.grad, wide.grad, 1e-5, 1e-6)
    assert hosts(compiled) == 0


@pytest.mark.parametrize("size", [(28, 28), (30, 40)])
def test_the_largest_of_all_is_one_reduction(size: Any) -> None:
    x = tj.randn(3, 5, *size).requires_grad_()
    for function in (lambda x: F.max_pool2d(x, size), lambda x: F.adaptive_max_pool2d(x, 1)):
        compiled = tj.compile(function)
        for _ in range(3):
            x.grad = None
            found = compiled(x)
            found.sum().backward()
        assert found.flatten().tolist() == x.amax((2, 3)).flatten().tolist()
        assert (x.grad != 0).sum((2, 3)).eq(1).all()
        assert hosts(compiled) == 0


def test_adaptive_pooling_of_equal_runs_copies_nothing() -> None:
    compiled = tj.compile(lambda x: F.adaptive_max_pool2d(x, (2, 3)))
    x = tj.randn(2, 3, 40, 30)
    for _ in range(2):
        found = compiled(x)
    assert found.equal(x.unflatten(3, (3, 10)).unflatten(2, (2, 20)).amax((3, 5)))
    assert "mix_along" not in str(compiled.graphs[0])
