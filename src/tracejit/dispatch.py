"""The one door: every op call, on tensors or on IR values, goes through :func:`apply`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .autograd.op_node import OpNode
from .cuda.arrays import MODULES, device_index, on_device, placed
from .dtypes import DType, float32, float64, get_default_dtype
from .errors import ArgumentError, DeviceError, HostMemoryError
from .meta import ANY, META, MetaArray, is_meta, meta_array
from .mirrored import Mirrored, mirrored
from .modes import MODES
from .ops.complex_numbers import complex_of_parts
from .ops.elementwise import cast, div, mul
from .ops.keys import making_device
from .ops.memory_views import conj_view, neg_view
from .ops.source import literal
from .ops.table import Op, Source, set_dispatcher
from .ops.tensors_only import as_tensor_hint
from .tensor import Tensor
from .varying import is_varying, plain

_NUMBERS = (bool, int, float)
_COMPLEX = (complex, np.complexfloating)
#: Types of options, and of what is in rows of them, that are as they have to be.
_OURS = frozenset({int, bool, float, str, type(None), DType})


def apply(
    op: Op,
    operands: tuple[Any, ...],
    attributes: dict[str, Any],
    given: tuple[Any, ...] | None = None,
) -> Any:
    """Run ``op`` on tensors and Python numbers (or write it down when a builder listens).

    ``given`` are the operands as tape and recorder see them: with the numbers that may differ from call to call.
    """
    modes = MODES
    if modes.builder is not None:
        return modes.builder.emit(op, operands, attributes)
    if modes.recorder is not None and (
        (heard := _heard(op, operands, attributes, given)) is not None
    ):
        return heard
    recorder = modes.recorder
    arrays = []
    requires_grad = is_view = False
    for x in operands:
        if isinstance(x, Tensor):
            array = x._array
            arrays.append(x.array if array is None else array)
            if x._requires_grad or (x._base is not None and x._base._requires_grad):
                requires_grad = True
        elif type(x) in _NUMBERS:
            arrays.append(x)
        else:
            return _beside(op, operands, attributes)
    if MODULES or ANY[0] or (op.is_view and _mirrors(op, operands)):
        out, is_view = _elsewhere(op, operands, arrays, attributes)
    else:
        out = Tensor._wrap(_evaluated(op, arrays, attributes))
    if op.is_view and (is_view or _shows(op, out, arrays)):
        out._become_view(operands[0], op, attributes)
    elif modes.inference:
        out._inference = True
    if requires_grad and op.grads and modes.grad and out.spec.dtype.is_differentiable:
        OpNode.record(op, given or operands, attributes, out)
    if recorder is not None:
        recorder.record(op, given or operands, attributes, out, given is not None)
    return out


def _evaluated(op: Op, arrays: list[Any], attributes: dict[str, Any]) -> Any:
    """What the op gives; ``RuntimeError`` where there is no memory for it, which NumPy says with other classes."""
    try:
        return op.evaluate(arrays, attributes)
    except (MemoryError, ValueError) as error:
        text = str(error)
        vast = text.startswith(("array is too big", "Maximum allowed"))
        if isinstance(error, MemoryError) or vast:
            raise HostMemoryError(f"{op.name}: {text}") from error
        raise


def _heard(
    op: Op,
    operands: tuple[Any, ...],
    attributes: dict[str, Any],
    given: tuple[Any, ...] | None,
) -> Tensor | None:
    """The result in a recording that foresaw it, or has it done otherwise than ever; None where it is as ever."""
    if MODES.recorder.foresee is not None and given is None:
        foreseen: Tensor | None = MODES.recorder.foresee(op, operands, attributes)
        if foreseen is not None:
            return foreseen
    plain = _numbers_of(attributes)
    if plain is not attributes:
        out: Tensor = apply(op, operands, plain, given)
        return out
    return _otherwise(MODES.recorder, op, operands, attributes, given)


def _otherwise(
    recorder: Any,
    op: Op,
    operands: tuple[Any, ...],
    attributes: dict[str, Any],
    given: tuple[Any, ...] | None,
) -> Tensor | None:
    """The result in a recording that watches all calls, or that puts this one off; None where it is as ever."""
    if recorder.watched is not None and not MODES.saved_hooks:
        watched: Tensor = recorder.watched.apart(recorder, apply, op, operands, attributes, given)
        return watched
    out: Tensor | None = None
    if MODES.deferral is not None:
        out = MODES.deferral.take(op, operands, attributes)
    if out is None:
        return None
    if MODES.inference and out._base is None:
        out._inference = True
    tracked = any(x.requires_grad for x in operands if isinstance(x, Tensor))
    if tracked and op.grads and MODES.grad and out.spec.dtype.is_differentiable:
        OpNode.record(op, given or operands, attributes, out)
    recorder.record(op, given or operands, attributes, out, given is not None)
    return out


def _mirrors(op: Op, operands: tuple[Any, ...]) -> bool:
    """Does a view mirror memory, or show what does?"""
    if op is conj_view or op is neg_view:
        return True
    return type(getattr(operands[0], "_block", None)) is Mirrored


def _shows(op: Op, out: Tensor, arrays: list[Any]) -> bool:
    """Does the result of a view op show its operand (a reshape may have copied)?"""
    return op.in_graphs is not None or _shares(out._array, arrays[0])


def _seen_through(
    op: Op, operands: tuple[Any, ...], arrays: list[Any], attributes: dict[str, Any]
) -> tuple[Tensor, bool]:
    """A view of what is mirrored, or one that mirrors; and whether it is a view, for a reshape may have copied."""
    block = operands[0]._block
    turned = type(block) is Mirrored
    memory = block.memory if turned else arrays[0]
    if op is conj_view or op is neg_view:
        shown, turned = memory[...], not turned
    else:
        shown = op.evaluate([memory, *arrays[1:]], attributes)
        if op.in_graphs is None and not _shares(shown, memory):
            return Tensor._wrap(mirrored(shown)), False
    out = Tensor._wrap(None if turned else shown)
    if turned:
        out._block = Mirrored(shown)
    return out, True


def _elsewhere(
    op: Op, operands: tuple[Any, ...], arrays: list[Any], attributes: dict[str, Any]
) -> tuple[Tensor, bool]:
    """The result where tensors are on devices, without memory or mirrored, and whether it is known as a view."""
    if op.is_view and _mirrors(op, operands):
        return _seen_through(op, operands, arrays, attributes)
    if ANY[0] and _lacks_memory(op, arrays):
        result, is_view = _shown(op, operands, arrays, attributes)
        return Tensor._wrap(result), is_view
    if not MODULES:
        return Tensor._wrap(_evaluated(op, arrays, attributes)), False
    index, unplaced = _agree(op, operands, arrays)
    evaluate = partial(_evaluated, op) if index < 0 else op.evaluate
    result = on_device(index, evaluate, arrays, attributes)
    out = Tensor._wrap(result)
    out._unplaced = unplaced
    return out, False


def _numbers_of(attributes: dict[str, Any]) -> dict[str, Any]:
    """Options of an op with Python numbers for tensors, on which a recording then depends, and for NumPy's scalars."""
    for value in attributes.values():
        kind = type(value)
        if kind not in _OURS and not (kind is tuple and _OURS.issuperset(map(type, value))):
            break
    else:
        return attributes
    if not any(map(_is_foreign, attributes.values())):
        return attributes
    return {name: _as_numbers(value) for name, value in attributes.items()}


