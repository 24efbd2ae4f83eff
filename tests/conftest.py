"""Settings of the whole test suite: reproducible draws, and state restored after every test."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies

# `--hypothesis-profile=many` tries more than what fits into a few minutes.
for name, examples in {"default": 30, "many": 300}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,  # the first example of a structure compiles it
        print_blob=True,
        derandomize="CI" in os.environ,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("default")

_GOLDEN = (5**0.5 - 1) / 2

# Collecting tests makes a million objects and no garbage, and what is imported later as many again; looked through each
# time, they made every `gc.collect()` of a test take half a second.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of all garbage collections, which begin now."""
    _draw_once()
    _leave_out()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave out of them what the tests of a file leave, too."""
    if nextitem is not None and nextitem.path != item.path:
        _leave_out()


def _draw_once() -> None:
    """Let Hypothesis make its generator: it looks for what refers to that, which could not be found later."""
    once = settings(max_examples=1, database=None, derandomize=True)
    once(given(strategies.none())(lambda _: None))()


def _leave_out() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make all but one in n cases of a test that is `sampled(n)` thorough.

    Multiples of the golden ratio choose them: whatever parameters there are, no value of one is left out as such.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            key = (str(item.path), getattr(item, "originalname", item.name))
            if counts[key] * _GOLDEN % 1 * sampled.args[0] >= 1:
                item.add_marker(pytest.mark.thorough)
            counts[key] += 1


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    """Seed NumPy, and tracejit where a test has imported it; plans are made anew: some tests change what makes them.

    Nothing is compiled a second time: without AVX-512 that took a third of all time. And eager code does not go over to
    compiled code because of what other tests have computed.
    """
    np.random.seed(0)
    package = sys.modules.get("tracejit")
    if hasattr(package, "manual_seed"):
        package.manual_seed(0)
        package.config.keeps_plans = package.config.improves = False
    for name in ("large_calls", "runtime.eager.programs", "runtime.eager.printed"):
        module = sys.modules.get(f"tracejit.{name}")
        for counts in ("_met", "_met_alike", "_served"):
            getattr(module, counts, {}).clear()


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


@pytest.fixture(params=(128, 256, 512))
def built(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compile a kernel for vectors of so many bits, which any host can do; wider ones are made of several."""
    from kernel_tools import Loaded, is_widened
    from tracejit.codegen import llvm

    monkeypatch.setattr(llvm, "_widening", lambda: request.param)

    def build(source: str) -> Loaded:
        assert is_widened(source, request.param)
        return Loaded(llvm.compile_source(source, "k"), "k")

    return build


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of operations that a recorded run put off, in the order in which they are computed."""
    from tracejit.deferred import Deferred

    names: list[str] = []
    compute = Deferred.compute

    def listed(self: Any) -> None:
        names.append(self.op.name)
        compute(self)

    monkeypatch.setattr(Deferred, "compute", listed)
    return names
