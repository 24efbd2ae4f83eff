"""What PyTorch's first kind of checkpoint is made of: checkpoints that other libraries write use its parts."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ..amp.questions import (
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)
from ..autograd.grad_mode import no_grad
from ..tensor import Tensor
from .checkpoint import checkpoint

__all__ = [
    "CheckpointFunction",
    "_get_autocast_kwargs",
    "_get_device_module",
    "_infer_device_type",
    "check_backward_validity",
    "detach_variable",
]

_NONE = "None of the inputs have requires_grad=True. Gradients will be None"


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where none of ``inputs`` is a tensor that requires grad: a part computed from them has no gradients.

    >>> import tracejit as tj
    >>> check_backward_validity((1, tj.ones(2, requires_grad=True)))
    """
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(_NONE, stacklevel=2)


def detach_variable(inputs: Any) -> tuple[Any, ...]:
    """``inputs`` with leaves in place of tensors, which require grad where these do.

    >>> import tracejit as tj
    >>> x = tj.ones(2, requires_grad=True) * 2
    >>> [leaf, number] = detach_variable((x, 3))
    >>> leaf.is_leaf, leaf.requires_grad, number
    (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        kind = type(inputs).__name__
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {kind}"
        )
    return tuple(_leaf(x) if isinstance(x, Tensor) else x for x in inputs)


def _leaf(tensor: Tensor) -> Tensor:
    leaf: Tensor = tensor.detach()
    leaf.requires_grad = tensor.requires_grad
    return leaf


class CheckpointFunction:
    """A checkpoint by its older name: ``CheckpointFunction.apply(run_function, preserve_rng_state, *args)``.

    As PyTorch's, it has no gradients where no argument requires one, and says so.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0], requires_grad=True)
    >>> CheckpointFunction.apply(lambda t: t.exp().sin().sum(), True, x).backward()
    >>> tj.allclose(x.grad, (x.exp().cos() * x.exp()).detach())
    True
    """

    @staticmethod
    def apply(run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """``run_function(*args)``, computed again in backward."""
        check_backward_validity(args)
        if any(isinstance(x, Tensor) and x.requires_grad for x in args):
            return checkpoint(run_function, *args, preserve_rng_state=preserve_rng_state)
        with no_grad():
            return run_function(*args)


def _infer_device_type(*args: Any) -> str:
    """The kind of device that tensors among ``args`` are on; PyTorch takes "cuda" where there is none but the host.

    >>> import tracejit as tj
    >>> _infer_device_type(tj.ones(2), 1)
    'cuda'
    """
    kinds = {x.device.type for x in args if isinstance(x, Tensor)} - {"cpu"}
    return min(kinds, default="cuda")


def _get_device_module(device: str = "cuda") -> Any:
    """The module for a kind of device.

    >>> _get_device_module("cuda").__name__
    'tracejit.cuda'
    """
    return getattr(sys.modules["tracejit"], device)


def _get_autocast_kwargs(device_type: str = "cuda") -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments by which ``autocast`` sets again what is set now: for a kind of device, and for the host.

    >>> _get_autocast_kwargs()[1]["enabled"]
    False
    """
    found = [
        {
            "enabled": is_autocast_enabled(kind),
            "dtype": get_autocast_dtype(kind),
            "cache_enabled": is_autocast_cache_enabled(),
        }
        for kind in (device_type, "cpu")
    ]
    return found[0], found[1]