def _is_foreign(value: Any) -> bool:
    """Is an option, which is a number or a row of numbers, given as a tensor or as a scalar of NumPy?"""
    return isinstance(value, (Tensor, np.generic)) or (
        type(value) in (tuple, list) and any(map(_is_foreign, value))
    )


def _as_numbers(value: Any) -> Any:
    """The option as plain numbers."""
    if isinstance(value, (Tensor, np.generic)):
        return value.item()
    return type(value)(map(_as_numbers, value)) if _is_foreign(value) else value


def _agree(op: Op, operands: tuple[Any, ...], arrays: list[Any]) -> tuple[int, bool]:
    """Bring the operands to one device: its number, and whether it is the host though nobody put them there.

    Single numbers go where the others are, and so does what library code made out of nothing.
    """
    index = max(map(device_index, arrays), default=-1)
    if index < 0:
        made = isinstance(op, Source)
        return -1, made or all(x._unplaced for x in operands if isinstance(x, Tensor))
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor) or device_index(arrays[i]) == index:
            continue
        if device_index(arrays[i]) >= 0 or not (x._unplaced or arrays[i].ndim == 0):
            raise DeviceError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{' and '.join(sorted({str(t.device) for t in operands if isinstance(t, Tensor)}))}! "
                f"(in {op.name})",
                "Move one with .to(device), or make it there with device=.",
            )
        arrays[i] = placed(arrays[i], index)
    return index, False


