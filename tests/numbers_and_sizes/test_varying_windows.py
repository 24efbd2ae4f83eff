"""Windows over images of any size: one recording for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F
from tracejit.trace.entry import Entry
from tracejit.trace.sizes.found_sizes import RecordedExtents, Registry, SizesFound

WINDOWS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 4, "stride": 3, "padding": 2, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
]


def run(f: Any, size: int) -> list[Any]:
    x = tj.arange(2.0 * size * (size + 3)).reshape(1, 2, size, size + 3).sin().requires_grad_()
    y = f(x)
    (y * y).sum().backward()
    return [y.detach().numpy(), x.grad.numpy()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_means_of_windows(options: dict[str, Any]) -> None:
    def pooled(x: Any) -> Any:
        return F.avg_pool2d(x, **options)

    compiled = tj.compile(pooled)
    for size in (8, 9, 10, 11, 12, 13, 15, 14):
        for found, expected in zip(run(compiled, size), run(pooled, size), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    # with ceil_mode the last window may reach over the end, or not
    assert compiled.stats.recordings <= (4 if "ceil_mode" in options else 3), compiled.explain()


def test_the_size_that_is_left_over_behind_strides() -> None:
    """Sizes are polynomials by then: one divides another without a rest."""
    weight = tj.ones(3, 2, 3, 3) / 9

    def lines(x: Any) -> Any:
        y = F.avg_pool2d(F.conv2d(x, weight, stride=2, padding=1), 2)
        return y.repeat(4, 1, 1, 1).view(y.shape[2], y.shape[3], -1) @ tj.ones(12, 2)

    compiled = tj.compile(lines)
    for size in (8, 10, 13, 16, 20):
        for found, expected in zip(run(compiled, size), run(lines, size), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert compiled.stats.recordings == 3, compiled.explain()


def test_what_is_planned_for_sizes_that_are_like_others_holds_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Halved as often they are cut the same way: no second plan is made for the call that the first one is for."""
    again: list[int] = []
    planned_for = Entry.planned_for

    def counting(entry: Entry, told: dict[int, int], number: int) -> Any:
        again.append(number)
        return planned_for(entry, told, number)

    monkeypatch.setattr(Entry, "planned_for", counting)
    weights = [tj.ones(4, 3, 3, 3) / 27, tj.ones(8, 4, 3, 3) / 36, tj.ones(8, 8, 3, 3) / 72]

    def layers(x: Any) -> Any:
        for weight in weights:
            x = F.relu(F.conv2d(x, weight, stride=2, padding=1))
        return F.max_pool2d(x, 2).mean((2, 3))

    compiled = tj.compile(layers)
    for n, size in ((4, 64), (6, 64), (3, 80), (3, 80), (5, 96), (4, 64)):
        x = tj.arange(3.0 * n * size * size).reshape(n, 3, size, size).sin().requires_grad_()
        found, expected = compiled(x), layers(x)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5)
        gradients = [tj.autograd.grad(y.sum(), x)[0].numpy() for y in (found, expected)]
        np.testing.assert_allclose(*gradients, rtol=1e-5, atol=1e-7)
    assert (again, compiled.stats.recordings) == ([], 3), compiled.explain()


def test_sizes_that_a_plan_was_made_for_in_vain_are_planned_for_as_they_are() -> None:
    sizes = SizesFound(RecordedExtents(Registry(), lambda why: None), {}, {0: 3, 1: 20})
    first = sizes.like({}, 0, {3, 20})
    assert first != sizes.values
    assert sizes.like({0: 3, 1: 20}, 0, {3, 20}) == sizes.values
    assert sizes.like({0: 3, 1: 24}, 0, {3, 24}) != {0: 3, 1: 24}
    assert sizes.like({0: 8, 1: 64}, 0, {3, 20}, True) == {0: 8, 1: 64}
