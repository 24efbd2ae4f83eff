"""Module hooks: functions around ``forward``, and around the part of backward that belongs to a module."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.handle import RemovableHandle
from ..autograd.node import Edge, Node
from ..autograd.saved import alias_of
from ..errors import user_line
from ..modes import MODES
from ..ops.source import full
from ..tensor import Tensor
from .structure import changed

Hook = Callable[..., Any]


class HookHandle(RemovableHandle):
    """Removes a module's hook, and counts that as a change of the module."""

    def __init__(self, hooks: HookTable, hook: Any, module: Any, prepend: bool) -> None:
        super().__init__(hooks, hook, prepend)
        self._registry = weakref.ref(hooks)
        self._module = weakref.ref(module)
        changed(module)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        hooks, module = self._registry(), self._module()
        if hooks is not None and hooks.pop(self.id, None) is not None and module is not None:
            changed(module)


class HookTable(dict[int, Any]):
    """Hooks of one kind by id, in the order they run (a class of its own so that handles can refer to it weakly)."""

    __slots__ = ("__weakref__",)


class Hooks:
    """All hooks of one module, or those of all modules; and what runs in the place of its calls."""

    #: A module and its call, compiled, once it was asked for. Copies and files of the module go without it.
    compiled: tuple[Any, Callable[..., Any]] | None = None

    def __init__(self) -> None:
        self.forward_pre = HookTable()
        self.forward = HookTable()
        self.backward_pre = HookTable()
        self.backward = HookTable()
        self.last_step = HookTable()
        self.state_pre = HookTable()
        self.state_post = HookTable()
        self.load_pre = HookTable()
        self.load_post = HookTable()
        self.new_parameter = HookTable()
        self.new_buffer = HookTable()
        self.new_module = HookTable()

    def add(self, kind: str, module: Any, entry: Any, prepend: bool) -> HookHandle:
        """Add ``entry`` to the table called ``kind``."""
        return HookHandle(getattr(self, kind), entry, module, prepend)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "compiled"}


#: Hooks of all modules, which run before a module's own.
EVERYWHERE = Hooks()
#: How often one of them came or went, in a list so that a guard can hold the cell itself.
EVERYWHERE_CHANGES: list[int] = [0]
#: How many of them there are: without any, calling a module is calling its ``forward``.
EVERYWHERE_PRESENT: list[int] = [0]


class EverywhereHandle(RemovableHandle):
    """Removes a hook of all modules."""

    def __init__(self, kind: str, entry: Any) -> None:
        super().__init__(getattr(EVERYWHERE, kind), entry)
        EVERYWHERE_CHANGES[0] += 1
        EVERYWHERE_PRESENT[0] += 1

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        if self._registry.pop(self.id, None) is not None:
            EVERYWHERE_CHANGES[0] += 1
            EVERYWHERE_PRESENT[0] -= 1


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What the hooks of all modules make of a parameter, buffer or submodule that ``module`` gets."""
    for hook in tuple(getattr(EVERYWHERE, kind).values()):
        changed_to = hook(module, name, value)
        value = value if changed_to is None else changed_to
    return value


def hooks_around(module: Any, kind: str) -> tuple[Any, ...]:
    """The hooks of one kind that a call of ``module`` runs, in order."""
    own = module.__dict__.get("_hooks")
    everywhere = getattr(EVERYWHERE, kind).values()
    return (*everywhere, *(() if own is None else getattr(own, kind).values()))


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of ``module`` does where there are hooks: runs compiled if that was asked for."""
    own = module.__dict__.get("_hooks")
    if own is not None and own.compiled is not None and own.compiled[0] is module:
        return own.compiled[1](*args, **kwargs)
    return call_plainly(module, args, kwargs)


