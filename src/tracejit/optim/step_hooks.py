"""Hooks of optimizer steps: those of all optimizers, and steps that classes define for themselves made to call them.

The package's own steps call hooks by themselves; others do from when their class has one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..autograd.handle import RemovableHandle
from ..modes import MODES
from ..trace.state.checks import Bind, Check

__all__ = ["register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

Hooks = dict[int, Callable[..., Any]]
#: The hooks of all optimizers: those called before steps, and those called after.
GLOBAL: tuple[Hooks, Hooks] = ({}, {})


def before_step(optimizer: Any) -> Iterator[Callable[..., Any]]:
    """What is called before a step of ``optimizer``."""
    yield from (*GLOBAL[0].values(), *optimizer._optimizer_step_pre_hooks.values())


def after_step(optimizer: Any) -> Iterator[Callable[..., Any]]:
    """What is called after a step of ``optimizer``."""
    yield from (*optimizer._optimizer_step_post_hooks.values(), *GLOBAL[1].values())


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step``, which calls the hooks of its optimizer; those before it may give it other arguments.

    >>> class Plain:
    ...     _optimizer_step_pre_hooks = {0: lambda optimizer, args, kwargs: (args, {"closure": 3})}
    ...     _optimizer_step_post_hooks = {}
    ...     step = with_hooks(lambda self, closure=None: closure)
    >>> Plain().step()
    3
    """

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        if MODES.recorder is not None:
            _depend_on_none()
        for hook in before_step(optimizer):
            given = hook(optimizer, args, kwargs)
            if given is None:
                continue
            if not isinstance(given, tuple) or len(given) != 2:
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got {given}."
                )
            args, kwargs = given
        result = step(*args, **kwargs)
        for hook in after_step(optimizer):
            hook(optimizer, args, kwargs)
        return result

    return hooked


@dataclass(eq=False, slots=True)
class NoneForAll(Check):
    """No hook of all optimizers is there."""

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        before, after = map(bind, GLOBAL)
        return f"{before} or {after}"

    def difference(self) -> str | None:
        """What changed, or None."""
        return f"{self.name} were none, and are some" if any(GLOBAL) else None


def _depend_on_none() -> None:
    """A recorded step that its class defines has no check of its own: nothing would look at what such hooks read."""
    if any(GLOBAL):
        MODES.recorder.unsupported("a hook of all optimizers around a step that a class defines")
        return
    MODES.recorder.checks.append(NoneForAll(GLOBAL, "the hooks of all optimizers"))


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    >>> register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: None).remove()
    """
    _patch_all()
    return RemovableHandle(GLOBAL[0], hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer.

    >>> register_optimizer_step_post_hook(lambda optimizer, args, kwargs: None).remove()
    """
    _patch_all()
    return RemovableHandle(GLOBAL[1], hook)


def _patch_all() -> None:
    """Have the steps of all optimizer classes call hooks; those defined later do when one of them is made."""
    from .optimizer import Optimizer

    waiting: list[type] = [Optimizer]
    while waiting:
        cls = waiting.pop()
        patch(cls, Optimizer)
        waiting += cls.__subclasses__()


def patch(cls: Any, base: Any) -> None:
    """Have the step that ``cls`` or a class it derives from defines for itself call hooks.

    Whoever gives :class:`~tracejit.optim.Optimizer` an update rule has steps that do (a step of its own calls such a
    step in turn); and so has whoever leaves the step as it is.
    """
    own_rule = getattr(cls, "_update_group", None) is base._update_group
    if own_rule and cls.step is not base.step and not getattr(cls.step, "hooked", False):
        cls.step = with_hooks(cls.step)
        cls.step.hooked = True
