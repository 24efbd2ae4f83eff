"""Collective operations of a world of one process: parts go to the one there is, and come back from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..tensor import Tensor

__all__ = [
    "all_to_all",
    "all_to_all_single",
    "gather",
    "gather_object",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "monitored_barrier",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
]


def _check() -> None:
    from . import get_world_size

    get_world_size()


def _put(target: Tensor, source: Tensor) -> None:
    _check()
    with no_grad():
        target.copy_(source.reshape(target.shape))


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Any = None,
    **_: Any,
) -> None:
    """Write the tensor into the one of the list. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = [tj.zeros(2)]
    >>> gather(tj.ones(2), found)
    >>> found
    [tensor([1., 1.])]
    >>> tj.distributed.destroy_process_group()
    """
    (target,) = gather_list or [tensor]
    _put(target, tensor)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int = 0,
    group: Any = None,
    **_: Any,
) -> None:
    """Write the one tensor of the list into ``tensor``. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = tj.zeros(2)
    >>> scatter(found, [tj.ones(2)])
    >>> found
    tensor([1., 1.])
    >>> tj.distributed.destroy_process_group()
    """
    (source,) = scatter_list or ()
    _put(tensor, source)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = None, group: Any = None, **_: Any
) -> None:
    """Write the one tensor of the list, its own sum, into ``output``. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = tj.zeros(2)
    >>> reduce_scatter(found, [tj.ones(2)])
    >>> found
    tensor([1., 1.])
    >>> tj.distributed.destroy_process_group()
    """
    (source,) = input_list
    _put(output, source)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = None, group: Any = None, **_: Any
) -> None:
    """Write ``input``, its own sum, into ``output``. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = tj.zeros(2)
    >>> reduce_scatter_tensor(found, tj.ones(2))
    >>> found
    tensor([1., 1.])
    >>> tj.distributed.destroy_process_group()
    """
    _put(output, input)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    **_: Any,
) -> None:
    """Write the tensor of one list into that of the other. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = [tj.zeros(2)]
    >>> all_to_all(found, [tj.ones(2)])
    >>> found
    [tensor([1., 1.])]
    >>> tj.distributed.destroy_process_group()
    """
    for target, source in zip(output_tensor_list, input_tensor_list, strict=True):
        _put(target, source)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    **_: Any,
) -> None:
    """Write the one tensor into the other. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = tj.zeros(2)
    >>> all_to_all_single(found, tj.ones(2))
    >>> found
    tensor([1., 1.])
    >>> tj.distributed.destroy_process_group()
    """
    _put(output, input)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, *_: Any, **__: Any
) -> None:
    """Put the object into the list. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = [None]
    >>> gather_object("x", found)
    >>> found
    ['x']
    >>> tj.distributed.destroy_process_group()
    """
    _check()
    if object_gather_list is not None:
        object_gather_list[0] = obj


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int = 0,
    *_: Any,
    **__: Any,
) -> None:
    """Put the one object of a list into the other list. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> found = [None]
    >>> scatter_object_list(found, ["x"])
    >>> found
    ['x']
    >>> tj.distributed.destroy_process_group()
    """
    _check()
    (scatter_object_output_list[0],) = scatter_object_input_list or ()


def monitored_barrier(*_: Any, **__: Any) -> None:
    """Nobody to wait for. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> monitored_barrier()
    >>> tj.distributed.destroy_process_group()
    """
    _check()


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group: 0. Raises ``ValueError`` when there is no group.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> get_process_group_ranks()
    [0]
    >>> tj.distributed.destroy_process_group()
    """
    _check()
    return [0]


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the world of a rank in a group: itself. ``ValueError`` for any but 0.

    >>> import tracejit as tj
    >>> get_global_rank(None, 0)
    0
    """
    if group_rank != 0:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank in the world: itself. ``ValueError`` for any but 0.

    >>> get_group_rank(None, 0)
    0
    """
    if global_rank != 0:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return 0
