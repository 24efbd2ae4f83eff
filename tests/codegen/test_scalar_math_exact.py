"""What is exact: classification, integer arithmetic, storage conversions, random bits, powers of a logarithm's base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.stats

from kernel_tools import compiled, kernel
from scalar_tools import DTYPES, FLOATS, any_bits, rng_for, same_bits, special_values
from tracejit.scalar_math import library as scalar_math
from tracejit.scalar_math.library import evaluate


@pytest.mark.parametrize("type_name", FLOATS)
def test_classification_and_sign(type_name: str) -> None:
    x = special_values(DTYPES[type_name])
    for stem, function in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
        assert np.array_equal(evaluate(f"{stem}_{type_name}", x), function(x)), stem
    assert same_bits(evaluate(f"sign_{type_name}", x), np.where(np.isnan(x), 0, np.sign(x)))


def test_logarithms_are_exact_for_powers_of_their_base() -> None:
    n = np.arange(-1074, 1024)
    assert np.array_equal(evaluate("log2_f64", np.ldexp(1.0, n)), n)
    assert np.array_equal(evaluate("exp2_f64", n.astype("f8")), np.ldexp(1.0, n))
    small = np.arange(-149, 128)
    powers = np.ldexp(np.float32(1), small)
    assert np.array_equal(evaluate("log2_f32", powers), small)
    assert np.array_equal(evaluate("log10_f64", 10.0 ** np.arange(0, 23)), np.arange(0, 23))


def test_the_table_of_two_over_pi_starts_with_its_known_bits() -> None:
    words = scalar_math.TABLES["two_over_pi"]
    assert words[:3] == (0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0)
    assert len(words) == 21


INTEGERS = [f"i{bits}" for bits in (8, 16, 32, 64)] + [f"u{bits}" for bits in (8, 16, 32, 64)]


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def exact_integer(stem: str, x: int, y: int, bits: int) -> int:
    """The documented result on Python integers, before wrapping."""
    in_range = 0 <= y < bits
    table: dict[str, Callable[[], int]] = {
        "maximum": lambda: max(x, y),
        "minimum": lambda: min(x, y),
        "floor_divide": lambda: x // y if y else 0,
        "remainder": lambda: x % y if y else 0,
        "shift_left": lambda: x << y if in_range else 0,
        "shift_right": lambda: x >> y if in_range else (-1 if x < 0 else 0),
        "pow": lambda: pow(x, y, 1 << bits) if y >= 0 else inverse_power(x, y),
    }
    return table[stem]()


def inverse_power(x: int, y: int) -> int:
    return (x if y % 2 else 1) if x in (1, -1) else 0


@pytest.mark.parametrize("type_name", INTEGERS)
def test_integer_arithmetic(type_name: str) -> None:
    dtype = DTYPES[type_name]
    info, rng = np.iinfo(dtype), rng_for(type_name)
    values = [0, 1, 2, 3, 7, 8 * dtype.itemsize - 1, 8 * dtype.itemsize, info.max, info.min]
    values += [-1, -2, -3, -7] if info.min else []
    values += any_bits(rng, dtype, 8).tolist()
    pairs = [(x, y) for x in values for y in values]
    x, y = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    stems = ["maximum", "minimum", "floor_divide", "remainder", "shift_left", "shift_right", "pow"]
    for stem in stems:
        exact = [wrap(exact_integer(stem, a, b, 8 * dtype.itemsize), dtype) for a, b in pairs]
        assert evaluate(f"{stem}_{type_name}", x, y).tolist() == exact, stem
    assert evaluate(f"abs_{type_name}", x).tolist() == [wrap(abs(a), dtype) for a, _ in pairs]
    assert evaluate(f"sign_{type_name}", x).tolist() == [(a > 0) - (a < 0) for a, _ in pairs]


def test_half_precision_conversions_match_numpy_and_ml_dtypes() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        assert same_bits(evaluate("f32_from_f16", every), every.view("f2").astype("f4"))
        bf16 = every.view(ml_dtypes.bfloat16).astype("f4")
        assert same_bits(evaluate("f32_from_bf16", every), bf16)
        x = any_bits(rng_for("half"), np.dtype("f4"), 50_000)
        x = np.concatenate([x, bf16, np.nextafter(bf16, np.float32(0)), special_values(x.dtype)])
        known = ~np.isnan(x)
        half = evaluate("f16_from_f32", x).view("f2")
        assert same_bits(half[known], x.astype("f2")[known])
        assert np.isnan(half[~known]).all()
        brain = evaluate("bf16_from_f32", x)
        assert np.array_equal(brain[known], x.astype(ml_dtypes.bfloat16).view("u2")[known])
        assert np.isnan(evaluate("round_bf16", x[~known])).all()
        assert same_bits(evaluate("round_f16", x), x.astype("f2").astype("f4"))


PHILOX_VECTORS = [
    ((0, 0), 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((2**64 - 1, 2**64 - 1), 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x0370734413198A2E, 0x85A308D3243F6A88),
        0x299F31D0A4093822,
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), PHILOX_VECTORS)
def test_philox_gives_the_published_vectors(counter: tuple[int, int], key: int, words: str) -> None:
    offset, index = counter
    drawn = [
        evaluate("philox_u32", np.uint64(key), np.uint64(offset), np.uint64(index), np.uint32(word))
        for word in range(4)
    ]
    assert " ".join(f"{int(word):08x}" for word in drawn) == words


def draws(count: int, word: int) -> np.ndarray[Any, Any]:
    index = np.arange(count, dtype=np.uint64)
    result: np.ndarray[Any, Any] = evaluate(
        "philox_u32", np.uint64(7), np.uint64(3), index, np.uint32(word)
    )
    return result


def test_deviates_have_their_distribution() -> None:
    count = 200_000
    a, b, c, d = (draws(count, word) for word in range(4))
    top = np.array([0, 2**32 - 1], np.uint32)
    assert evaluate("uniform_f32", top).tolist() == [0.0, 1 - 2.0**-24]
    assert evaluate("uniform_f64", top, top).tolist() == [0.0, 1 - 2.0**-53]
    for sample in (evaluate("uniform_f32", a), evaluate("uniform_f64", b, c)):
        assert scipy.stats.kstest(sample, "uniform").pvalue > 1e-4
    for sample in (evaluate("normal_f32", a, b), evaluate("normal_f64", a, b, c, d)):
        assert np.isfinite(sample).all()
        assert scipy.stats.kstest(sample, "norm").pvalue > 1e-4
    extremes = evaluate("normal_f32", np.repeat(top, 2), np.tile(top, 2))
    assert np.isfinite(extremes).all()
    assert np.abs(extremes).max() > 5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_remainders_of_all_magnitudes_are_exact_in_kernels() -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, (2, 200_000), np.uint32)
    near = bits.copy()  # quotients that are whole numbers, or nearly
    near[1] = (near[0] & 0xFF800000) - (rng.integers(0, 30, near.shape[1]) << 23).astype(np.uint32)
    near[1] ^= rng.integers(0, 3, near.shape[1], np.uint32)
    run = compiled(
        kernel(
            'x: "f32*", y: "f32*", out: "f32*"',
            "for i in range(lo, hi):\n    out[i] = fmod_f32(x[i], y[i])\nreturn 0",
        )
    )
    for x, y in (bits.view(np.float32), near.view(np.float32)):
        out = np.empty_like(x)
        run(x, y, out, 0, len(x), 0)
        expected = np.fmod(x, y)
        same = out.view(np.uint32) == expected.view(np.uint32)
        assert np.all(same | (np.isnan(out) & np.isnan(expected)))
