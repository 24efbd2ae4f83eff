"""Groups of processes under PyTorch's names, for programs that run as a single one: a world of one process.

``init_process_group`` of a world of one succeeds, and collective operations are what they are there: every one leaves
its tensor as it is. Larger worlds are refused.
"""

from __future__ import annotations

import enum
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..made_modules import make_module
from ..tensor import Tensor
from . import wrapped_layers
from .collectives import (
    all_to_all,
    all_to_all_single,
    gather,
    gather_object,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    monitored_barrier,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
)

__all__ = [
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "monitored_barrier",
    "new_group",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
]
_backend: list[str] = []


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4


class ProcessGroup:
    """The type of groups in annotations; there are none to hand out, as one process needs no name for itself.

    >>> ProcessGroup(0, 1)
    Traceback (most recent call last):
    NotImplementedError: groups of processes are not made: leave ``group`` out, which means this process
    """

    def __init__(self, *_: Any) -> None:
        raise NotImplementedError(
            "groups of processes are not made: leave ``group`` out, which means this process"
        )


class GroupMember:
    """The group of all processes, which is None: this process."""

    WORLD: ProcessGroup | None = None


group = GroupMember


def is_available() -> bool:
    """False: there is one process, and programs that ask do without the rest.

    >>> is_available()
    False
    """
    return False


def is_nccl_available() -> bool:
    """False: there is no such library.

    >>> is_nccl_available() or is_mpi_available() or is_gloo_available()
    False
    """
    return False


is_mpi_available = is_gloo_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """False: nothing starts processes.

    >>> is_torchelastic_launched()
    False
    """
    return False


def is_initialized() -> bool:
    """Is there a group?

    >>> is_initialized()
    False
    """
    return bool(_backend)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    **_: Any,
) -> None:
    """Open the group of this process.

    Raises ``NotImplementedError`` for a world of more than one, and ``ValueError`` when there is a group already.

    >>> init_process_group("gloo", world_size=1, rank=0)
    >>> get_rank(), get_world_size(), get_backend()
    (0, 1, 'gloo')
    >>> destroy_process_group()
    """
    if _backend:
        raise ValueError("trying to initialize the default process group twice!")
    size = world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", "1"))
    if size != 1 or rank > 0:
        raise NotImplementedError(
            f"a world of {size} processes is not supported: run the program as a single process"
        )
    _backend.append(backend or "gloo")


def destroy_process_group(group: Any = None) -> None:
    """Close the group.

    >>> init_process_group()
    >>> destroy_process_group()
    >>> is_initialized()
    False
    """
    _check()
    _backend.clear()


def _check() -> None:
    if not _backend:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )


def get_backend(group: Any = None) -> str:
    """The name the group was opened with. Raises ``ValueError`` when there is none.

    >>> init_process_group("gloo")
    >>> get_backend()
    'gloo'
    >>> destroy_process_group()
    """
    _check()
    return _backend[0]


def get_rank(group: Any = None) -> int:
    """0. Raises ``ValueError`` when there is no group.

    >>> init_process_group("gloo")
    >>> get_rank()
    0
    >>> destroy_process_group()
    """
    _check()
    return 0


def get_world_size(group: Any = None) -> int:
    """1. Raises ``ValueError`` when there is no group.

    >>> init_process_group("gloo")
    >>> get_world_size()
    1
    >>> destroy_process_group()
    """
    _check()
    return 1


def new_group(ranks: Sequence[int] | None = None, *_: Any, **__: Any) -> None:
    """The group itself. Raises ``ValueError`` when there is none.

    >>> init_process_group("gloo")
    >>> new_group([0])
    >>> destroy_process_group()
    """
    _check()


def barrier(*_: Any, **__: Any) -> None:
    """Nobody to wait for. Raises ``ValueError`` when there is no group.

    >>> init_process_group("gloo")
    >>> barrier()
    >>> destroy_process_group()
    """
    _check()


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, **_: Any) -> None:
    """The tensor is its own sum. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> init_process_group("gloo")
    >>> all_reduce(tj.ones(1))
    >>> destroy_process_group()
    """
    _check()


def reduce(
    tensor: Tensor, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None, **_: Any
) -> None:
    """The tensor is its own sum. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> init_process_group("gloo")
    >>> reduce(tj.ones(1), 0)
    >>> destroy_process_group()
    """
    _check()


def broadcast(tensor: Tensor, src: int = 0, group: Any = None, **_: Any) -> None:
    """Everybody has the tensor. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> init_process_group("gloo")
    >>> broadcast(tj.ones(1), 0)
    >>> destroy_process_group()
    """
    _check()


def broadcast_object_list(object_list: list[Any], src: int = 0, *_: Any, **__: Any) -> None:
    """Everybody has the objects. Raises ``ValueError`` when there is no group.

    >>> init_process_group("gloo")
    >>> broadcast_object_list([1])
    >>> destroy_process_group()
    """
    _check()


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, **_: Any) -> None:
    """Write the tensor into the one of the list. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> init_process_group("gloo")
    >>> found = [tj.zeros(2)]
    >>> all_gather(found, tj.ones(2))
    >>> found
    [tensor([1., 1.])]
    >>> destroy_process_group()
    """
    _check()
    (target,) = tensor_list
    with no_grad():
        target.copy_(tensor)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, **_: Any
) -> None:
    """Write the one tensor into the other. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> init_process_group("gloo")
    >>> found = tj.zeros(2)
    >>> all_gather_into_tensor(found, tj.ones(2))
    >>> found
    tensor([1., 1.])
    >>> destroy_process_group()
    """
    _check()
    with no_grad():
        output_tensor.copy_(input_tensor.reshape(output_tensor.shape))


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the object into the list. Raises ``ValueError`` when there is no group.

    >>> init_process_group("gloo")
    >>> found = [None]
    >>> all_gather_object(found, "x")
    >>> found
    ['x']
    >>> destroy_process_group()
    """
    _check()
    object_list[0] = obj


def __getattr__(name: str) -> Any:
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(importlib.import_module(f"{__name__}.device_mesh"), name)
    if name not in ("device_mesh", "nn", "rpc"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


make_module("distributed.distributed_c10d", sys.modules[__name__])
make_module("distributed.algorithms")
make_module("distributed.algorithms._checkpoint")
make_module("distributed.algorithms._checkpoint.checkpoint_wrapper", wrapped_layers)
