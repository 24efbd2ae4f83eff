"""Settings of the whole test suite: reproducible draws, and state restored after every test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,  # the first example of a structure compiles it
    print_blob=True,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    """Seed NumPy, and tracejit where a test has imported it."""
    np.random.seed(0)
    package = sys.modules.get("tracejit")
    if hasattr(package, "manual_seed"):
        package.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(0)


@pytest.fixture
def four_threads() -> Iterator[None]:
    """Four threads in the pool, and as many as before afterwards."""
    from tracejit.runtime import threads

    before = threads.get_num_threads()
    threads.set_num_threads(4)
    yield
    threads.set_num_threads(before)


@pytest.fixture(scope="session")
def add() -> int:
    """The address of a kernel that adds a number to integers."""
    from launch_tools import ADD, kernel

    return kernel(ADD)
