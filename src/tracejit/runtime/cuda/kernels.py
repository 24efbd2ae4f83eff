"""From printed device functions to handles a driver can launch: in memory, from the store, or compiled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...codegen.cuda.launch import DeviceCode, Launch
from ...codegen.cuda.ptx import ptx
from ...cuda.driver import ImageError, driver
from ..counts import COUNTS
from ..machine_code.kernels import identity
from .images import architecture_for, image, image_key

_handles: dict[tuple[int, str], int] = {}
_lock = threading.Lock()


@dataclass(frozen=True, eq=False, repr=False)
class DeviceKernel:
    """A kernel in use on a device: its text, its identity, and for every step the handles to choose from."""

    name: str
    code: DeviceCode
    keys: tuple[str, ...]
    handles: tuple[tuple[int, ...], ...]

    @property
    def source(self) -> str:
        """The text of all functions."""
        return "\n\n".join(launch.source for launch in self.code.launches)

    def __repr__(self) -> str:
        return self.source.rstrip()


@dataclass
class Building:
    """Kernels made for an architecture on a machine that need not have a GPU: the bytes of each image, by its key."""

    architecture: str
    images: dict[str, int] = field(default_factory=dict)


class _Here(threading.local):
    building: Building | None = None


_here = _Here()


@contextmanager
def building(architecture: str) -> Iterator[Building]:
    """Within the block, plans for a device fill the store and load nothing: they cannot be run."""
    before, _here.building = _here.building, Building(architecture)
    try:
        yield _here.building
    finally:
        _here.building = before


def driver_address(name: str, index: int) -> int:
    """The address of a function of the driver; any number while nothing is to be run."""
    return 1 if _here.building is not None else driver(index).address(name)


def build(code: DeviceCode, index: int) -> DeviceKernel:
    """Machine code for every function of a kernel, loaded into the device ``index``; `DeviceError` without one."""
    target = _here.building
    architecture = target.architecture if target else architecture_for(driver(index).capability)
    keys = [image_key(launch.source, architecture) for launch in code.launches]
    if target is not None:
        for key, launch in zip(keys, code.launches, strict=True):
            target.images[key] = len(image(launch.source, launch.name, architecture))
        unloaded = tuple(tuple(1 for _ in step) for step in code.steps)
        return DeviceKernel(code.name, code, tuple(keys), unloaded)
    handles = tuple(tuple(handle(launch, index) for launch in step) for step in code.steps)
    return DeviceKernel(code.name, code, tuple(keys), handles)


def handle(launch: Launch, index: int) -> int:
    """The handle of a function, loaded into the device ``index``."""
    architecture = architecture_for(driver(index).capability)
    key = index, f"{architecture} {launch.name} {identity(launch.source)}"
    with _lock:
        found = _handles.get(key)
        if found is None:
            found = _handles[key] = _loaded(launch, architecture, index)
        else:
            COUNTS.reused += 1
        return found


def _loaded(launch: Launch, architecture: str, index: int) -> int:
    """The handle of a function; a driver that does not take an image may be older, and gets the text it came from."""
    found = driver(index)
    try:
        return found.load(image(launch.source, launch.name, architecture), launch.name)
    except ImageError:
        text = ptx(launch.source, launch.name, architecture)
        return found.load(text.encode(), launch.name)
