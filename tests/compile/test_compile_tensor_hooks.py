"""Hooks on the gradients of tensors that a compiled function makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

SCALE = 0.25
SEEN: list[Any] = []


def scaled(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: g * SCALE)
    return h.sin() * h


def clipped(x: Any) -> Any:
    h = (x * 3).tanh()
    h.register_hook(lambda g: g.clamp(-0.2, 0.2))
    return h * x + h.exp()


def masked(x: Any) -> Any:
    h = x * 2
    mask = (x > 0).to(x.dtype)
    h.register_hook(lambda g: g * mask)
    return h * h


def ignored(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: None)
    return h.sin()


def two(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: g * 3)
    return h.sin()


def viewed(x: Any) -> Any:
    h = x * 2
    flat = h.reshape(-1)
    h.register_hook(lambda g: g * 0.5)
    return flat.sin() + h.reshape(-1)


def several(x: Any) -> Any:
    for _ in range(3):
        x = (x * 1.5).sin()
        x.register_hook(lambda g: g / (g.abs() + 1))
    return x


def read_before(x: Any) -> Any:
    h = x * 2
    early = h.sin()
    h.register_hook(lambda g: g * 10)
    return early + h


def watched(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: SEEN.append(g.sum().item()))
    return h.sin()


def kept(x: Any) -> Any:
    h = x * 2
    handle = h.register_hook(lambda g: g * 10)
    return h.sin(), [handle]


def of_an_argument(x: Any) -> Any:
    x.register_hook(lambda g: g * 10)
    return x.sin()


def step(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        y = f(x)
        (y * y).sum().backward()
        return y.detach()

    return run


def gradient(f: Callable[[Any], Any], start: Any, whole: bool) -> list[Any]:
    SEEN.clear()
    x = start.clone().requires_grad_()
    y = f(x)
    y = y[0] if isinstance(y, tuple) else y
    if not whole:
        (y * y).sum().backward()
    assert x.grad is not None
    return [y.detach().numpy(), x.grad.numpy(), len(SEEN)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        scaled,
        clipped,
        masked,
        ignored,
        two,
        viewed,
        several,
        read_before,
        watched,
        of_an_argument,
    ],
)
@pytest.mark.filterwarnings("ignore::tracejit.errors.CompileWarning")
def test_hooks_see_and_replace_what_they_do_eagerly(function: Any, whole: bool) -> None:
    f = step(function) if whole else function
    compiled = tj.compile(f)
    tj.manual_seed(1)
    for _ in range(4):
        start = tj.randn(3, 4, dtype=tj.float64)
        expected = gradient(f, start, whole)
        for a, b in zip(gradient(compiled, start, whole), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    inside = whole and function in (two, viewed, read_before)
    if inside or function in (scaled, clipped, masked, ignored, several):
        assert compiled.stats.compiled_calls == 3, compiled.explain()
    elif whole and function is watched:  # the number that it appends varies from the second call on
        assert compiled.stats.compiled_calls == 2, compiled.explain()
    else:
        assert compiled.stats.compiled_calls == 0


@pytest.mark.filterwarnings("ignore::tracejit.errors.CompileWarning")
def test_a_handle_that_is_kept_takes_the_hook_away() -> None:
    compiled = tj.compile(kept)
    for _ in range(3):
        x = tj.ones(2, requires_grad=True)
        y, (handle,) = compiled(x)
        handle.remove()
        y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(2.0), rtol=1e-6)


def test_what_a_hook_reads_is_guarded() -> None:
    global SCALE
    compiled = tj.compile(scaled)
    try:
        for SCALE in (0.25, 0.25, 0.5, 0.75, 0.75):  # noqa: B007
            start = tj.ones(2, 2, dtype=tj.float64)
            expected = gradient(scaled, start, whole=False)
            np.testing.assert_allclose(gradient(compiled, start, whole=False)[1], expected[1])
    finally:
        SCALE = 0.25


def _read_variable(x: tj.Tensor) -> tj.Tensor:
    for k in (1.0, 2.0, 3.0):
        x = x.sin()
        x.register_hook(lambda g: g * k)  # noqa: B023  (all read the last one)
    return x


def _read_list(x: tj.Tensor) -> tj.Tensor:
    items: list[int] = []
    y = x.sin()
    y.register_hook(lambda g: g * len(items))
    items += [1, 2, 3]
    return y


def _read_context(x: tj.Tensor) -> tj.Tensor:
    boxes: list[list[float]] = []

    class Scaled(tj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, v: tj.Tensor) -> tj.Tensor:
            ctx.box = [1.0]
            boxes.append(ctx.box)
            return v * 2

        @staticmethod
        def backward(ctx: Any, g: tj.Tensor) -> tj.Tensor:
            return g * ctx.box[0]

    y = Scaled.apply(x)
    boxes[0][0] = 4.0
    return y


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("function", [_read_variable, _read_list, _read_context])
def test_state_that_the_call_itself_changes_after_a_hook_was_registered(
    function: Any, inside: bool
) -> None:
    """Passes after the call read what it left: it runs eagerly, where it was refused; its own passes are recorded."""

    def step(x: tj.Tensor) -> tj.Tensor:
        y = function(x)
        if inside:
            y.sum().backward()
        return y.detach() if inside else y

    compiled = tj.compile(step)
    for _ in range(3):
        found = []
        for call in (step, compiled):
            x = tj.tensor([0.5, 1.0], requires_grad=True)
            y = call(x)
            if not inside:
                y.sum().backward()
            assert x.grad is not None
            found.append(x.grad.numpy())
        np.testing.assert_allclose(*found, rtol=1e-6)
    assert (compiled.stats.compiled_calls > 0) is inside
