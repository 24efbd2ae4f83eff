"""A GPU that is none: see `stand_in` and `stand_in_driver`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import stand_in
import stand_in_driver

from tracejit.cuda import arrays, driver
from tracejit.runtime.cuda import gemm, kernels


@pytest.fixture
def library() -> Any:
    """The driver below `gpu`."""
    return stand_in_driver.DriverLibrary()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, library: Any) -> Iterator[Any]:
    """Two devices with the memory of this process, which execute PTX."""
    from tracejit.optim import fused

    module = stand_in.install(monkeypatch, driver, arrays, library)
    monkeypatch.setattr(kernels, "image", lambda source, name, architecture: source.encode())
    monkeypatch.setattr(kernels, "_handles", {})
    monkeypatch.setattr(gemm, "cublas", lambda: library.cublas)
    monkeypatch.setattr(fused, "_updates", {})
    yield module
    arrays.MODULES.clear()
    assert not library.errors, library.errors
