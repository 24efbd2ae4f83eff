"""What doctests of ``src`` and tests share: names, and an environment no machine's settings leak into."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

_OWN_STORE = "TRACEJIT_TEST_STORE"


def _is_xdist_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_configure(config: pytest.Config) -> None:
    """Point the kernel store at a fresh directory, before anything imports the package.

    Workers inherit it from their controller, so one run compiles each kernel once.
    """
    os.environ["MPLBACKEND"] = "Agg"
    if _is_xdist_worker():
        return
    for name in [key for key in os.environ if key.startswith("TRACEJIT_")]:
        del os.environ[name]
    store = tempfile.mkdtemp(prefix="tracejit-test-")
    os.environ[_OWN_STORE] = os.environ["TRACEJIT_CACHE_DIR"] = store


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the store of this run."""
    if not _is_xdist_worker() and _OWN_STORE in os.environ:
        shutil.rmtree(os.environ.pop(_OWN_STORE), ignore_errors=True)


@pytest.fixture(autouse=True)
def _doctest_names(request: pytest.FixtureRequest) -> None:
    """Doctests may say ``tj`` and ``np`` without importing them."""
    if isinstance(request.node, pytest.DoctestItem):
        import numpy as np

        import tracejit as tj

        namespace = request.getfixturevalue("doctest_namespace")
        namespace.update(tj=tj, np=np)
        if hasattr(tj, "manual_seed"):
            tj.manual_seed(0)
