"""The one door: every op call, on tensors or on IR values, goes through :func:`apply`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .autograd.node import OpNode
from .modes import MODES
from .ops.table import Movement, Op, set_dispatcher
from .tensor import Tensor

_NUMBERS = (bool, int, float)


def apply(op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run ``op`` on tensors and Python numbers (or write it down when a builder listens)."""
    modes = MODES
    if modes.builder is not None:
        return modes.builder.emit(op, operands, attributes)
    arrays = []
    requires_grad = False
    for position, x in enumerate(operands):
        if isinstance(x, Tensor):
            array = x._array
            arrays.append(x.array if array is None else array)
            requires_grad = requires_grad or x._requires_grad
        elif type(x) in _NUMBERS:
            arrays.append(x)
        else:
            number = _as_number(op, position, x)
            operands = (*operands[:position], number, *operands[position + 1 :])
            arrays.append(number)
    result = op.evaluate(arrays, attributes)
    out = Tensor._wrap(result)
    if isinstance(op, Movement) and op.is_view and _shares(result, arrays[0]):
        out._become_view(operands[0], op, attributes)
    if requires_grad and modes.grad:
        if op.differentiable and out.dtype.is_floating_point:
            OpNode.record(op, operands, attributes, out)
        if modes.inference:
            _refuse_inference(op)
    elif modes.inference:
        out._inference = True
    if modes.recorder is not None:
        modes.recorder.record(op, operands, attributes, out)
    return out


def _shares(result: Any, source: Any) -> bool:
    """Does a view op's result alias its operand (a reshape may have copied)?"""
    base = result.base
    if base is None:
        return result is source
    return base is source or (source.base is not None and base is source.base)


def _as_number(op: Op, position: int, value: Any) -> bool | int | float:
    """NumPy scalars count as Python numbers; anything else is an error."""
    if isinstance(value, np.generic) or (isinstance(value, _NUMBERS)):
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, _NUMBERS):
            return bool(value) if isinstance(value, bool) else value
    names = ("input", "other")
    name = names[position] if not op.variadic and position < 2 else f"#{position}"
    raise TypeError(
        f"{op.name}(): argument '{name}' (position {position + 1}) must be Tensor, not {type(value).__name__}"
    )


def _refuse_inference(op: Op) -> None:
    raise RuntimeError(f"{op.name}: inference tensors cannot be saved for backward")


set_dispatcher(apply)
