"""Optimizer: parameter groups, per-parameter state, and saving both; subclasses add one update rule."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.handle import RemovableHandle
from ..autograd.slots import gradient_of
from ..cuda.arrays import placed
from ..modes import MODES
from ..nn.tree import clear_grad
from ..ops.elementwise import cast
from ..ops.source import full
from ..tensor import Tensor
from ..types import TensorType
from ..varying import as_number
from .counters import Counters
from .group import ParamGroup
from .recorded import (
    OptimizerState,
    belongs,
    made_inside,
    recorded_rows,
    refuse_copies,
    refuse_inside,
)
from .state import Changes, StateTable

__all__ = ["Optimizer"]


class _Required:
    """The default of a hyperparameter that must be given."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base class of all optimizers.

    ``params`` is an iterable of tensors, of ``(name, tensor)`` pairs, or of dicts with ``params`` and hyperparameters
    of their own; ``defaults`` are the hyperparameters a group does not set. Raises ``TypeError`` for anything else and
    ``ValueError`` for no parameters, non-leaves, or a parameter in two groups.
    """

    #: Does the rule need to know how many steps a parameter has made?
    _counts = False

    def __init__(self, params: Any, defaults: Mapping[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        self.defaults = dict(defaults)
        self._own_changes = Changes()
        self.state: Any = StateTable(self._own_changes)
        self._counters = Counters()
        self.param_groups: list[ParamGroup] = []
        self._pre_hooks: dict[int, Callable[..., Any]] = {}
        self._post_hooks: dict[int, Callable[..., Any]] = {}
        self._stepped = False
        if MODES.recorder is not None:
            MODES.recorder.own.update({id(x): x for x in (self, self._own_changes)})
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    @property
    def _version(self) -> int:
        """How often the formula of a step changed: groups, flags, state tensors that appeared or were replaced."""
        return self._own_changes.count + sum(group._version for group in self.param_groups)

    def _changed(self) -> None:
        self._own_changes.note()

    # --- groups ---------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with hyperparameters of their own; missing ones are the defaults."""
        refuse_inside("add_param_group()", self)
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _named(param_group["params"])
        values = {**self.defaults, **param_group, "params": params}
        if names is not None:
            values["param_names"] = names
        for name, value in values.items():
            if value is required:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
        taken = {p for group in self.param_groups for p in group["params"]}
        if len(set(params)) != len(params) or not taken.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self._check(values)
        made = ParamGroup(values)
        belongs(made, self)
        self.param_groups.append(made)
        self._changed()

    def _check(self, group: Mapping[str, Any]) -> None:
        """Refuse impossible hyperparameters with ``ValueError``."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of every parameter, or overwrite them with zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_grad(parameter, set_to_none)

    # --- stepping -------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; ``closure`` recomputes and returns the loss."""
        for hook in tuple(self._pre_hooks.values()):
            hook(self, (closure,), {})
        loss = None
        if not isinstance(self.state, StateTable):  # replaced by a plain dict
            self.state = StateTable(self._own_changes, self.state)
            self._changed()
        refuse_copies(self)
        if MODES.recorder is not None and not made_inside(self):
            MODES.recorder.checks.append(OptimizerState.of(self))
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if gradient_of(p) is not None]
                if params:
                    self._update_group(group, params)
        if not self._stepped:  # a counter would be new state at every step
            self._stepped = True
        for hook in tuple(self._post_hooks.values()):
            hook(self, (closure,), {})
        return loss

    def _update_group(self, group: ParamGroup, params: list[Tensor]) -> None:
        """Update parameters that share hyperparameters."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def _numbers(self, group: ParamGroup, step: float) -> tuple[float, ...]:
        """What the rule of a group needs besides tensors at step ``step``, in double precision."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def _rows(self, group: ParamGroup, params: Sequence[Tensor]) -> list[tuple[Any, ...]]:
        """Count a step of each parameter; its numbers, as tensors while a program is recorded."""
        if MODES.recorder is not None and not made_inside(self):
            return recorded_rows(self, group, params)
        rows: dict[float, tuple[float, ...]] = {}
        found = []
        for parameter in params:
            step = self._next_step(parameter) if self._counts else 0.0
            if step not in rows:
                rows[step] = self._numbers(group, step)
            found.append(rows[step])
        return found

    def _slot(
        self,
        parameter: Tensor,
        name: str,
        value: float | Tensor = 0.0,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        """The state tensor ``name`` of ``parameter``, made on first use, in its shape unless another is given."""
        state = self.state[parameter]
        found: Tensor | None = state.get(name)
        if found is None:
            kind = parameter.spec
            if made_inside(self):
                begun = _begun(kind, value, shape)
            else:
                if isinstance(value, Tensor):
                    array = value.array.copy(order="C")
                else:
                    array = np.full(kind.shape if shape is None else shape, value, kind.dtype.np)
                    array = placed(array, parameter.get_device())
                begun = Tensor._wrap(array)
            found = state.begin(name, begun)
        return found

    def _counter(self, parameter: Tensor) -> Tensor:
        """How many steps ``parameter`` has made, as it is kept in its state."""
        state = self.state[parameter]
        step: Tensor | None = state.get("step")
        if step is None:
            step = state.begin("step", self._counters.make())
        return step

    def _next_step(self, parameter: Tensor) -> float:
        """Count one step of ``parameter``: the new number."""
        step = self._counter(parameter)
        if MODES.recorder is not None:
            MODES.recorder.counted[id(step)] = (step, 0)
        step.array[...] += 1
        step._writes.value += 1
        return float(step.array)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step."""
        return RemovableHandle(self._pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return RemovableHandle(self._post_hooks, hook)

    # --- saving ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and hyperparameters, with parameters replaced by their positions."""
        refuse_inside("state_dict() of an optimizer", self)
        order = [p for group in self.param_groups for p in group["params"]]
        position = {p: i for i, p in enumerate(order)}
        groups = []
        for group in self.param_groups:
            packed = {name: value for name, value in group.items() if name != "params"}
            groups.append({**packed, "params": [position[p] for p in group["params"]]})
        state = {position[p]: dict(values) for p, values in self.state.items() if p in position}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and hyperparameters; ``ValueError`` when groups or their sizes differ.

        State tensors are copied and converted to their parameter's dtype, except ``step``.
        """
        refuse_inside("load_state_dict() of an optimizer")
        saved = list(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(saved, self.param_groups, strict=True))
        if any(len(s["params"]) != len(g["params"]) for s, g in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        parameters = {
            index: p for s, g in pairs for index, p in zip(s["params"], g["params"], strict=True)
        }
        state = StateTable(self._own_changes)
        for index, values in state_dict["state"].items():
            parameter = parameters[index]
            state[parameter] = {
                k: _restored(k, v, parameter, self._counters) for k, v in values.items()
            }
        self.state = state
        for values, group in pairs:
            group.update(copy.deepcopy({k: v for k, v in values.items() if k != "params"}))
        self._changed()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            shown = [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
            lines += [f"Parameter Group {index}", *shown]
        return "\n".join([*lines, ")"])


def _begun(kind: TensorType, value: float | Tensor, shape: Sequence[int] | None) -> Tensor:
    """The first value of a state tensor, made by operations."""
    if isinstance(value, Tensor):
        return value.detach().contiguous().clone()  # type: ignore[no-any-return]
    made: Tensor = full(
        shape=kind.shape if shape is None else tuple(shape), value=value, dtype=kind.dtype
    )
    return made


def _named(params: Any) -> tuple[list[Tensor], list[str] | None]:
    """The tensors of a group, and their names if they came as pairs."""
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    items: list[Any] = [params] if isinstance(params, Tensor) else list(_iterable(params))
    names = None
    if items and all(isinstance(x, tuple) for x in items):
        names, items = [name for name, _ in items], [p for _, p in items]
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(item).__name__}"
            )
        if not (item.is_leaf or item._retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")
    return items, names


def _iterable(params: Any) -> Iterable[Any]:
    if not isinstance(params, Iterable):
        raise TypeError(f"params of a group must be iterable, got {type(params).__name__}")
    return params


def _restored(name: str, value: Any, parameter: Tensor, counters: Counters) -> Any:
    """One loaded state value, as this parameter keeps it."""
    if name == "step":
        number = value.array if isinstance(value, Tensor) else value
        return counters.make(float(number))
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    copied = Tensor._wrap(placed(value.array.copy(order="C"), parameter.get_device()))
    return cast(copied, dtype=parameter.dtype) if value.dtype.is_floating_point else copied


def check_at_least_zero(group: Mapping[str, Any], **labels: str) -> None:
    """``ValueError`` naming the first of the group's values that is negative (or nan)."""
    for name, label in labels.items():
        if not as_number(group[name]) >= 0.0:
            raise ValueError(f"Invalid {label}: {group[name]}")


def accepted(*, differentiable: bool, **flags: bool | None) -> dict[str, bool | None]:
    """Flags that choose among PyTorch's implementations: groups show them, and they change nothing here.

    Raises ``NotImplementedError`` for ``differentiable``, which would change what a step means.
    """
    if differentiable:
        raise NotImplementedError(
            "differentiable=True is not supported: write the update as tensor expressions to differentiate through it"
        )
    return {**flags, "differentiable": False}
