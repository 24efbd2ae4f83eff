"""Meshes of devices for programs that run as a single process: every dimension has one entry, this process."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..tensor import Tensor
from ..tensor_make import as_tensor

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Devices in rows and columns; here one, in as many dimensions as are asked for.

    Raises ``RuntimeError`` for a mesh of more than one process.

    >>> mesh = DeviceMesh("cpu", [[0]], mesh_dim_names=("data", "model"))
    >>> mesh.shape, mesh["data"].ndim, mesh.get_local_rank("model")
    ((1, 1), 1, 0)
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        _init_backend: bool = True,
    ) -> None:
        self.device_type = device_type
        self.mesh: Tensor = as_tensor(mesh)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        _check(tuple(self.mesh.shape), self.mesh_dim_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many devices there are along each dimension: one."""
        return tuple(self.mesh.shape)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many devices there are, along a dimension or in all: one."""
        return prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """The number of this process, 0."""
        return 0

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this process along a dimension, 0; ``KeyError`` for a name that no dimension has."""
        self._number(mesh_dim)
        return 0

    def get_coordinate(self) -> list[int]:
        """The place of this process."""
        return [0] * self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> None:
        """The group of the processes along a dimension: None, which means this process."""
        self._number(mesh_dim)

    def get_all_groups(self) -> list[None]:
        """The group of each dimension."""
        return [None] * self.ndim

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some of the dimensions."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else mesh_dim_names
        for name in names:
            self._number(name)
        return DeviceMesh(self.device_type, _ones(len(names)), mesh_dim_names=names)

    def _number(self, mesh_dim: int | str | None) -> int:
        if not isinstance(mesh_dim, str):
            return mesh_dim or 0
        if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
            raise KeyError(
                f"Invalid mesh_dim_name {mesh_dim}: the dimensions are {self.mesh_dim_names}"
            )
        return self.mesh_dim_names.index(mesh_dim)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        mine, theirs = ((x.device_type, x.shape, x.mesh_dim_names) for x in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.device_type, self.shape, self.mesh_dim_names))

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}{names})"


def _check(shape: tuple[int, ...], names: tuple[str, ...] | None) -> None:
    if prod(shape) != 1:
        raise RuntimeError(
            f"a mesh of shape {shape} needs {prod(shape)} processes, and there is one"
        )
    if names is not None and len(names) != len(shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
            f"{len(names)} and len(mesh_shape):{len(shape)}."
        )
    if names is not None and len(set(names)) != len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated names in {names}")


def _ones(ndim: int) -> Any:
    """Process 0 in ``ndim`` dimensions."""
    found: Any = 0
    for _ in range(ndim):
        found = [found]
    return found


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    **_: Any,
) -> DeviceMesh:
    """A mesh of this shape, whose every extent is one; ``RuntimeError`` for a larger one.

    >>> init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
    DeviceMesh('cpu', [0], mesh_dim_names=('data',))
    """
    shape = tuple(mesh_shape)
    _check(shape, mesh_dim_names)
    return DeviceMesh(device_type, _ones(len(shape)), mesh_dim_names=mesh_dim_names)
