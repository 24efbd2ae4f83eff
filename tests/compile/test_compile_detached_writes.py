"""Buffers changed through ``.data`` or ``detach()`` inside compiled functions, beside a backward pass."""

from __future__ import annotations

import importlib

import pytest

import tracejit as tj
from tracejit import nn


class Counting(nn.Module):
    """A codebook whose use is counted through ``.data``."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.weight = nn.Parameter(tj.linspace(-1, 1, 3))
        self.register_buffer("count", tj.zeros(3))

    def forward(self, x):
        shown = self.count.data if self.how == "data" else self.count.detach()
        shown.mul_(0.5).add_(x.detach().sum(0), alpha=0.1)
        shown[0] = 7.0
        return (x * self.weight).sum()


def steps(model, call, n=4):
    found = []
    for i in range(n):
        model.weight.grad = None
        loss = call(tj.arange(6.0).reshape(2, 3) + i)
        loss.backward()
        found.append((loss.item(), model.weight.grad.tolist(), model.count.tolist()))
    return found


@pytest.mark.parametrize("how", ["data", "detach"])
def test_buffers_that_no_backward_reads(how):
    plain, model = Counting(how), Counting(how)
    compiled = tj.compile(model, strict=True)
    assert steps(plain, plain) == steps(model, compiled)
    assert compiled.stats.compiled_calls == 3


@pytest.mark.parametrize("how", ["data", "detach"])
def test_values_that_the_tape_has_saved_are_those_eager_execution_finds(how):
    """PyTorch does not notice a change through ``.data``: backward reads the new values."""

    def f(x, scale):
        y = (x * scale).sum()
        (scale.data if how == "data" else scale.detach()).mul_(10.0)
        return y

    outcomes = []
    for call in (f, tj.compile(f)):
        x, scale = tj.ones(3, requires_grad=True), tj.full((3,), 2.0)
        found = []
        for _ in range(3):
            y = call(x, scale)
            try:
                (g,) = tj.autograd.grad(y, x)
                found.append((y.item(), g.tolist(), scale.tolist()))
            except RuntimeError:
                found.append((y.item(), "changed", scale.tolist()))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


def test_views_of_what_was_saved_count_too():
    def f(x, scale):
        y = (x * scale[1:].reshape(2)).sum()
        scale.data[2] = 5.0
        return y

    outcomes = []
    for call in (f, tj.compile(f)):
        found = []
        for _ in range(3):
            x, scale = tj.ones(2, requires_grad=True), tj.full((3,), 2.0)
            y = call(x, scale)
            found.append((tj.autograd.grad(y, x)[0].tolist(), scale.tolist()))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


def test_repeated_tensors_are_copies():
    for shape, times in (
        ((3, 1), (1, 4)),
        ((1, 3), (2, 1)),
        ((2,), (3, 1)),
        ((2, 3), (1, 1)),
        ((2,), (2,)),
    ):
        x = tj.arange(float(tj.ones(shape).numel())).reshape(shape)
        y = x.repeat(times)
        assert y.is_contiguous()
        y.add_(1)
        assert x.max() == x.numel() - 1
    expanded = tj.ones(1).expand(3)
    assert expanded.repeat(2).add_(1).tolist() == [2.0] * 6


AVERAGES = {
    "mul and add": lambda buffer, new: buffer.mul_(0.5).add_(new, alpha=0.5),
    "copy": lambda buffer, new: buffer.copy_(new),
    "a part": lambda buffer, new: buffer[1:].copy_(new[1:]),
    "index": lambda buffer, new: buffer.__setitem__(0, new[1]),
}


@pytest.mark.parametrize("how", ["data", "detach"])
@pytest.mark.parametrize("average", AVERAGES)
def test_values_that_require_grad_are_kept_in_buffers(average, how):
    """Running averages are often written without ``no_grad``: only the alias takes part in autograd."""

    def f(x, weight, buffer):
        new = (x * weight).mean(0)
        AVERAGES[average](buffer.data if how == "data" else buffer.detach(), new)
        return ((new - buffer) ** 2).sum()

    compiled = tj.compile(f, strict=True)
    outcomes = []
    for call in (f, compiled):
        weight, buffer, found = tj.ones(3, requires_grad=True), tj.zeros(3), []
        for i in range(4):
            (g,) = tj.autograd.grad(call(tj.arange(6.0).reshape(2, 3) + i, weight, buffer), weight)
            found.append((g.tolist(), buffer.tolist(), buffer.requires_grad))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]
    assert compiled.stats.compiled_calls >= 3


@pytest.mark.parametrize("how", ["data", "detach"])
@pytest.mark.parametrize("read", ["alias", "part of the alias", "once more", "result"])
def test_the_alias_takes_part_in_autograd_itself(read, how):
    def f(x, weight, buffer):
        alias = buffer.data if how == "data" else buffer.detach()
        alias.copy_(x * weight)
        if read == "once more":
            alias.mul_(2.0)
        if read == "result":
            return alias
        part = {"alias": alias, "part of the alias": alias[1:]}.get(read, buffer)
        return (part * 3).sum() + weight.sum()

    compiled = tj.compile(f)
    outcomes = []
    for call in (f, compiled):
        weight, buffer, found = tj.ones(3, requires_grad=True), tj.zeros(3), []
        for i in range(4):
            result = call(tj.arange(3.0) + i, weight, buffer)
            (g,) = tj.autograd.grad(result.sum(), weight)
            found.append((g.tolist(), buffer.tolist(), buffer.requires_grad))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


def test_what_was_saved_before_is_still_missed():
    """Backward of the product reads the values that ``.data`` has changed since."""

    def f(x, weight, buffer):
        y = (weight * buffer).sum()
        buffer.data.copy_(x * weight)
        return y

    outcomes = []
    for call in (f, tj.compile(f)):
        weight, buffer, found = tj.ones(3, requires_grad=True), tj.zeros(3), []
        for i in range(4):
            (g,) = tj.autograd.grad(call(tj.arange(3.0) + i, weight, buffer), weight)
            found.append((g.tolist(), buffer.tolist()))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: setattr(p, "data", p.data.double()),
        lambda p: setattr(p, "data", p.data.clone()),
        lambda p: setattr(p, "data", p.data.T.contiguous().T),
    ],
)
@pytest.mark.parametrize("straight", [True, False])
def test_other_memory_between_a_call_and_its_backward_pass(monkeypatch, change, straight) -> None:
    """What the pass computes again would be of the new memory, what it kept of the old: it is refused."""
    if not straight:
        monkeypatch.setattr(
            importlib.import_module("tracejit.trace.replay.replay"), "MAX_SEGMENTS", 0
        )
    w, other = (tj.rand(3, 3).requires_grad_() for _ in range(2))
    f = tj.compile(lambda x: ((x * w).tanh() @ w).sum())
    x = tj.rand(2, 3, 3, requires_grad=True)
    for _ in range(3):
        f(x).backward()
    loss = f(x)
    change(other)
    before = w.grad.clone()
    loss.backward()
    assert not tj.equal(w.grad, before)
    loss, lost = f(x), f(x)
    before = w.grad.clone()
    change(w)
    for wanted in ((), (x,)):
        with pytest.raises(RuntimeError, match="was given other memory since the call"):
            tj.autograd.grad(loss, wanted) if wanted else lost.backward()
    w.grad = None
    f(x).backward()
    assert w.grad.dtype is w.dtype


def test_a_module_in_other_precision_between_a_call_and_its_backward_pass() -> None:
    layer = tj.nn.GroupNorm(1, 4)
    f = tj.compile(lambda x: layer(x.tanh()).sum())
    x = tj.rand(2, 4, requires_grad=True)
    for _ in range(2):
        f(x).backward()
    loss = f(x)
    layer.double()
    with pytest.raises(RuntimeError, match="was given other memory since the call"):
        loss.backward()
