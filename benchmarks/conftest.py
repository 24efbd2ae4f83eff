"""What the benchmarks share: one parameter per implementation, and small sizes where nothing is timed.

``pytest benchmarks --benchmark-enable`` measures; without the option every benchmark runs once on small data, as a
test that it works.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from backends import BACKENDS, Backend, arrays, difference, find
from cases import Call, Case, Size

#: These are written in JAX, and cannot be imported without it.
collect_ignore = (
    []
    if find("jax").missing() is None
    else ["jax_pointwise.py", "jax_networks.py", "jax_workloads.py"]
)

_expected: dict[tuple[str, Size], list[np.ndarray]] = {}


@pytest.fixture
def measuring(request: pytest.FixtureRequest) -> bool:
    """Are times taken in this run?"""
    return not request.config.getoption("benchmark_disable") or bool(
        request.config.getoption("benchmark_enable")
    )


@pytest.fixture(
    params=[pytest.param(b, id=b.name, marks=[] if b.ours else pytest.mark.peer) for b in BACKENDS]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every implementation; those that cannot run here are skipped with the reason."""
    found: Backend = request.param
    reason = found.missing()
    if reason is not None:
        pytest.skip(reason)
    return found


@pytest.fixture
def prepared(backend: Backend, measuring: bool) -> Callable[[Case, Size], Call]:
    """A warm call of a case in this backend, checked against double precision."""

    def prepare(case: Case, size: Size) -> Call:
        size = size if measuring else case.small
        call = backend.make(case)(size)
        call()
        call()
        found = difference(arrays(call()), _expected_of(case, size))
        assert found <= case.precision, f"{backend.title} is wrong by {found:.1e}"
        return call

    return prepare


def _expected_of(case: Case, size: Size) -> list[np.ndarray]:
    """Results of the third call in double precision, computed once: a training step changes its state."""
    if (case.name, size) not in _expected:
        call = find("reference").make(case)(size)
        call()
        call()
        _expected[case.name, size] = arrays(call())
    return _expected[case.name, size]


def pytest_configure(config: pytest.Config) -> None:
    """The mark of other projects' implementations."""
    config.addinivalue_line("markers", "peer: another project's implementation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings of other projects are not ours to answer for."""
    for item in items:
        if item.get_closest_marker("peer"):
            item.add_marker(pytest.mark.filterwarnings("ignore"))