def _beside(op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run ``op`` where something is beside tensors that is neither one nor a plain number."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    factor = (op is mul or op is div) and len(tensors) == 1 and any(map(is_varying, operands))
    if factor and not tensors[0].ndim and tensors[0].dtype.is_half:
        # The number becomes a 0-d tensor, and two of these have the wider dtype, unlike one beside a number.
        wide = (cast(x, dtype=float32) if isinstance(x, Tensor) else x for x in operands)
        return cast(op(*wide), dtype=tensors[0].dtype)
    return apply(op, with_numbers(op, operands), attributes, with_varying(op, operands))


def _lacks_memory(op: Op, arrays: list[Any]) -> bool:
    """Is this an operation on tensors without memory, or are tensors made like that?"""
    if any(map(is_meta, arrays)):
        if MODES.recorder is not None:
            MODES.recorder.unsupported("a tensor without memory inside a compiled function")
        return True
    return not arrays and isinstance(op, Source) and making_device() == META


def _shown(
    op: Op, operands: tuple[Any, ...], arrays: list[Any], attributes: dict[str, Any]
) -> tuple[MetaArray, bool]:
    """What ``op`` gives, without its numbers, and whether that is a view: NumPy's. All else tells the type rule."""
    if op.dynamic or op.tells_values:
        raise NotImplementedError(
            f"{op.name}: the shape of the result hangs on values, and a meta tensor has none"
        )
    if op.is_view and is_meta(arrays[0]):
        found = op.evaluate(arrays, attributes)
        if _shares(found, arrays[0]) or np.shares_memory(found, arrays[0]):
            return found.view(MetaArray), True
    types = [x.spec if isinstance(x, Tensor) else x for x in operands]
    kind = op.infer(types, attributes)
    return meta_array(kind.shape, kind.dtype.np), False


def _shares(result: Any, source: Any) -> bool:
    """Does a view op's result alias its operand (a reshape may have copied)?"""
    base = result.base
    if base is None:
        return result is source
    return base is source or (source.base is not None and base is source.base)


def with_numbers(op: Op, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy scalars and subclasses of numbers as Python numbers, complex ones as tensors; or an error."""
    operands = tuple(_complex(x, operands) if isinstance(x, _COMPLEX) else x for x in operands)
    return tuple(
        x if isinstance(x, Tensor) or type(x) in _NUMBERS else _as_number(op, position, x)
        for position, x in enumerate(operands)
    )


def _complex(value: Any, operands: tuple[Any, ...]) -> Tensor:
    """A complex number as a 0-d tensor, as precise as the tensors it meets."""
    kinds = [x.dtype.to_real() for x in operands if isinstance(x, Tensor)]
    wide = float64 in kinds or get_default_dtype() is float64
    parts = literal(values=(value.real, value.imag), shape=(2,), dtype=float64 if wide else float32)
    made: Tensor = complex_of_parts(parts)
    return made


def with_varying(op: Op, operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The operands with varying numbers in them, if there are any to tell a recorder of."""
    if MODES.recorder is None or not any(map(is_varying, operands)):
        return None
    return tuple(
        x if isinstance(x, Tensor) or type(x) in _NUMBERS or is_varying(x) else _as_number(op, i, x)
        for i, x in enumerate(operands)
    )


def _as_number(op: Op, position: int, value: Any) -> bool | int | float:
    value = plain(value)
    if isinstance(value, np.generic):
        value = value.item()
    for kind in _NUMBERS:
        if isinstance(value, kind):
            number: bool | int | float = kind(value)
            return number
    names = ("input", "other")
    name = names[position] if not op.variadic and position < 2 else f"#{position}"
    raise ArgumentError(
        f"{op.name}(): argument '{name}' (position {position + 1}) must be Tensor, "
        f"not {type(value).__name__}",
        as_tensor_hint(value),
    )


set_dispatcher(apply)
