"""A GPU that is none: see `stand_in` and `stand_in_driver`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import stand_in_driver

from tracejit.cuda import arrays

#: Gives the process that imports it a GPU, for good.
collect_ignore = ["dry_gpu.py"]


@pytest.fixture
def library() -> Any:
    """The driver below `gpu`."""
    return stand_in_driver.DriverLibrary()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, library: Any) -> Iterator[Any]:
    """Two devices with the memory of this process, which execute PTX."""
    yield stand_in_driver.install(monkeypatch, library)
    arrays.MODULES.clear()
    assert not library.errors, library.errors