def call_plainly(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``module.forward`` with hooks around it."""
    before, after = hooks_around(module, "backward_pre"), hooks_around(module, "backward")
    for hook, with_kwargs in hooks_around(module, "forward_pre"):
        args, kwargs = _run_pre_hook(module, hook, with_kwargs, args, kwargs)
    around = _AroundBackward(module, before, after) if (before or after) and MODES.grad else None
    if around is not None:
        args = around.enter(args)
    try:
        result = module.forward(*args, **kwargs)
    except BaseException:
        _run_always(module, args, kwargs)
        raise
    for hook, with_kwargs, _ in hooks_around(module, "forward"):
        new = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
        result = result if new is None else new
    at_last_step = hooks_around(module, "last_step")
    if at_last_step:
        _hook_last_step(module, at_last_step, result)
    return result if around is None else around.leave(result)


def _hook_last_step(module: Any, hooks: tuple[Any, ...], result: Any) -> None:
    """Show the gradients of the operation that made ``result`` (the first tensor in it) to ``hooks``."""
    while not isinstance(result, Tensor):
        values = result.values() if isinstance(result, dict) else result
        result = next(x for x in values if isinstance(x, (Tensor, dict, list, tuple)))
    if result.grad_fn is not None:
        for hook in hooks:
            result.grad_fn.register_hook(functools.partial(hook, module))


def _run_pre_hook(
    module: Any, hook: Hook, with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if with_kwargs:
        new = hook(module, args, kwargs)
        if new is None:
            return args, kwargs
        if not (isinstance(new, tuple) and len(new) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {new}."
            )
        return new[0], new[1]
    new = hook(module, args)
    if new is None:
        return args, kwargs
    return (new if isinstance(new, tuple) else (new,)), kwargs


def _run_always(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """After a failed forward, hooks registered with ``always_call`` still see the call (with no result)."""
    for hook, with_kwargs, always in hooks_around(module, "forward"):
        if always:
            _ = hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)


class _AroundBackward:
    """Two identity nodes, at the inputs and outputs of a module, that show the gradients passing by to its hooks.

    The hooks are those of when the module was called: what comes or goes afterwards is for later calls.
    """

    def __init__(self, module: Any, before: tuple[Hook, ...], after: tuple[Hook, ...]) -> None:
        self.module, self.before, self.after = module, before, after
        self.grad_output: tuple[Any, ...] | None = None
        self.count = 0
        self.inputs_need_grad = False
        if MODES.recorder is not None:
            MODES.recorder.hooked("a module's backward hook inside a compiled function")

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, passed through the node that reports ``grad_input``."""
        chosen = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
        self.count = len(args)
        self.inputs_need_grad = bool(chosen)
        if not chosen:
            return args

        kinds = [args[i].spec for i in chosen]

        def seen(grads: list[Any]) -> Sequence[Any]:
            if self.grad_output is None:
                return grads  # they came by another way than the module's results: a pass through gradients
            grads = [
                full(shape=kind.shape, value=0, dtype=kind.dtype) if g is None else g
                for g, kind in zip(grads, kinds, strict=True)
            ]
            by_position = dict(zip(chosen, grads, strict=True))
            grad_input = self.run_backward(tuple(by_position.get(i) for i in range(len(args))))
            return [grad_input[i] for i in chosen]

        passed = _pass_through([args[i] for i in chosen], seen)
        result = list(args)
        for position, tensor in zip(chosen, passed, strict=True):
            result[position] = tensor
        return tuple(result)

    def leave(self, result: Any) -> Any:
        """The result, passed through the node that reports ``grad_output``."""
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        chosen = [i for i, x in enumerate(outputs) if isinstance(x, Tensor) and x.requires_grad]
        if not chosen:
            return result

        def seen(grads: list[Any]) -> Sequence[Any]:
            by_position = dict(zip(chosen, grads, strict=True))
            grad_output = tuple(by_position.get(i) for i in range(len(outputs)))
            for hook in self.before:
                grad_output = _replaced(grad_output, hook(self.module, grad_output), "grad_output")
            self.grad_output = grad_output
            if not self.inputs_need_grad:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    f"inputs require gradients. ({user_line()})",
                    UserWarning,
                    stacklevel=2,
                )
                self.run_backward((None,) * self.count)
            return [grad_output[i] for i in chosen]

        passed = iter(_pass_through([outputs[i] for i in chosen], seen))
        new = [next(passed) if i in chosen else x for i, x in enumerate(outputs)]
        if not isinstance(result, (tuple, list)):
            return new[0]
        return type(result)(*new) if hasattr(result, "_fields") else type(result)(new)

    def run_backward(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the backward hooks make of ``grad_input``."""
        for hook in self.after:
            new = hook(self.module, grad_input, self.grad_output)
            if new is not None and not self.inputs_need_grad:
                if not isinstance(new, tuple) or any(g is not None for g in new):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
                continue
            grad_input = _replaced(grad_input, new, "grad_input")
        self.grad_output = None
        return grad_input


def _replaced(grads: tuple[Any, ...], new: Any, what: str) -> tuple[Any, ...]:
    """What a backward hook returned in place of ``grads``."""
    if new is None:
        return grads
    replaced: tuple[Any, ...] = new if isinstance(new, tuple) else (new,)
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {what}, got {len(replaced)}, "
            f"but expected {len(grads)}"
        )
    return replaced


class BackwardHookFunctionBackward(Node):
    """An identity in the graph that lets a function look at (and replace) the gradients passing by."""

    __slots__ = ("seen",)
    always_runs = True

    def __init__(self, edges: Sequence[Edge | None], seen: Callable[[list[Any]], Any]) -> None:
        super().__init__(edges, len(edges))
        self.seen = seen

    def apply(self, grads: list[Any]) -> Sequence[Any]:
        """Show the gradients, and pass on what comes back."""
        return list(self.seen(grads))

    def come_by(self) -> Sequence[Any]:
        """The same without gradients."""
        return self.apply([None] * self.n_outputs)


def _pass_through(tensors: list[Tensor], seen: Callable[[list[Any]], Any]) -> list[Tensor]:
    node = BackwardHookFunctionBackward([t._edge() for t in tensors], seen)
    passed = []
    for number, tensor in enumerate(tensors):
        other = alias_of(tensor)
        other._requires_grad, other._grad_fn, other._output_nr = True, node, number
        passed.append(other)
    return passed
