"""Sums over or beside few elements: the bits of NumPy's own, whatever the extents, order in memory and values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.ops import narrow_sums
from tracejit.ops.op import lookup

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -3e38]


def same_bits(have, want):
    assert have.dtype == want.dtype
    assert have.shape == want.shape
    kind = np.uint32 if want.dtype == np.float32 else np.uint64
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(have), nan)
    have, want = (np.where(nan, 0, a).astype(want.dtype).view(kind) for a in (have, want))
    np.testing.assert_array_equal(have, want)


def made(shape, order, dtype, special, seed):
    """Numbers of all magnitudes, whose dimensions lie in memory in ``order``."""
    rng = np.random.default_rng(seed)
    lying = [shape[d] for d in order]
    x = rng.standard_normal(lying) * 10.0 ** rng.integers(-9, 9, lying)
    if special:
        at = rng.random(lying) < 0.3
        x[at] = rng.choice(SPECIAL, int(at.sum()))
    return x.astype(dtype).transpose(np.argsort(order))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_bits_of_the_library(data):
    extents = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40, 300])
    shape = data.draw(
        st.lists(extents, min_size=1, max_size=4).filter(lambda s: np.prod(s) < 400_000)
    )
    order = data.draw(st.permutations(range(len(shape))))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    x = made(shape, order, dtype, data.draw(st.booleans()), data.draw(st.integers(0, 99)))
    x = x[tuple(slice(None, None, data.draw(st.sampled_from([1, 1, 2, -1]))) for _ in shape)]
    for dim, keep in itertools.product(range(len(shape)), (False, True)):
        with np.errstate(all="ignore"):
            want = np.asarray(np.add.reduce(x, axis=dim, keepdims=keep))
            found = lookup("sum").evaluate((x,), {"dims": (dim,), "keepdim": keep})
        same_bits(np.asarray(found), want)


@pytest.mark.parametrize(("shape", "dim"), [((256, 3), 1), ((700, 7), 1), ((40, 30, 2), 1)])
@pytest.mark.parametrize("value", [-0.0, 0.0, np.inf, np.nan])
def test_one_value_everywhere(shape, dim, value):
    x = np.full(shape, value, np.float32)
    found = narrow_sums.narrow_sum(x, dim)
    assert found is not None
    same_bits(found, np.add.reduce(x, axis=dim))


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((255, 3), 1), ((9000, 8), 1), ((40, 30, 17), 1), ((3000, 3), 0), ((9, 600, 3), 1)],
)
def test_others_are_left_to_the_library(shape, dim):
    assert narrow_sums.narrow_sum(np.ones(shape, np.float32), dim) is None
    assert narrow_sums.narrow_sum(np.ones((300, 2), np.int64), 1) is None


def test_pieces_of_large_arrays():
    x = made((280, 500, 3), (0, 1, 2), np.float32, False, 0)
    same_bits(narrow_sums.narrow_sum(x, 1), np.add.reduce(x, axis=1))


def test_gradients_and_compiled_code():
    def attraction(place):
        apart = place.unsqueeze(0) - place.unsqueeze(1)
        pull = 1.0 / ((apart * apart).sum(-1) + 0.5)
        return (apart * pull.unsqueeze(-1)).sum(1)

    place = tj.from_numpy(made((40, 3), (0, 1), np.float64, False, 1) % 3.0).requires_grad_()
    compiled = tj.compile(attraction, strict=True)
    for _ in range(3):
        results = []
        for function in (compiled, attraction):
            place.grad = None
            found = function(place)
            (found * found).sum().backward()
            results.append((found.detach().numpy(), place.grad.numpy()))
        for have, want in zip(*results, strict=True):
            np.testing.assert_allclose(have, want, 1e-9, 1e-9)
