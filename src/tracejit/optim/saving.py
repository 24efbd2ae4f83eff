"""What ``state_dict`` of an optimizer gives, and taking it over again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..cuda.arrays import placed
from ..ops.elementwise import cast
from ..ops.slabs import copied
from ..tensor import Tensor
from .state import StateTable, plain

if TYPE_CHECKING:
    from .counters import Counters
    from .optimizer import Optimizer


def packed(optimizer: Optimizer) -> dict[str, Any]:
    """State and hyperparameters, with parameters replaced by their positions; other keys of the state stay."""
    order = [p for group in optimizer.param_groups for p in group["params"]]
    position = {p: i for i, p in enumerate(order)}
    groups = []
    for group in optimizer.param_groups:
        values = {name: value for name, value in group.items() if name != "params"}
        groups.append({**values, "params": [position[p] for p in group["params"]]})
    state = {
        position[key] if isinstance(key, Tensor) else key: plain(values)
        for key, values in optimizer.state.items()
        if key in position or not isinstance(key, Tensor)
    }
    return {"state": state, "param_groups": groups}


def attributes(optimizer: Optimizer) -> dict[str, Any]:
    """What copies get: all attributes, and the state where a subclass keeps it elsewhere.

    >>> import tracejit as tj
    >>> sorted(attributes(tj.optim.SGD([tj.ones(1)], lr=0.1)))[:2]
    ['_counters', '_optimizer_load_state_dict_post_hooks']
    """
    return {**optimizer.__dict__, "state": optimizer.state}


def unpack(optimizer: Optimizer, state_dict: Mapping[str, Any]) -> None:
    """Take over state and hyperparameters; ``ValueError`` when groups or their sizes differ.

    What is saved under other keys than the positions of parameters is taken over as it is.
    """
    saved = list(state_dict["param_groups"])
    if len(saved) != len(optimizer.param_groups):
        raise ValueError("loaded state dict has a different number of parameter groups")
    pairs = list(zip(saved, optimizer.param_groups, strict=True))
    if any(len(s["params"]) != len(g["params"]) for s, g in pairs):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )
    parameters = {
        index: p for s, g in pairs for index, p in zip(s["params"], g["params"], strict=True)
    }
    state = StateTable(optimizer._own_changes)
    counters = optimizer._counters_of("step") if optimizer._counts else None
    for key, values in state_dict["state"].items():
        if key in parameters:
            state[parameters[key]] = _restored("", values, parameters[key], counters)
        else:
            state[key] = values
    for values, group in pairs:
        group.update(copy.deepcopy({k: v for k, v in values.items() if k != "params"}))
    # Subclasses give groups of older versions what they lack in a method of their own.
    optimizer.__setstate__({"state": state, "param_groups": optimizer.param_groups})
    optimizer._changed()


def _restored(name: Any, value: Any, parameter: Tensor, counters: Counters | None) -> Any:
    """One loaded state value, as this parameter keeps it."""
    if name == "step" and counters is not None:
        number = value.array if isinstance(value, Tensor) else value
        return counters.make(float(number))
    if isinstance(value, dict):
        return {k: _restored(k, x, parameter, counters) for k, x in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_restored("", x, parameter, counters) for x in value)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    own = Tensor._wrap(placed(copied(value.array), parameter._device_index()))
    if name == "step" or not value.dtype.is_floating_point:
        return own
    return cast(own, dtype=parameter.dtype)
