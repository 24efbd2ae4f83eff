"""Steady state of every case in every implementation; ``peers.py`` measures the same in separate processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cases import Call, Case, Size, label
from workloads import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_steady_state(benchmark: Any, case: Case, prepared: Callable[[Case, Size], Call]) -> None:
    benchmark.group = f"{case.name} {label(case.main)}"
    results = benchmark(prepared(case, case.main))
    assert results
