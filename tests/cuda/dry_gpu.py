"""Imported first by a process, this gives it a GPU that is none: ``python -m tracejit.testing.gpu --first dry_gpu``."""

from __future__ import annotations

import os
import time

import pytest
import stand_in_arrays
import stand_in_driver

from tracejit.testing import gpu_checks

LIBRARY = stand_in_driver.DriverLibrary()
stand_in_driver.install(pytest.MonkeyPatch(), LIBRARY)


def _ends() -> None:
    """The process is gone in the middle of a check."""
    os._exit(7)


def _faults() -> None:
    """A kernel that faults takes the device from the process for good."""

    def broken(*_: object) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    stand_in_arrays.Device.synchronize = broken  # type: ignore[method-assign]
    broken()


def _hangs() -> None:
    """A check that never comes back."""
    time.sleep(600)


if "DRY_GPU_WRONG" in os.environ:  # a test of the report asks for everything that can happen
    gpu_checks.memory, gpu_checks.interop, gpu_checks.loops = _ends, _faults, _hangs
