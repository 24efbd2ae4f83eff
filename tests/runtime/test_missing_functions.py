"""Functions that code of LLVM may call, and that processes need not have."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.products.vector_machine import vector_machine
from tracejit.runtime.machine_code.missing_functions import missing_function

pytestmark = pytest.mark.skipif(
    vector_machine() is None, reason="for processors that convert single precision to half"
)


def halves(numbers: np.ndarray) -> np.ndarray:
    """What the function makes of doubles."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    found = np.empty(numbers.shape, np.float16)
    kind(missing_function("halves"))(numbers.ctypes.data, found.ctypes.data, numbers.size)
    return found


def doubles() -> np.ndarray:
    """Numbers of all sizes, halves, what lies between neighbours among them, and just beside that."""
    rng = np.random.default_rng(5)
    patterns = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    between = (patterns[1:] + patterns[:-1]) / 2
    beside = [between * (1 + sign * 2.0**-power) for sign in (-1, 1) for power in (52, 40, 24, 23)]
    sizes = rng.standard_normal(50_000) * 2.0 ** rng.integers(-1060, 1020, 50_000)
    near = rng.standard_normal(50_000) * 2.0 ** rng.integers(-30, 18, 50_000)
    special = np.array([0.0, np.inf, np.nan, 65519.999999999, 65520.0, 2.0**-25, 5e-324, 1e308])
    found = np.concatenate([patterns, between, *beside, sizes, near, special])
    return np.concatenate([found, -found])


def test_doubles_are_rounded_once() -> None:
    numbers = doubles()
    with np.errstate(over="ignore", under="ignore"):
        wanted = numbers.astype(np.float16)
    found = halves(numbers)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("number", [True, 0.7, -0.0, -2, float("nan"), 1e-300, -1e300])
def test_signs_of_numbers_beside_single_halves(number: float) -> None:
    compiled = tj.compile(lambda x, y: (tj.copysign(x, number), tj.copysign(x.sinh(), number) * y))
    for value in (1.5, -0.25, 0.0, float("inf")):
        x, y = tj.tensor(value).half(), tj.ones(3).half()
        for found, wanted in zip(
            compiled(x, y), (tj.copysign(x, number), tj.copysign(x.sinh(), number) * y), strict=True
        ):
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
            np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(wanted.numpy()))
    assert not compiled.reasons, compiled.explain()
    assert compiled.stats.compiled_calls == 3
