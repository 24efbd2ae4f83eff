"""Numbers become half precision by way of float32, as in PyTorch: everywhere, and in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracejit as tj

KINDS = {"float16": (tj.float16, np.float16, 10), "bfloat16": (tj.bfloat16, ml_dtypes.bfloat16, 7)}


def beside_ties(bits: int) -> np.ndarray:
    """Doubles that lie so near to the middle of two halves that float32 takes them for it."""
    middle = 1 + (np.arange(1 << bits) + 0.5) / (1 << bits)
    near = np.concatenate([np.nextafter(middle, 0), np.nextafter(middle, 2), middle * (1 + 1e-12)])
    small = near * 2.0**-16  # subnormal in float16
    return np.concatenate([middle, near, -near, small])


def expected(values: np.ndarray, kind: Any) -> np.ndarray:
    return values.astype(np.float32).astype(kind).astype(np.float64)


def set_item(values: np.ndarray, dtype: Any) -> Any:
    x = tj.zeros(len(values), dtype=dtype)
    for i, value in enumerate(values.tolist()):
        x[i] = value
    return x


WAYS: dict[str, Callable[[np.ndarray, Any], Any]] = {
    "to": lambda v, d: tj.tensor(v).to(d),
    "large": lambda v, d: tj.tensor(np.tile(v, 80)).to(d)[: len(v)],
    "array": lambda v, d: tj.tensor(v, dtype=d),
    "as_tensor": lambda v, d: tj.as_tensor(v, dtype=d),
    "list": lambda v, d: tj.tensor(v.tolist(), dtype=d),
    "number": lambda v, d: tj.stack([tj.tensor(x, dtype=d) for x in v.tolist()]),
    "full": lambda v, d: tj.cat([tj.full((1,), x, dtype=d) for x in v.tolist()]),
    "copy_": lambda v, d: tj.zeros(len(v), dtype=d).copy_(tj.tensor(v)),
    "item": set_item,
    "compiled": lambda v, d: tj.compile(lambda x: x.to(d), strict=True)(tj.tensor(v)),
    "literal": lambda v, d: tj.compile(lambda x: x + tj.tensor(v[:9].tolist(), dtype=d))(
        tj.zeros(9, dtype=d)
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_doubles_are_rounded_twice(kind: str, way: str) -> None:
    dtype, array_kind, bits = KINDS[kind]
    values = beside_ties(bits)
    if way in ("number", "full", "item"):
        values = values[::17]
    found = WAYS[way](values, dtype)
    assert found.dtype is dtype
    wanted = expected(values, array_kind)[: len(found)]
    np.testing.assert_array_equal(found.double().numpy(), wanted)


def test_one_rounding_gives_other_numbers() -> None:
    values = beside_ties(10)
    assert (values.astype(np.float16) != expected(values, np.float16)).mean() > 0.1


def test_integers_are_rounded_twice() -> None:
    values = np.array([2**24 + 2**16 + 1, 2**40 + 2**32 + 1, -(2**33) - 2**25 - 1, 257, 3])
    found = tj.tensor(values).to(tj.bfloat16)
    wanted = expected(values, ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.double().numpy(), wanted)
    for value, number in zip(values.tolist(), wanted, strict=True):
        assert tj.tensor(value, dtype=tj.bfloat16).item() == number


@pytest.mark.parametrize("kind", KINDS)
def test_evenly_spaced_halves_are_rounded_at_every_step(kind: str) -> None:
    dtype, array_kind, _ = KINDS[kind]
    for start, end, count in [(5.4848, 9.1767, 101), (-3.1, 7.7, 10), (0.3, -12.6, 3000)]:
        first, last = (np.float32(x).astype(array_kind) for x in (start, end))
        step = (last - first) / np.float32(count - 1).astype(array_kind)
        i = np.arange(count)
        wanted = np.where(
            i < count // 2,
            first + step * i.astype(array_kind),
            last - step * (count - 1 - i).astype(array_kind),
        )
        found = tj.linspace(start, end, count, dtype=dtype)
        np.testing.assert_array_equal(found.double().numpy(), wanted.astype(np.float64))
