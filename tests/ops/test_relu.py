"""What ``relu`` keeps of special values, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

VALUES = [-1.0, -0.0, 0.0, float("nan"), float("inf"), -float("inf"), 2.0]
KEPT = [0.0, -0.0, 0.0, float("nan"), float("inf"), 0.0, 2.0]


@pytest.mark.parametrize("copies", [1, 5, 20_000])
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16, tj.bfloat16], ids=str)
@pytest.mark.parametrize("form", [tj.relu, lambda x: x.clone().relu_()], ids=["relu", "relu_"])
def test_zeros_keep_their_sign_and_nan_stays(
    form: Callable[[Any], Any], dtype: Any, copies: int
) -> None:
    x = tj.tensor(VALUES * copies, dtype=dtype)
    compiled = tj.compile(form)
    for f in (form, compiled, compiled, compiled):
        found = f(x).to(tj.float64).numpy()
        np.testing.assert_array_equal(found, KEPT * copies)
        assert (np.signbit(found) == np.signbit(KEPT * copies))[~np.isnan(found)].all()


@pytest.mark.parametrize("dtype", [tj.int32, tj.int64, tj.uint8], ids=str)
def test_integers(dtype: Any) -> None:
    x = tj.tensor([0, 3, 100], dtype=dtype)
    compiled = tj.compile(tj.relu)
    for f in (tj.relu, compiled, compiled):
        assert f(x).tolist() == [0, 3, 100]
        assert f(x).dtype is dtype
