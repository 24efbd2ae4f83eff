"""Collective operations that gradients flow through, in a world of one: results are copies of what is given.

Every function raises ``ValueError`` when there is no group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..made_modules import make_module
from ..tensor import Tensor
from . import ReduceOp, get_world_size

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _received(tensor: Tensor, group: Any) -> Any:
    """What arrives from the only process there is."""
    get_world_size(group)
    return tensor.clone()


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensor is its own sum.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> all_reduce(tj.ones(1))
    tensor([1.])
    >>> tj.distributed.destroy_process_group()
    """
    return _received(tensor, group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensor is its own sum.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> reduce(tj.ones(1), 0)
    tensor([1.])
    >>> tj.distributed.destroy_process_group()
    """
    return _received(tensor, group)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Any:
    """The tensor.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> broadcast(tj.ones(1), 0)
    tensor([1.])
    >>> tj.distributed.destroy_process_group()
    """
    return _received(tensor, group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Any, ...]:
    """The tensor, as the only one.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> all_gather(tj.ones(1))
    (tensor([1.]),)
    >>> tj.distributed.destroy_process_group()
    """
    return (_received(tensor, group),)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """The tensor, as the only one.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> gather(tj.ones(1))
    (tensor([1.]),)
    >>> tj.distributed.destroy_process_group()
    """
    return (_received(tensor, group),)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Any:
    """The one tensor there is.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> scatter([tj.ones(1)])
    tensor([1.])
    >>> tj.distributed.destroy_process_group()
    """
    (tensor,) = tensors
    return _received(tensor, group)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Any:
    """``output``, into which the one tensor of the list is written.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> reduce_scatter(tj.zeros(1), [tj.ones(1)])
    tensor([1.])
    >>> tj.distributed.destroy_process_group()
    """
    return all_to_all([output], input_list, group)[0]


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Any, ...]:
    """The one tensor of the first list, into which that of the second is written.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> all_to_all([tj.zeros(1)], [tj.ones(1)])
    (tensor([1.]),)
    >>> tj.distributed.destroy_process_group()
    """
    get_world_size(group)
    (output,), (given,) = output_tensor_list, input_tensor_list
    return (output.copy_(given),)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Any:
    """``output``, into which ``input`` is written.

    >>> import tracejit as tj
    >>> tj.distributed.init_process_group("gloo")
    >>> all_to_all_single(tj.zeros(1), tj.ones(1))
    tensor([1.])
    >>> tj.distributed.destroy_process_group()
    """
    return all_to_all([output], [input], group)[0]


make_module("distributed.nn.functional", **{name: globals()[name] for name in __all__})
