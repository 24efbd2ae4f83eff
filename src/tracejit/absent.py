"""What PyTorch knows and this package has none of: programs ask for it and go on without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .errors import DeviceError

__all__ = [
    "PyTorchFileReader",
    "SymBool",
    "SymFloat",
    "SymInt",
    "mps",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sum",
    "xpu",
]


class PyTorchFileReader:
    """Reads parts of files that PyTorch has saved. Files are of another kind here: making one raises an error.

    >>> PyTorchFileReader("model.pt")
    Traceback (most recent call last):
    NotImplementedError: 'model.pt': files of PyTorch are not read here; tj.load() reads those of tj.save()
    """

    def __init__(self, file: Any) -> None:
        raise NotImplementedError(
            f"{file!r}: files of PyTorch are not read here; tj.load() reads those of tj.save()"
        )


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


def sym_int(a: Any) -> int:
    """``int(a)``: sizes here are numbers, so that what PyTorch has for open ones is what Python has for numbers.

    >>> sym_int(2.7)
    2
    """
    return int(a)


def sym_float(a: Any) -> float:
    """``float(a)``.

    >>> sym_float(2)
    2.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """``not a``.

    >>> sym_not(False)
    True
    """
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float if one of the two is.

    >>> sym_max(2, 1), sym_max(2, 1.0)
    (2, 2.0)
    """
    return _alike(max(a, b), a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float if one of the two is.

    >>> sym_min(2, 1), sym_min(1, 2.0)
    (1, 1.0)
    """
    return _alike(min(a, b), a, b)


def _alike(found: Any, a: Any, b: Any) -> Any:
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``.

    >>> sym_ite(True, 1, 2)
    1
    """
    return t if b else f


def sym_sum(args: Iterable[Any]) -> Any:
    """``sum(args)``.

    >>> sym_sum([1, 2])
    3
    """
    return sum(args)


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


mps = Absent("mps")
xpu = Absent("xpu")
