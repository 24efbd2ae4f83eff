"""Numbers that tensors do not hold are errors, and not other numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from each_way import assert_each, assert_each_raises
from tracejit.nn import functional as F

INTS, FLOATS, BOOLS = tj.tensor([1]), tj.tensor([1.0]), tj.tensor([True])

BEYOND_64_BITS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x + 2**64,
    "reflected": lambda x: 2**64 * x,
    "difference": lambda x: x - (2**63 + 1) * 2,
    "quotient": lambda x: x / 2**64,
    "comparison": lambda x: x < 2**64,
    "power": lambda x: x**2**64,
    "below": lambda x: x + (-(2**63) - 1),
    "full_like": lambda x: tj.full_like(x, 2**64),
    "full": lambda x: tj.full((2,), 2**64, dtype=x.dtype),
    "fill_": lambda x: x.fill_(2**64),
    "in place": lambda x: x.add_(2**64),
    "where": lambda x: tj.where(x > 0, x, 2**64),
}


@pytest.mark.parametrize("name", BEYOND_64_BITS)
@pytest.mark.parametrize("x", [INTS, FLOATS, INTS.to(tj.int8)], ids=["ints", "floats", "bytes"])
def test_integers_beyond_64_bits(name: str, x: Any) -> None:
    assert_each_raises(OverflowError, "int too big to convert", BEYOND_64_BITS[name], x)


def test_integers_that_uint64_holds() -> None:
    assert_each([-(2**63) + 1], lambda x: x + 2**63, INTS)
    assert_each([9.223372036854776e18], lambda x: x + 2**63, FLOATS)
    assert_each([2**63 - 1], lambda x: x * (2**63 - 1), BOOLS)
    assert_each_raises(RuntimeError, "without overflow", lambda x: x + 2**63, BOOLS)


def written(x: Any) -> None:
    x[0] = 2**63


def test_writing_one_element() -> None:
    assert_each_raises(ValueError, "Overflow when unpacking", written, FLOATS)


REFUSED: dict[str, Callable[[], Any]] = {
    "int8 power": lambda: INTS.to(tj.int8) ** 128,
    "uint8 power": lambda: INTS.to(tj.uint8) ** 256,
    "int64 power": lambda: INTS**2**63,
    "bool power": lambda: BOOLS**2**63,
    "half power": lambda: FLOATS.half() ** 70000.0,
    "brain float power": lambda: FLOATS.bfloat16() ** 1e40,
    "power in place": lambda: FLOATS.half().pow_(70000.0),
    "where": lambda: tj.where(BOOLS, INTS.to(tj.int8), 300),
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_beyond_the_dtype(name: str) -> None:
    assert_each_raises(RuntimeError, "without overflow", REFUSED[name])


def test_numbers_that_are_held() -> None:
    assert (FLOATS**1e40).tolist() == [1.0]
    assert (INTS.to(tj.int8) ** 127).tolist() == [1]
    assert (FLOATS.half() ** float("inf")).tolist() == [1.0]
    assert tj.where(BOOLS, float("-inf"), FLOATS).tolist() == [float("-inf")]
    assert tj.where(BOOLS, 1e40, FLOATS.double()).tolist() == [1e40]
    assert tj.where(BOOLS, 1e40, FLOATS.bfloat16()).tolist() == [float("inf")]


def test_draws() -> None:
    for dtype, count in ((tj.uint8, 256), (tj.int8, 128), (tj.bool, 2), (tj.int32, 2**31)):
        assert tj.randint(0, count, (3,), dtype=dtype).shape == (3,)
        with pytest.raises(RuntimeError, match="to - 1 is out of bounds"):
            tj.randint(0, count + 1, (3,), dtype=dtype)
        with pytest.raises(RuntimeError, match="to - 1 is out of bounds"):
            tj.randint_like(tj.zeros(3, dtype=dtype), count + 1)
    with pytest.raises(RuntimeError, match="from is out of bounds"):
        tj.randint(-1, 5, (3,), dtype=tj.uint8)
    with pytest.raises(RuntimeError, match="to - 1 is out of bounds"):
        tj.randint(0, 70000, (3,), dtype=tj.float16)
    assert tj.randint(0, 2**25, (3,), dtype=tj.float32).shape == (3,)


@pytest.mark.parametrize("chance", [1.5, -0.5, float("nan")])
def test_chances(chance: float) -> None:
    wrong = tj.tensor([0.5, chance])
    for draw in (tj.bernoulli, lambda p: p.bernoulli(), lambda p: tj.zeros(2).bernoulli_(p)):
        assert_each_raises(RuntimeError, "Expected p_in >= 0", draw, wrong)
    assert_each([1.0, 0.0], tj.bernoulli, tj.tensor([1.0, 0.0]))


def test_limits_of_unsigned_integers() -> None:
    x = tj.tensor([0, 7], dtype=tj.uint8)
    assert_each_raises(RuntimeError, "unsigned type with negative limits", F.hardtanh, x)
    assert_each([0, 6], F.relu6, x)


def test_what_bools_are_not() -> None:
    assert_each_raises(RuntimeError, "on a bool tensor is not supported", lambda x: +x, BOOLS)


def test_decimals_of_integers() -> None:
    for digits in (1, -1):
        assert_each_raises(
            NotImplementedError,
            "not implemented for 'Long'",
            lambda x, d=digits: x.round(decimals=d),
            INTS,
        )
    assert_each([1], lambda x: x.round(), INTS)


WITHOUT_DIM: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: x.softmax(),
    "softmax, None": lambda x: x.softmax(None),
    "log_softmax": lambda x: x.log_softmax(),
    "max": lambda x: x.max(None),
    "min": lambda x: x.min(dim=None),
    "median": lambda x: x.median(dim=None),
    "nanmedian": lambda x: x.nanmedian(None),
    "prod": lambda x: x.prod(dim=None, keepdim=True),
    "logsumexp": lambda x: x.logsumexp(None),
    "the function": lambda x: tj.max(x, dim=None),
}


@pytest.mark.parametrize("name", WITHOUT_DIM)
def test_dimensions_that_have_to_be_said(name: str) -> None:
    assert_each_raises(TypeError, "dim", WITHOUT_DIM[name], FLOATS)


def test_dimensions_that_may_be_left_out() -> None:
    for name in ("max", "min", "median", "nanmedian", "prod"):
        assert_each(1.0, lambda x, name=name: getattr(x, name)(), FLOATS)
    assert_each([1.0], lambda x: x.softmax(-1, tj.float64), FLOATS)


def test_arguments_that_vary() -> None:
    added = tj.compile(lambda x, n: x + n)
    for x in (tj.ones(2), tj.tensor([1, 2])):
        for n in (1, 2, 3, 2**62):
            assert added(x, n).tolist() == (x + n).tolist()
        for n in (2**64, -(2**63) - 1):
            with pytest.raises(OverflowError, match="int too big to convert"):
                added(x, n)
        assert added(x, 5).tolist() == (x + 5).tolist()
