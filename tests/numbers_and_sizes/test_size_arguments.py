"""Ints among the arguments that index, or bound slices: one recording serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

X = tj.from_numpy(np.random.default_rng(0).standard_normal((20, 30)).astype("f"))


def served(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], recordings: int) -> Any:
    """Every call agrees with eager execution, and so many are recorded."""
    f = tj.compile(function, verify=True)
    for args in calls:
        f(*args)
    assert f.stats.recordings <= recordings, f.explain()
    assert f.stats.calls == len(calls)
    return f


def varied(*numbers: int, count: int = 24) -> list[tuple[Any, ...]]:
    """Calls with numbers in 0 .. n - 1, every pair of them in some call."""
    draw = np.random.default_rng(1).integers
    return [(X, *(int(draw(0, n)) for n in numbers)) for _ in range(count)]


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "an index": (lambda x, i: x[i] * 2, (20,)),
    "the end of a slice": (lambda x, n: x[:n].sum(0), (20,)),
    "the beginning of a slice": (lambda x, n: x[:, n:].sum(), (30,)),
    "a window": (lambda x, n: x[n : n + 4].mean(0), (16,)),
    "from behind": (lambda x, n: x[-n - 1] + x[:, -n - 2 :].sum(), (19,)),
    "select and narrow": (lambda x, n: x.select(0, n) + x.narrow(0, n, 3).sum(0), (17,)),
    "the size of a result": (lambda x, n: tj.zeros(n, 30) + x[0], (20,)),
    "a number in arithmetic too": (lambda x, n: x[n] * n + n / 3 - 2**n, (20,)),
    "padding": (lambda x, n: nn.functional.pad(x, (n, 0)).sum(0), (9,)),
    "how many to take": (lambda x, n: x.topk(n + 1, 1).values.sum(1), (20,)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", FUNCTIONS)
def test_one_recording_serves_all(what: str) -> None:
    function, numbers = FUNCTIONS[what]
    served(function, varied(*numbers), recordings=4)


def test_two_of_them_and_what_is_between() -> None:
    def between(x: Any, i: int, j: int) -> Any:
        return x[i:j].sum() if j > i else x[j : i + 1].mean()

    served(between, varied(20, 20, count=40), recordings=7)


def test_other_numbers_vary_beside_them() -> None:
    def scaled(x: Any, i: int, rate: float, step: int) -> Any:
        return x[i] * rate / (1 - 0.9 ** (step + 1))

    calls = [(X, k % 20, 0.1 / (k + 1), k) for k in range(30)]
    served(scaled, calls, recordings=3)


def test_negative_ones_are_constants() -> None:
    f = served(lambda x, i: x[i] + 1, [(X, i) for i in (0, 1, 2, 3, -1, -2, -1, -2, 7)], 5)
    assert f.stats.compiled_calls >= 4


@pytest.mark.parametrize("index", [20, 33, -21])
def test_those_out_of_range_are_eager_errors(index: int) -> None:
    f = tj.compile(lambda x, i: x[i] * 2)
    for i in range(5):
        f(X, i)
    with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
        f(X, index)
    assert tj.equal(f(X, 7), X[7] * 2)


def test_they_are_ints_again_outside() -> None:
    f = tj.compile(lambda x, i: (x[i], i, [i + 1, {"at": i * 2}]))
    for i in range(6):
        _, same, (after, found) = f(X, i)
        assert (type(same), type(after), type(found["at"])) == (int, int, int)
        assert (same, after, found) == (i, i + 1, {"at": 2 * i})


def test_divisions_and_powers_are_those_of_ints() -> None:
    def many(x: Any, n: int) -> Any:
        return x[n] * (divmod(7, n + 1)[1] + divmod(n, 3)[0] + pow(n, 2, 5)) + 100 // (n + 1)

    f = tj.compile(many)
    for n in (*range(12), 3, 5):
        assert tj.equal(f(X, n), many(X, n))


def test_gradients() -> None:
    weight = tj.randn(30, requires_grad=True)
    f = tj.compile(lambda x, i: (x[i] * weight).sum() * weight[i])
    for i in range(12):
        found, expected = (
            tj.autograd.grad(function(X, i), weight)[0]
            for function in (f, lambda x, i: (x[i] * weight).sum() * weight[i])
        )
        assert tj.allclose(found, expected, atol=1e-5)
    assert f.stats.recordings <= 3


class Cached(nn.Module):
    """Attention that keeps keys and values, and is told the position."""

    def __init__(self, width: int = 16, heads: int = 2, longest: int = 40) -> None:
        super().__init__()
        self.heads = heads
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("keys", tj.zeros(1, heads, longest, width // heads))
        self.register_buffer("values", tj.zeros(1, heads, longest, width // heads))

    def forward(self, x: Any, position: int) -> Any:
        count, length, width = x.shape
        split = self.all(x).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        self.keys[:, :, position : position + length] = key
        self.values[:, :, position : position + length] = value
        keys, values = self.keys[:, :, : position + length], self.values[:, :, : position + length]
        y = nn.functional.scaled_dot_product_attention(query, keys, values)
        return self.out(y.transpose(1, 2).reshape(count, length, width))


def generated(model: Any, steps: int) -> Any:
    x, found = tj.full((1, 1, 16), 0.1), []
    with tj.no_grad():
        for position in range(steps):
            x = model(x, position)
            found.append(x)
    return tj.cat(found, 1)


def test_a_cache_of_keys_is_recorded_thrice() -> None:
    tj.manual_seed(0)
    model = Cached()
    expected = generated(model, 40)
    compiled = tj.compile(model)
    assert tj.allclose(generated(compiled, 40), expected, atol=1e-6)
    assert compiled.stats.recordings <= 3
    before = compiled.stats.compiled_calls
    assert tj.allclose(generated(compiled, 40), expected, atol=1e-6)
    assert compiled.stats.compiled_calls == before + 40


def test_what_cannot_be_done_with_sizes_is_done_with_constants() -> None:
    def shown(x: Any, i: int) -> Any:
        return x[i] * len(f"{i}" * i)

    calls = [(X, i % 10) for i in range(60)]
    f = served(shown, calls, recordings=16)
    assert f.stats.compiled_calls >= 40


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [tj.bool, tj.int8, tj.int64, tj.float32])
@pytest.mark.parametrize(
    "fill",
    [
        lambda x, n: x.masked_fill(x == x, n),
        lambda x, n: tj.where(tj.full((3,), n, dtype=tj.bool), x, x == 7),
        lambda x, n: nn.functional.pad(x, (1, 1), value=n),
    ],
    ids=["masked_fill", "where", "pad"],
)
def test_ints_that_fill(fill: Any, dtype: Any) -> None:
    """Zero is False, also where the number is a size."""
    x = tj.tensor([[0, 1, 2], [3, 0, 7]]).to(dtype)
    compiled = tj.compile(fill)
    for n in (1, 2, 3, 0, 4, 0, 2):
        assert compiled(x, n).tolist() == fill(x, n).tolist()
    assert compiled.stats.recordings <= 3
