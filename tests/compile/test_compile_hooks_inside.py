"""Hooks of modules, nodes and saved tensors, kept gradients and arguments changed in place, in compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from trap_tools import Stage, check

nn = tj.nn


def data(k: int, *shape: int) -> Any:
    values = np.random.default_rng(k).standard_normal(shape)
    return tj.tensor(values.tolist(), dtype=tj.float64)


def told(
    body: Any, *, outside: bool = False, compiled: int | None = None, reason: Any = None
) -> Any:
    """``body(x, w)`` over a few calls, with the gradients it (or a pass ``outside``) leaves in ``w``."""

    def scenario(stage: Stage) -> None:
        w = data(99, 3, 3).requires_grad_()

        def run(x: Any) -> Any:
            return body(x, w)

        f = stage.compile(run)
        for k in range(6):
            result = f(data(k, 2, 3))
            if outside:
                result.sum().backward()
            stage.note("result", result.detach() if isinstance(result, tj.Tensor) else result)
            stage.note("gradient", w.grad)

    return check(scenario, compiled=compiled, reason=reason)


# --- kept gradients -------------------------------------------------------------------------------------------------


def kept(x: Any, w: Any) -> Any:
    h = (x @ w).tanh()
    h.retain_grad()
    part = h[:, 1:]
    part.retain_grad()
    (part * h[:, :2]).sum().backward()
    return h.grad * 2 + part.grad.sum()


def kept_unseen(x: Any, w: Any) -> Any:
    h = (x @ w).tanh()
    h.retain_grad()
    return (h * h).sum()


def kept_and_returned(x: Any, w: Any) -> Any:
    h = (x @ w).tanh()
    h.retain_grad()
    (h * h).sum().backward()
    return h


def kept_for_later(x: Any, w: Any) -> Any:
    h = (x @ w).tanh()
    h.retain_grad()
    return h


def test_kept_gradients() -> None:
    told(kept, compiled=4)
    told(kept_unseen, outside=True, compiled=4)
    told(kept_and_returned, reason="together with its gradient")
    told(kept_for_later, outside=True, reason="retains its gradient")


# --- hooks ------------------------------------------------------------------------------------------------------------


def deciding(x: Any, w: Any) -> Any:
    h = x @ w
    h.register_hook(lambda g: g * 2 if g.sum() > 0 else -g)
    (h.tanh() * h).sum().backward()
    return h.detach()


def deciding_later(x: Any, w: Any) -> Any:
    h = x @ w
    h.register_hook(lambda g: g * 2 if g.sum() > 0 else -g)
    return h.tanh() * h


def on_a_node(x: Any, w: Any) -> Any:
    h = (x @ w).tanh()
    h.grad_fn.register_prehook(lambda g: (g[0] * 3,))
    return h


def test_hooks_that_decide() -> None:
    told(deciding, compiled=3)
    told(deciding_later, outside=True, reason="register_hook()")
    told(on_a_node, outside=True, reason="grad_fn")


class Watched(nn.Module):
    """Scales gradients, and keeps one to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.seen: Any = None
        self.scale = 0.5
        self.second.register_full_backward_hook(self.look)
        self.second.register_full_backward_pre_hook(lambda module, grads: (grads[0] * self.scale,))

    def look(self, module: Any, inputs: Any, outputs: Any) -> Any:
        self.seen = inputs[0].detach()
        return (inputs[0] + outputs[0].sum(),)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu())


def test_hooks_of_modules() -> None:
    """In a whole step they are recorded, guarded, and may come and go."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(3)
        net = Watched().double()
        optimizer = tj.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach(), net.seen

        f = stage.compile(step)
        handle = None
        for k in range(16):
            if k == 6:
                net.scale = 2.0
            if k == 9:
                handle = net.first.register_full_backward_pre_hook(
                    lambda module, grads: (grads[0].clamp(-0.01, 0.01),)
                )
            if k == 13:
                assert handle is not None
                handle.remove()
            stage.call(f, data(k, 5, 3))
            stage.note("weights", list(net.parameters()))

    check(scenario, compiled=6)


def test_hooks_of_modules_for_later() -> None:
    """A backward pass outside must run them: the call runs eagerly where it has a history."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(3)
        net = Watched().double()
        f = stage.compile(net)
        for k in range(4):
            f(data(k, 5, 3)).sum().backward()
            stage.note("seen", [net.seen, net.first.weight.grad])

    check(scenario, reason="a module's backward hook")


