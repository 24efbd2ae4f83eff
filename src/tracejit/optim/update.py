"""Running an update rule: on arrays when eager, on tensors while a program is recorded or the step is differentiated.

A rule is one function ``rule(p, g, state, h, ...) -> (new p, new state)`` of operators and the functions in ``maths``,
so the same text serves both. Eagerly it runs on flat pieces that fit the cache: its temporaries never leave it, and
small parameters pay for NumPy calls only. While recording, it runs on whole tensors and every step lands in the graph,
where the updates of all parameters fuse.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import config, dtypes
from ..cuda.arrays import is_on_device, is_writeable
from ..meta import ANY
from ..mirrored import Mirrored
from ..modes import MODES
from ..ops.complex_numbers import complex_of_parts, parts_of_complex
from ..ops.elementwise import cast
from ..tensor import Tensor
from .fused import update_fused

Rule = Callable[..., tuple[Any, tuple[Any, ...]]]

_PIECE_BYTES = 1 << 18


def update(
    rule: Rule,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: Sequence[tuple[Tensor, ...]],
    hyper: Sequence[tuple[Any, ...]],
    *,
    fused: bool | None = None,
    **flags: Any,
) -> None:
    """Replace every parameter and its state tensors in place by what ``rule`` makes of them.

    ``hyper`` holds per parameter the rule's scalars: Python floats, or 0-d tensors while recording. With ``fused`` the
    whole step is one program of compiled kernels, with the same numbers; on the host it is one after some steps unless
    ``fused`` is False. Where gradients are enabled, the updates are differentiable.
    """
    apart = len(set(params)) == len(params)
    whole = apart and not any(p.dtype.is_complex for p in params)
    if MODES.grad and MODES.recorder is not None:
        MODES.recorder.unsupported("a differentiable step of an optimizer")
    noted, begun = None, time.perf_counter()
    heard = MODES.listening or (ANY[0] and any(_has_no_memory(p) for p in params))
    may_fuse = fused is not False and whole and MODES.recorder is None and not heard
    if may_fuse and not (config.disabled or MODES.grad):
        noted = update_fused(rule, params, grads, states, hyper, flags, bool(fused))
        if noted is None:
            return
    by_arrays = MODES.recorder is None and not MODES.grad and not heard
    recorded = MODES.recorder is not None and not heard
    repetition = MODES.recorder.repetition() if recorded else None
    with np.errstate(all="ignore"):
        for p, g, state, h in zip(params, grads, states, hyper, strict=True):
            if by_arrays and type(p._block) is not Mirrored:
                _on_arrays(rule, p, g, state, h, flags)
            else:
                _on_tensors(rule, p, g, state, h, flags, repetition)
    if noted is not None:
        noted.spent += time.perf_counter() - begun


def _on_arrays(
    rule: Rule,
    p: Tensor,
    g: Tensor,
    state: tuple[Tensor, ...],
    h: tuple[float, ...],
    flags: dict[str, Any],
) -> None:
    targets = [p, *state]
    arrays = [_writable(t) for t in targets]
    first = arrays[0]
    if first.ndim and first.nbytes <= _PIECE_BYTES and first.dtype.kind != "c":
        _on_part(rule, [*arrays, g.array], h, flags)  # nothing to cut
    else:
        _in_pieces(rule, arrays, g.array, h, flags)
    for tensor in targets:
        tensor._writes.value += 1


def _in_pieces(
    rule: Rule, arrays: list[Any], g: Any, h: tuple[float, ...], flags: dict[str, Any]
) -> None:
    """Update arrays of any size, as rows of numbers."""
    flat = [_parts((a if a.flags.c_contiguous else a.copy()).reshape(-1)) for a in (*arrays, g)]
    piece = max(_PIECE_BYTES // g.dtype.itemsize, 1)
    if is_on_device(arrays[0]):
        piece = max(flat[0].size, 1)  # there is no cache to fit, and every call costs a launch
    for low in range(0, flat[0].size, piece):
        _on_part(rule, [a[low : low + piece] for a in flat], h, flags)
    for array, values in zip(arrays, flat, strict=False):
        if not array.flags.c_contiguous:
            array[...] = values.view(array.dtype).reshape(array.shape)


def _on_part(rule: Rule, parts: list[Any], h: tuple[float, ...], flags: dict[str, Any]) -> None:
    """Update a parameter and its states, which come first, by the gradient, which comes last."""
    half = parts[0].dtype.itemsize == 2
    now = [x.astype(np.float32) for x in parts] if half else parts
    new_p, new_state = rule(now[0], now[-1], tuple(now[1:-1]), h, **flags)
    for part, new in zip(parts, (new_p, *new_state), strict=False):
        part[...] = new


def _parts(array: Any) -> Any:
    """Complex numbers as pairs of real ones: rules treat the parts as two parameters."""
    return array.view(array.real.dtype) if array.dtype.kind == "c" else array


def _writable(tensor: Tensor) -> Any:
    array = tensor.array
    if not is_writeable(array):
        raise RuntimeError(
            "an optimizer cannot update a tensor on read-only memory; clone() it before making it a parameter"
        )
    return array


def _on_tensors(
    rule: Rule,
    p: Tensor,
    g: Tensor,
    state: tuple[Tensor, ...],
    h: tuple[Any, ...],
    flags: dict[str, Any],
    repetition: Any,
) -> None:
    """``repetition`` follows a rule while a program is recorded; None: nobody does."""
    run = partial(_new_values, rule, p, g, state, h, flags)
    found = run() if repetition is None else repetition.results(run, (p, g, *state), h)
    for tensor, new in zip((p, *state), found, strict=True):
        _put(tensor, new)


def _new_values(
    rule: Rule,
    p: Tensor,
    g: Tensor,
    state: tuple[Tensor, ...],
    h: tuple[Any, ...],
    flags: dict[str, Any],
) -> list[Tensor]:
    """What a parameter and its state become."""
    if p.dtype.is_complex:
        real = [parts_of_complex(x) for x in (p, g, *state)]
        new_p, new_state = rule(real[0], real[1], tuple(real[2:]), h, **flags)
        return [complex_of_parts(x) for x in (new_p, *new_state)]
    dtype = dtypes.float32 if p.dtype.itemsize == 2 else p.dtype
    h = tuple(_as(x, dtype) if isinstance(x, Tensor) else x for x in h)
    new_p, new_state = rule(
        _as(p, dtype), _as(g, dtype), tuple(_as(s, dtype) for s in state), h, **flags
    )
    targets = (p, *state)
    return [_as(x, t.dtype) for x, t in zip((new_p, *new_state), targets, strict=True)]


def _put(tensor: Tensor, new: Tensor) -> None:
    """Give a tensor other values; by an operator where somebody is told of them."""
    if not MODES.grad and (MODES.listening or tensor._shown_at is not None):
        tensor.copy_(new)
    else:
        tensor._assign(new)


def _has_no_memory(x: Tensor) -> bool:
    return x._shown_at is not None or x.is_meta


def _as(x: Any, dtype: dtypes.DType) -> Any:
    return x if x.dtype is dtype else cast(x, dtype=dtype)
