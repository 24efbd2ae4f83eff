"""From printed device functions to handles a driver can launch: in memory, from the store, or compiled."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ...codegen.cuda_launch import DeviceCode, Launch
from ...cuda.driver import driver
from ..kernels import COUNTS, identity
from .images import architecture_for, image, image_key

_handles: dict[tuple[int, str], int] = {}
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
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


def build(code: DeviceCode, index: int) -> DeviceKernel:
    """Machine code for every function of a kernel, loaded into the device ``index``; `DeviceError` without one."""
    architecture = architecture_for(driver(index).capability)
    keys = [image_key(launch.source, architecture) for launch in code.launches]
    handles = tuple(
        tuple(_handle(launch, architecture, index) for launch in step) for step in code.steps
    )
    return DeviceKernel(code.name, code, tuple(keys), handles)


def _handle(launch: Launch, architecture: str, index: int) -> int:
    key = index, f"{architecture} {launch.name} {identity(launch.source)}"
    with _lock:
        found = _handles.get(key)
        if found is None:
            found = driver(index).load(image(launch.source, launch.name, architecture), launch.name)
            _handles[key] = found
        else:
            COUNTS.reused += 1
        return found
