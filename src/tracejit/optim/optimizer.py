"""Optimizer: parameter groups, per-parameter state, and saving both; subclasses add one update rule."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import aligned
from ..autograd.grad_mode import enable_grad, set_grad_enabled
from ..autograd.handle import RemovableHandle
from ..autograd.slots import gradient_of
from ..cuda.arrays import placed
from ..errors import ArgumentError
from ..modes import MODES
from ..nn.tree import clear_grad
from ..ops.slabs import copied
from ..ops.source import full
from ..tensor import Tensor
from ..types import TensorType
from ..utils._foreach_utils import _group_tensors_by_device_and_dtype
from . import conventions
from .conventions import required
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
from .saving import attributes, packed, unpack
from .state import Changes, StateTable
from .step_hooks import (
    GLOBAL,
    Hooks,
    after_step,
    before_step,
    patch,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_hooks,
)

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

# Optimizers written for PyTorch find these here.
globals().update({name: getattr(conventions, name) for name in conventions.__all__})


class Optimizer:
    """Base class of all optimizers.

    ``params`` is an iterable of tensors, of ``(name, tensor)`` pairs, or of dicts with ``params`` and hyperparameters
    of their own; ``defaults`` are the hyperparameters a group does not set. With ``differentiable`` among them, updates
    have a history; other choices among PyTorch's implementations are accepted and change nothing. Raises ``TypeError``
    for anything else and ``ValueError`` for no parameters, non-leaves, or a parameter in two groups.
    """

    #: Does the rule need to know how many steps a parameter has made?
    _counts = False

    def __init__(self, params: Any, defaults: Mapping[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        self.defaults = dict(defaults)
        self._own_changes = Changes(type(self)._update_group is Optimizer._update_group)
        self.state: Any = StateTable(self._own_changes)
        self._counters: dict[str, Counters] = {}
        self.param_groups: list[ParamGroup] = []
        self._optimizer_step_pre_hooks: Hooks = {}
        self._optimizer_step_post_hooks: Hooks = {}
        self._optimizer_state_dict_pre_hooks: Hooks = {}
        self._optimizer_state_dict_post_hooks: Hooks = {}
        self._optimizer_load_state_dict_pre_hooks: Hooks = {}
        self._optimizer_load_state_dict_post_hooks: Hooks = {}
        if any(GLOBAL):
            self._patch_step_function()
        self._stepped = False
        if MODES.recorder is not None:
            MODES.recorder.own.update({id(x): x for x in (self, self._own_changes)})
        if not any(value is required for value in self.defaults.values()):
            self._check(self.defaults)  # before the parameters are looked at
        if hasattr(params, "parameters"):
            raise ArgumentError(
                f"optimizers take parameters, not a {type(params).__name__}",
                "Pass its parameters: model.parameters().",
            )
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
        params, names = _named(param_group["params"], bool(self.defaults.get("differentiable")))
        values = {**param_group, "params": params}
        if names is not None:
            values["param_names"] = names
        for name, value in self.defaults.items():
            values.setdefault(name, value)
        for name, value in values.items():
            if value is required:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
        with_names = "param_names" in values
        if any(("param_names" in group) != with_names for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"with{'' if with_names else 'out'} names to the optimizer"
            )
        taken = {p for group in self.param_groups for p in group["params"]}
        if len(set(params)) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        if not taken.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self._check(values)
        made = ParamGroup(values, self._own_changes.plain)
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
        args = (self,) if closure is None else (self, closure)
        for hook in tuple(before_step(self)):
            hook(self, args, {})
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
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                params = [p for p in group["params"] if gradient_of(p) is not None]
                if params:
                    self._update_group(group, params)
        if not self._stepped:  # a counter would be new state at every step
            self._stepped = True
        for hook in tuple(after_step(self)):
            hook(self, args, {})
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
        rows: dict[tuple[float, ...], tuple[float, ...]] = {}
        found = []
        for parameter in params:
            values = tuple(float(x.array) for x in self._follows(group, parameter))
            if values not in rows:
                rows[values] = self._numbers_of(group, values, 1)
            found.append(rows[values])
            self._move(group, parameter)
        return found

    def _follows(self, group: ParamGroup, parameter: Tensor) -> tuple[Tensor, ...]:
        """The 0-d state tensors that decide the numbers of a step, the step count first."""
        return (self._counter(parameter),) if self._counts else ()

    def _numbers_of(
        self, group: ParamGroup, values: tuple[float, ...], ahead: int
    ) -> tuple[float, ...]:
        """The numbers of the step that comes ``ahead`` of ``values``, what ``_follows`` gives."""
        return self._numbers(group, values[0] + ahead if values else 0.0)

    def _move(self, group: ParamGroup, parameter: Tensor) -> None:
        """Count one step of ``parameter``."""
        if self._counts:
            self._count(self._counter(parameter))

    def _after_steps(
        self, group: ParamGroup, found: Sequence[tuple[Tensor, ...]]
    ) -> Callable[[], None] | None:
        """What every replay of a step does to ``found``, by ``_follows``, besides counting."""
        return None

    def _slot(
        self,
        parameter: Tensor,
        name: str,
        value: complex | Tensor = 0.0,
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
                    array = copied(value.array)
                else:
                    size, index = kind.shape if shape is None else shape, parameter._device_index()
                    array = placed(aligned.full(size, value, kind.dtype.np), index)
                begun = Tensor._wrap(array)
            found = state.begin(name, begun)
        return found

    def _counters_of(self, name: str) -> Counters:
        """The memory of state tensors ``name`` with one number each."""
        if name not in self._counters:
            self._counters[name] = Counters(self.defaults.get("fused"))
        return self._counters[name]

    def _counter(self, parameter: Tensor) -> Tensor:
        """How many steps ``parameter`` has made, as it is kept in its state."""
        state = self.state[parameter]
        step: Tensor | None = state.get("step")
        return state.begin("step", self._counters_of("step").make()) if step is None else step

    def _count(self, step: Tensor) -> None:
        if MODES.recorder is not None:
            MODES.recorder.counted[id(step)] = (step, 0)
        MODES.before_write()
        step.array[...] += 1
        step._writes.value += 1

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step."""
        self._patch_step_function()
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        self._patch_step_function()
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def _patch_step_function(self) -> None:
        """Have a step that the class defines for itself call hooks, as those of the package do."""
        patch(type(self), Optimizer)

    profile_hook_step = staticmethod(with_hooks)

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
    ) -> dict[Any, Any]:
        """Lists of tensors by device and dtype; see the function of that name in ``tracejit.utils._foreach_utils``."""
        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    # --- saving ---------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``."""
        return RemovableHandle(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after ``state_dict``; what it returns is given instead, unless None."""
        return RemovableHandle(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; what it returns is loaded instead, unless None."""
        return RemovableHandle(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return RemovableHandle(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self) -> dict[str, Any]:
        """State and hyperparameters, with parameters replaced by their positions."""
        refuse_inside("state_dict() of an optimizer", self)
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        found = packed(self)
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            given = hook(self, found)
            found = found if given is None else given
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and hyperparameters; ``ValueError`` when groups or their sizes differ.

        State tensors are copied and converted to their parameter's dtype, except ``step``.
        """
        refuse_inside("load_state_dict() of an optimizer")
        state_dict = dict(state_dict)
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            given = hook(self, state_dict)
            state_dict = state_dict if given is None else given
        unpack(self, state_dict)
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    __getstate__ = attributes

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over attributes, of a pickled optimizer or (state and groups) of what is loaded."""
        self.__dict__.update(state)

    def __repr__(self) -> str:
        groups = []
        for index, group in enumerate(self.param_groups):
            shown = [f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params"]
            groups.append(f"\nParameter Group {index}\n{''.join(shown)}")
        return f"{type(self).__name__} ({''.join(groups)})"


def _begun(kind: TensorType, value: complex | Tensor, shape: Sequence[int] | None) -> Tensor:
    """The first value of a state tensor, made by operations."""
    if isinstance(value, Tensor):
        return value.detach().contiguous().clone()
    made: Tensor = full(
        shape=kind.shape if shape is None else tuple(shape), value=value, dtype=kind.dtype
    )
    return made


def _named(params: Any, differentiable: bool) -> tuple[list[Tensor], list[str] | None]:
    """The tensors of a group, and their names if they came as pairs."""
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    items: list[Any] = [params] if isinstance(params, Tensor) else list(_iterable(params))
    names = None
    pairs = [isinstance(x, tuple) for x in items]
    if any(pairs) and not all(pairs):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    if any(pairs):
        names, items = [name for name, _ in items], [p for _, p in items]
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(item).__name__}"
            )
        if not (differentiable or item.is_leaf or item._retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")
    return items, names


def _iterable(params: Any) -> Iterable[Any]:
    if not isinstance(params, Iterable):
        raise TypeError(f"params of a group must be iterable, got {type(params).__name__}")
    return params
