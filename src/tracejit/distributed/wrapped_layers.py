"""Layers around others, whose part of the forward pass is computed again in backward, or kept on the host until then.

The names of parameters, in ``named_parameters`` and in files, are those of the model without such layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from ..autograd.graph import save_on_cpu
from ..nn.module import Module
from ..utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = f"{_CHECKPOINT_WRAPPED_MODULE}."


class CheckpointImpl(Enum):
    """Which of two ways PyTorch goes; here both are one."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


def _rename(state: dict[str, Any], old: str, new: str) -> None:
    """Give what begins with ``old`` names that begin with ``new``."""
    for name in [name for name in state if old != new and name.startswith(old)]:
        state[new + name[len(old) :]] = state.pop(name)


class ActivationWrapper(Module):
    """A layer that stands around another one: attributes and items are those of the other."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises ``ValueError``: a class derived from this one says what is done."""
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key: Any) -> Any:
        """An item of the layer inside."""
        inside: Any = self._checkpoint_wrapped_module
        return inside[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Parameters by the names that they have without such layers."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    @staticmethod
    def _post_state_dict_hook(
        module: Module, state_dict: dict[str, Any], prefix: str, *_: Any
    ) -> dict[str, Any]:
        _rename(state_dict, prefix + _CHECKPOINT_PREFIX, prefix)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(
        module: Module, state_dict: dict[str, Any], prefix: str, *_: Any
    ) -> None:
        _rename(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


class OffloadWrapper(ActivationWrapper):
    """A layer whose tensors for backward wait on the host."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer inside returns."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A layer that is computed again in backward, by ``checkpoint_fn`` or ``utils.checkpoint.checkpoint``."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = partial(
                checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT
            )
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer inside returns."""
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """A layer around ``module``, which is computed again in backward.

    >>> import tracejit as tj
    >>> list(checkpoint_wrapper(tj.nn.Linear(1, 1)).state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """A layer around ``module``, whose tensors for backward wait on the host.

    >>> import tracejit as tj
    >>> offload_wrapper(tj.nn.Linear(2, 1)).in_features
    2
    """
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Put ``checkpoint_wrapper_fn`` of them in the place of all layers in ``model`` that ``check_fn`` chooses.

    Layers inside come first, and ``model`` itself is never replaced. ``auto_wrap_policy`` is asked instead, if given,
    with ``module``, ``recurse`` and ``nonwrapped_numel``: whether to go on inside, and whether to choose.

    >>> import tracejit as tj
    >>> model = tj.nn.Sequential(tj.nn.Linear(1, 1), tj.nn.ReLU())
    >>> apply_activation_checkpointing(model, check_fn=lambda layer: isinstance(layer, tj.nn.Linear))
    >>> [type(layer).__name__ for layer in model]
    ['CheckpointWrapper', 'ReLU']
    """

    def chosen(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
        return recurse or check_fn(module)

    _replace(model, auto_wrap_policy or chosen, checkpoint_wrapper_fn)


def _replace(module: Module, policy: Callable[..., bool], wrap: Callable[[Module], Module]) -> int:
    """Wrap what is chosen among the layers in ``module``; how many elements these have."""
    free = sum(p.numel() for p in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=free):
        return 0
    done = 0
    for name, child in list(module.named_children()):
        all_of_it = sum(p.numel() for p in child.parameters())
        inside = _replace(child, policy, wrap)
        looked_into = policy(module=child, recurse=True, nonwrapped_numel=all_of_it)
        if looked_into and policy(module=child, recurse=False, nonwrapped_numel=all_of_it - inside):
            setattr(module, name, wrap(child))
            inside = all_of_it
        done += inside
    return done