# --- saved tensors ----------------------------------------------------------------------------------------------------


def rounded(x: Any, w: Any) -> Any:
    with tj.autograd.graph.saved_tensors_hooks(
        lambda t: (t.to(tj.float16), t.dtype), lambda kept: kept[0].to(kept[1])
    ):
        h = ((x @ w).tanh().exp() * x).sum()
    h.backward()
    return h.detach()


def rounded_later(x: Any, w: Any) -> Any:
    with tj.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.double()):
        return (x @ w).tanh().exp()


def on_the_host(x: Any, w: Any) -> Any:
    with tj.autograd.graph.save_on_cpu():
        return (x @ w).tanh().exp()


def changed_after(x: Any, w: Any) -> Any:
    """What was kept as a copy may be overwritten."""
    with tj.autograd.graph.save_on_cpu():
        h = x @ w
        y = h.tanh() * h
    with tj.no_grad():
        h.mul_(0)
    return y


def test_saved_tensors() -> None:
    told(rounded, compiled=4)
    told(rounded_later, outside=True, reason="saved_tensors_hooks")
    told(on_the_host, outside=True, compiled=4)
    told(changed_after, outside=True, compiled=4)


# --- functions that change their arguments ----------------------------------------------------------------------------


class Rectified(tj.autograd.Function):
    """In place."""

    @staticmethod
    def forward(ctx: Any, x: Any, slope: Any) -> Any:
        ctx.mark_dirty(x)
        ctx.slope = slope
        x.copy_(tj.where(x > 0, x, x * slope))
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return tj.where(y > 0, g, g * ctx.slope), None


def in_place(x: Any, w: Any) -> Any:
    h = x @ w
    view = h[:, 1:]
    Rectified.apply(h, 0.25)
    return h * 3 + view.sum()


def twice(x: Any, w: Any) -> Any:
    h = Rectified.apply(x @ w - 1, 0.25)
    return Rectified.apply(h * 2, 0.5) + h


def another_too(x: Any, w: Any) -> Any:
    """Forward also changes what it does not tell of."""
    h, other = x @ w, x @ w

    class Both(Rectified):
        @staticmethod
        def forward(ctx: Any, x: Any, slope: Any) -> Any:
            other.mul_(2)
            return Rectified.forward(ctx, x, slope)

    return Both.apply(h, 0.5) + other


def test_arguments_changed_in_place() -> None:
    for function in (in_place, twice, another_too):
        told(function, outside=True, compiled=5)


def test_arguments_from_outside_changed_in_place() -> None:
    def scenario(stage: Stage) -> None:
        f = stage.compile(lambda h: Rectified.apply(h, 0.25) * 2)
        for k in range(4):
            w = data(k, 2, 3).requires_grad_()
            h = w * 1
            f(h).sum().backward()
            stage.note("argument", [h, w.grad])

    check(scenario, reason="changes an argument in place")


@pytest.mark.parametrize("option", ["strict", "verify"])
@pytest.mark.parametrize("body", [kept, deciding, rounded, in_place])
def test_strict_and_verified(option: str, body: Any) -> None:
    w = data(99, 3, 3).requires_grad_()
    f = tj.compile(lambda x: body(x, w), **{option: True})
    for k in range(6):
        w.grad = None
        found = f(data(k % 2, 2, 3))
        gradient, w.grad = w.grad, None
        expected = body(data(k % 2, 2, 3), w)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-9)
        if gradient is not None:
            np.testing.assert_allclose(gradient.numpy(), w.grad.numpy(), rtol=1e-9)
    assert f.stats.compiled_calls >= 3
