"""Random numbers: reproducible streams, the Philox bits, distributions, and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops import random as source
from tracejit.ops.random import philox_blocks
from tracejit.scalar_math import library as scalar_math


def test_philox_known_answers():
    """The test vectors published with the algorithm."""
    ones = 0xFFFFFFFFFFFFFFFF
    zero = philox_blocks(0, 0, 0, 1)[0]
    full = philox_blocks(ones, ones, ones, 1)[0]
    assert [hex(w) for w in zero] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    assert [hex(w) for w in full] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]


def test_philox_agrees_with_the_kernel_language():
    seed, offset = 0x123456789ABCDEF0, 77
    blocks = philox_blocks(seed, offset, 3, 4)
    word = scalar_math.namespace()["philox_u32"]
    with np.errstate(all="ignore"):
        expected = [
            [
                int(word(np.uint64(seed), np.uint64(offset), np.uint64(3 + i), np.uint32(w)))
                for w in range(4)
            ]
            for i in range(4)
        ]
    assert blocks.tolist() == expected


@pytest.mark.parametrize("op", ["random_uniform", "random_normal", "random_bits"])
@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16, tj.float32, tj.float64])
def test_scalar_expression_gives_the_same_bits(op: str, dtype: tj.dtype):
    entry = getattr(source, op)
    attributes = {} if op == "random_bits" else {"dtype": dtype}
    key = tj.tensor([12345, 6])
    drawn = entry(key, index=2, shape=(6,), **attributes)
    names = scalar_math.namespace() | {"seed": np.uint64(12345), "offset": np.uint64(8)}
    expression = entry.scalars[drawn.dtype.short]
    with np.errstate(all="ignore"):
        values = [eval(expression, names, {"i": np.uint64(i)}) for i in range(6)]
    assert np.array(values).astype(drawn.dtype.np).tolist() == drawn.tolist()


def test_chunks_of_blocks_continue_each_other():
    whole = philox_blocks(5, 1, 0, 40_000)
    assert (philox_blocks(5, 1, 39_000, 1000) == whole[39_000:]).all()


def test_a_seed_repeats_the_stream():
    first = [tj.manual_seed(3), tj.rand(4), tj.randn(3)][1:]
    tj.manual_seed(3)
    assert tj.equal(first[0], tj.rand(4))
    assert tj.equal(first[1], tj.randn(3))
    assert not tj.equal(first[0], tj.rand(4))


def test_a_prefix_does_not_depend_on_the_size():
    tj.manual_seed(1)
    short = tj.rand(10)
    tj.manual_seed(1)
    assert tj.equal(short, tj.rand(5, 4).reshape(-1)[:10])


def test_generator_state_is_a_point_of_the_stream():
    g = tj.Generator().manual_seed(9)
    tj.rand(2, generator=g)
    state = g.get_state()
    expected = tj.randn(3, generator=g)
    assert tj.equal(tj.randn(3, generator=tj.Generator().set_state(state)), expected)


def test_rebased_key_continues_the_stream():
    g = tj.Generator().manual_seed(9)
    g.skip(4)
    key = g.rebase()
    later = source.random_uniform(key, index=1, shape=(5,), dtype=tj.float32)
    g.skip(1)
    assert tj.equal(later, tj.rand(5, generator=g))


def test_negative_and_large_seeds():
    assert tj.Generator().manual_seed(-1).initial_seed() == (1 << 64) - 1
    with pytest.raises(RuntimeError, match="64 bits"):
        tj.manual_seed(1 << 64)


@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16, tj.float32, tj.float64])
def test_uniform_moments_and_range(dtype: tj.dtype):
    x = tj.rand(20_000, dtype=dtype)
    assert x.dtype is dtype
    wide = x.double()
    assert float(wide.min()) >= 0
    assert float(wide.max()) < 1
    assert abs(float(wide.mean()) - 0.5) < 0.01
    assert abs(float(wide.var()) - 1 / 12) < 0.005


@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16, tj.float32, tj.float64])
def test_normal_moments(dtype: tj.dtype):
    x = tj.randn(20_000, dtype=dtype).double()
    assert abs(float(x.mean())) < 0.03
    assert abs(float(x.std()) - 1) < 0.02
    assert abs(float((x**4).mean()) - 3) < 0.25
    assert bool(x.isfinite().all())


def test_integers_cover_their_range_evenly():
    x = tj.randint(-2, 3, (10_000,))
    counts = [int((x == v).sum()) for v in range(-2, 3)]
    assert sum(counts) == 10_000
    assert all(1800 < n < 2200 for n in counts)
    assert tj.randint(5, (3,), dtype=tj.uint8).dtype is tj.uint8


def test_permutation():
    assert sorted(tj.randperm(100).tolist()) == list(range(100))
    assert tj.randperm(0).shape == (0,)


def test_bernoulli_and_multinomial():
    assert abs(float(tj.bernoulli(tj.full((10_000,), 0.3)).mean()) - 0.3) < 0.02
    weights = tj.tensor([1.0, 0.0, 3.0])
    x = tj.multinomial(weights, 10_000, replacement=True)
    assert int((x == 1).sum()) == 0
    assert abs(float((x == 2).double().mean()) - 0.75) < 0.02
    once = tj.multinomial(tj.ones(4, 6), 6)
    assert once.sort(1).values.tolist() == [list(range(6))] * 4


def test_dropout_scales_what_it_keeps():
    x = tj.ones(10_000, requires_grad=True)
    y = tj.dropout(x, 0.25)
    kept = y != 0
    assert abs(float(kept.double().mean()) - 0.75) < 0.02
    assert tj.allclose(y[kept], tj.tensor(1 / 0.75))
    y.sum().backward()
    assert tj.equal(x.grad, y.detach())
    assert tj.dropout(x, 0.5, training=False) is x
    assert float(tj.dropout(x, 1.0).sum()) == 0


def test_fills():
    x = tj.empty(10_000)
    assert abs(float(x.uniform_(2, 4).mean()) - 3) < 0.05
    assert abs(float(x.normal_(1, 2).std()) - 2) < 0.1
    assert abs(float(x.exponential_(2.0).mean()) - 0.5) < 0.02
    assert set(x.bernoulli_(0.5).tolist()) == {0.0, 1.0}
    assert float(x.random_(3).max()) == 2
    assert abs(float(x.log_normal_(0, 1).log().mean())) < 0.05
    assert math.isclose(float(tj.normal(tj.full((3,), 7.0), 0.0).sum()), 21.0)


def test_dropout_of_channels_drops_whole_channels():
    y = tj.dropout2d(tj.ones(8, 16, 3, 3), 0.5)
    sums = y.sum((2, 3))
    assert set(sums.reshape(-1).tolist()) == {0.0, 18.0}


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: tj.rand(2, dtype=tj.int64), RuntimeError, "not implemented for 'Long'"),
        (lambda: tj.rand(-1), RuntimeError, "negative dimension"),
        (lambda: tj.randint(3, 3, (2,)), RuntimeError, "less than 'to'"),
        (lambda: tj.dropout(tj.ones(1), 1.5), ValueError, "between 0 and 1"),
        (lambda: tj.bernoulli(tj.ones(1), 2.0), RuntimeError, r"p to be in \[0, 1\]"),
        (lambda: tj.multinomial(tj.ones(2), 3), RuntimeError, "without replacement"),
        (lambda: tj.normal(tj.zeros(1), -1.0), RuntimeError, "std >= 0"),
        (lambda: tj.empty(1).exponential_(0.0), RuntimeError, "lambda > 0"),
        (lambda: tj.empty(1).uniform_(2, 1), RuntimeError, "from"),
    ],
)
def test_bad_input(call, error, match):
    with pytest.raises(error, match=match):
        call()
