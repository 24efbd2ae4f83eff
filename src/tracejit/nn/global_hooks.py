"""Hooks of all modules: they run at every call of any module, before its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .hooks import EVERYWHERE, EverywhereHandle

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> EverywhereHandle:
    """Call ``hook(module, args)`` before every ``forward``; what it returns replaces the arguments.

    >>> import tracejit as tj
    >>> with register_module_forward_pre_hook(lambda module, args: (args[0] * 2,)):
    ...     tj.nn.Identity()(tj.ones(2)).tolist()
    [2.0, 2.0]
    """
    return EverywhereHandle("forward_pre", (hook, False))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> EverywhereHandle:
    """Call ``hook(module, args, output)`` after every ``forward``; what it returns replaces the output.

    >>> import tracejit as tj
    >>> called = []
    >>> handle = register_module_forward_hook(lambda module, *_: called.append(type(module).__name__))
    >>> _ = tj.nn.Sequential(tj.nn.ReLU())(tj.ones(2))
    >>> handle.remove()
    >>> called
    ['ReLU', 'Sequential']
    """
    return EverywhereHandle("forward", (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> EverywhereHandle:
    """Call ``hook(module, grad_output)`` before the backward of every module; what it returns replaces ``grad_output``.

    >>> import tracejit as tj
    >>> x = tj.ones(1, requires_grad=True)
    >>> with register_module_full_backward_pre_hook(lambda module, grads: (grads[0] * 3,)):
    ...     tj.nn.Identity()(x).backward()
    >>> x.grad.tolist()
    [3.0]
    """
    return EverywhereHandle("backward_pre", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> EverywhereHandle:
    """Call ``hook(module, grad_input, grad_output)`` after the backward of every module.

    What it returns replaces ``grad_input``.

    >>> import tracejit as tj
    >>> x = tj.ones(1, requires_grad=True)
    >>> with register_module_full_backward_hook(lambda module, grads, _: (grads[0] * 3,)):
    ...     tj.nn.Identity()(x).backward()
    >>> x.grad.tolist()
    [3.0]
    """
    _one_kind(EVERYWHERE.last_step)
    return EverywhereHandle("backward", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> EverywhereHandle:
    """Call ``hook(module, grad_input, grad_output)`` with the gradients of the last operation of every module.

    An older form of :func:`register_module_full_backward_hook`: ``RuntimeError`` beside one of those.

    >>> import tracejit as tj
    >>> x = tj.ones(1, requires_grad=True)
    >>> with register_module_backward_hook(lambda module, grads, _: (grads[0] * 3,)):
    ...     tj.nn.ReLU()(x).backward()
    >>> x.grad.tolist()
    [3.0]
    """
    _one_kind(EVERYWHERE.backward)
    return EverywhereHandle("last_step", hook)


def _one_kind(others: Any) -> None:
    if others:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> EverywhereHandle:
    """Call ``hook(module, name, parameter)`` for every parameter a module gets; what it returns replaces it.

    >>> import tracejit as tj
    >>> with register_module_parameter_registration_hook(lambda module, name, x: print(name)):
    ...     _ = tj.nn.Linear(1, 1)
    weight
    bias
    """
    return EverywhereHandle("new_parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> EverywhereHandle:
    """Call ``hook(module, name, buffer)`` for every buffer a module gets; what it returns replaces it.

    >>> import tracejit as tj
    >>> with register_module_buffer_registration_hook(lambda module, name, x: print(name)):
    ...     tj.nn.Module().register_buffer("table", tj.ones(2))
    table
    """
    return EverywhereHandle("new_buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> EverywhereHandle:
    """Call ``hook(module, name, submodule)`` for every submodule a module gets; what it returns replaces it.

    >>> import tracejit as tj
    >>> with register_module_module_registration_hook(lambda module, name, child: print(name, child)):
    ...     _ = tj.nn.Sequential(tj.nn.ReLU())
    0 ReLU()
    """
    return EverywhereHandle("new_module", hook)
