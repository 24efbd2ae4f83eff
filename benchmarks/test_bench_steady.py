"""Steady state of every case in every implementation; ``compare.py`` measures the same in separate processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from workloads import CASES, Call, Case

SIZED = [pytest.param(c, size, id=f"{c.name}-{size}") for c in CASES for size in c.sizes]


@pytest.mark.parametrize(("case", "size"), SIZED)
def test_steady_state(
    benchmark: Any, case: Case, size: int, prepared: Callable[[Case, int], Call]
) -> None:
    benchmark.group = f"{case.name} {size:,}"
    results = benchmark(prepared(case, size))
    assert results
