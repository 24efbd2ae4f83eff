"""Products along rows: by columns or by kernels, and what they are is NumPy's, up to rounding."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.row_products import row_product

SHAPES = [(3000, 2), (1000, 7), (300, 16), (300, 17), (100, 129), (3, 1000), (10, 20, 31)]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_numpys(kind, shape):
    x = np.random.default_rng(sum(shape)).uniform(0.9, 1.1, shape).astype(kind)
    x *= np.random.default_rng(1).choice([-1, 1], shape).astype(kind)
    wanted = np.multiply.reduce(x.astype(np.float64), axis=-1)
    tolerance = 4 * shape[-1] * np.finfo(kind).eps
    compiled = tj.compile(lambda x: x.prod(-1))
    for found in (
        tj.tensor(x).prod(-1).numpy(),
        tj.tensor(x).flip(0).prod(-1, keepdim=True).numpy()[::-1, ..., 0],
        tj.tensor(x.swapaxes(0, -1).copy()).transpose(0, -1).prod(-1).numpy(),
        compiled(tj.tensor(x)).numpy(),
        compiled(tj.tensor(x)).numpy(),
    ):
        assert found.dtype == kind
        np.testing.assert_allclose(found, wanted, rtol=tolerance)


@pytest.mark.parametrize("value", [0.0, -0.0, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("width", [5, 33, 100])
def test_special_values(value, width):
    x = np.ones((200, width), np.float32)
    x[np.arange(200), np.arange(200) % width] = value
    x[::3, width // 2] *= -1
    wanted = np.multiply.reduce(x, axis=-1)
    compiled = tj.compile(lambda x: x.prod(-1))
    for _ in range(2):
        for found in (tj.tensor(x).prod(-1).numpy(), compiled(tj.tensor(x)).numpy()):
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_few_are_multiplied_in_order():
    x = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    found = row_product(x, (1,))
    assert found is not None
    np.testing.assert_array_equal(found, np.multiply.reduce(x, axis=1))


def test_what_is_left_to_numpy():
    assert row_product(np.ones((100, 16), np.float32), (1,)) is None
    assert row_product(np.ones((1000, 16), np.float32), (0,)) is None
    assert row_product(np.ones((1000, 16), np.int64), (1,)) is None
    assert row_product(np.ones((16000, 1), np.float32), (0, 1)) is None
    whole = tj.arange(1, 4001).reshape(400, 10)
    assert np.array_equal(whole.prod(1).numpy(), whole.numpy().prod(1))


def test_gradients():
    x = tj.tensor(np.random.default_rng(0).uniform(0.8, 1.2, (100, 40)))
    for function in (lambda x: x.prod(-1).sum(), tj.compile(lambda x: x.prod(-1).sum())):
        leaf = x.clone().requires_grad_()
        function(leaf).backward()
        wanted = x.numpy().prod(-1, keepdims=True) / x.numpy()
        np.testing.assert_allclose(leaf.grad.numpy(), wanted, rtol=1e-10)
