"""A GPU that is none: see `stand_in`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import stand_in

from tracejit.cuda import arrays, driver


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two devices with the memory of this process."""
    module = stand_in.install(monkeypatch, driver, arrays, None)
    yield module
    arrays.MODULES.clear()
