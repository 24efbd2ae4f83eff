"""Modules of both libraries side by side: the same printed form, state, outputs and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from parity_tools import array, close, torch

import tracejit as tj

RNG = np.random.default_rng(17)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def pair(name: str, args: tuple[Any, ...] = (), options: dict[str, Any] | None = None) -> Any:
    """Our module and theirs, in double precision, with their weights."""
    options = options or {}
    ours = getattr(tj.nn, name)(*args, **options).double()
    theirs = getattr(torch.nn, name)(*args, **options).double()
    assert repr(ours) == repr(theirs)
    copy_state(ours, theirs)
    return ours, theirs


def copy_state(ours: Any, theirs: Any) -> None:
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({k: tj.tensor(v.numpy().copy()) for k, v in state.items()})


def same_state(ours: Any, theirs: Any) -> None:
    for (name, a), (_, b) in zip(
        ours.state_dict().items(), theirs.state_dict().items(), strict=True
    ):
        close(a, b, 1e-9, name)


def flat(outputs: Any) -> list[Any]:
    if isinstance(outputs, (tuple, list)):
        return [x for part in outputs for x in flat(part)]
    return [] if outputs is None else [outputs]


def run(ours: Any, theirs: Any, *inputs: Any, **options: Any) -> None:
    """Outputs, gradients of inputs and parameters, and the state afterwards agree."""
    sides = []
    for of, module in ((tj, ours), (torch, theirs)):
        tensors = [of.tensor(x.copy()) if isinstance(x, np.ndarray) else x for x in inputs]
        given = [x for x in tensors if "float" in str(getattr(x, "dtype", ""))]
        leaves = [x.requires_grad_() for x in given]
        named = {k: of.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        module.zero_grad()
        outputs = flat(module(*tensors, **named))
        total = sum((x * x).sum() for x in outputs if "float" in str(x.dtype))
        if total.requires_grad:
            total.backward()
        sides.append((outputs, leaves, list(module.parameters())))
    for kind, (a_all, b_all) in zip(
        ("output", "input", "parameter"), zip(*sides, strict=True), strict=True
    ):
        assert len(a_all) == len(b_all)
        for position, (a, b) in enumerate(zip(a_all, b_all, strict=True)):
            where = f"{kind} {position}"
            if kind == "output":
                close(a, b, 1e-8, where)
            elif a.grad is None or b.grad is None:
                left = b.grad if a.grad is None else a.grad
                assert left is None or not np.any(array(left)), where
            else:
                close(a.grad, b.grad, 1e-7, where)
    same_state(ours, theirs)


def tensors(of: Any, value: Any) -> Any:
    """An array, or a tuple of arrays, as tensors of a library."""
    return tuple(of.tensor(v) for v in value) if isinstance(value, tuple) else of.tensor(value)
