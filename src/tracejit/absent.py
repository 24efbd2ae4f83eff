"""Kinds of devices that PyTorch knows and this package does not: programs ask for them and go on without."""

from __future__ import annotations

from typing import Any

from .errors import DeviceError

__all__ = ["cpu", "mps", "xpu"]


class Absent:
    """A kind of device by name: is there one, how many, and a refusal of everything else."""

    def __init__(self, name: str) -> None:
        self._name = name

    def is_available(self) -> bool:
        """False: no such device is supported."""
        return False

    def device_count(self) -> int:
        """None of them."""
        return 0

    def manual_seed(self, seed: int) -> None:
        """Accepted and without effect: numbers come from :func:`tracejit.manual_seed`."""

    manual_seed_all = manual_seed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DeviceError(f"{self._name}.{name}: there is no {self._name} device")


class Host:
    """The host as a device: there is one, and what it is asked to do is done when the call returns."""

    def is_available(self) -> bool:
        """True: programs run on it."""
        return True

    def device_count(self) -> int:
        """One of it."""
        return 1

    def current_device(self) -> str:
        """Its name."""
        return "cpu"

    def synchronize(self, device: Any = None) -> None:
        """Nothing to wait for."""


cpu = Host()
mps = Absent("mps")
xpu = Absent("xpu")
