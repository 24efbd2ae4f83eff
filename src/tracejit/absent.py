"""What PyTorch knows and this package has none of: programs ask for it and go on without."""

from __future__ import annotations

from typing import Any

from .errors import DeviceError

__all__ = ["SymBool", "SymFloat", "SymInt", "cpu", "mps", "xpu"]


class SymInt:
    """A size that PyTorch's export leaves open. Sizes here are ``int``, also in compiled code: there are none of these.

    >>> import tracejit as tj
    >>> isinstance(tj.ones(2).shape[0], (int, tj.SymInt)), isinstance(2, tj.SymInt)
    (True, False)
    """


class SymFloat:
    """As :class:`SymInt`, of ``float``."""


class SymBool:
    """As :class:`SymInt`, of ``bool``."""


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
