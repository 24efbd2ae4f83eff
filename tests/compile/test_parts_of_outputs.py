"""Several outputs of one compiled call: memory of their own, and backward passes that read what each alone needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_result_equal_to_what_is_written_back_has_its_own_memory(width: int):
    def scaled(x: tj.Tensor) -> tj.Tensor:
        x[..., ::2].mul_(0.5)
        y = x * 1.0
        y[..., :1] = y[..., -1:]
        return y

    def halved(x: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        x.mul_(0.5)
        return x.clone(), (x * 1.0).T

    for function in (scaled, halved):
        compiled: Callable[[Any], Any] = tj.compile(function)
        for _ in range(3):
            results = []
            for call in (function, compiled):
                x = tj.arange(4.0 * width).reshape(4, width)
                found = call(x)
                found = found if isinstance(found, tuple) else (found,)
                for y in found:
                    y.add_(1.0)
                results.append([x, *found])
            for expected, y in zip(*results, strict=True):
                np.testing.assert_array_equal(y.numpy(), expected.numpy())
                assert y._version == expected._version


def test_a_pass_from_one_output_checks_what_that_one_keeps():
    """The input is changed between the two layers: the first can no longer be differentiated, the second can."""
    one, two = tj.randn(3, 3, requires_grad=True), tj.randn(3, 3, requires_grad=True)

    def layers(x: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        before = x @ one
        x.relu_()
        return before, x @ two

    compiled = tj.compile(layers)
    data = tj.randn(4, 3)
    for _ in range(3):
        gradients = []
        for call in (layers, compiled):
            before, after = call(data.clone())
            two.grad = None
            after.sum().backward(retain_graph=True)
            assert one.grad is None
            gradients.append(two.grad.numpy())
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                before.sum().backward()
        np.testing.assert_allclose(gradients[1], gradients[0], 1e-6)
    assert compiled.stats.compiled_calls == 2


def test_views_of_a_result_share_memory_where_another_result_is_equal():
    def twice(x: tj.Tensor) -> tuple[tj.Tensor, ...]:
        one, other = x.amax(-1, keepdim=True), x.amax(-1, keepdim=True)
        return one, other.detach(), other.reshape(-1), one[0]

    compiled = tj.compile(twice)
    for _ in range(3):
        for call in (twice, compiled):
            one, other, flat, first = call(tj.randn(2, 3))
            other.add_(1.0)
            first.sub_(1.0)
            np.testing.assert_array_equal(flat.numpy(), other.numpy().ravel())
            assert one[0].item() == first.item()
            np.testing.assert_allclose((other - one).numpy().ravel(), [2.0, 1.0], 1e-6)
