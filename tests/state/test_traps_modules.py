"""Traps: modules that change between calls. Each scenario runs eagerly and compiled and must observe the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from trap_tools import Stage, agree, check

nn = tj.nn


class Net(nn.Module):
    """Something of everything that modules have."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.rest = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])
        self.drop = nn.Dropout(0.5)
        self.register_buffer("offset", tj.zeros(3))
        self.gain = 2.0

    def mix(self, v):
        return v * self.gain

    def forward(self, v):
        v = self.mix(self.first(v)) + self.offset
        for layer in self.rest:
            v = layer(v)
        return self.drop(v)


def halve(module, inputs, output):
    return output * 0.5


def twice(module, inputs):
    return (inputs[0] * 2,)


def replace_parameter(net):
    net.first.weight = nn.Parameter(tj.ones(3, 3))


def swap_method(net):
    Net.mix = lambda self, v: v - self.gain  # type: ignore[method-assign]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "eval": lambda net: net.eval(),
    "part eval": lambda net: net.drop.eval(),
    "hook": lambda net: net.register_forward_hook(halve),
    "inner hook": lambda net: net.rest[0].register_forward_hook(halve),
    "pre hook": lambda net: net.register_forward_pre_hook(twice),
    "backward hook": lambda net: net.first.register_full_backward_hook(
        lambda m, i, o: tuple(None if g is None else g * 3 for g in i)
    ),
    "parameter replaced": replace_parameter,
    "parameter dropped": lambda net: setattr(net.first, "bias", None),
    "parameter written": lambda net: net.first.weight.data.fill_(0.5),
    "parameter frozen": lambda net: net.first.weight.requires_grad_(False),
    "all frozen": lambda net: net.requires_grad_(False),
    "load_state_dict": lambda net: net.load_state_dict(
        {k: v * 0 + 0.25 for k, v in net.state_dict().items()}
    ),
    "buffer replaced": lambda net: setattr(net, "offset", tj.ones(3)),
    "buffer written": lambda net: net.offset.add_(1),
    "submodule replaced": lambda net: setattr(net, "first", nn.Linear(3, 3, bias=False)),
    "submodule added": lambda net: net.rest.append(nn.ReLU()),
    "submodule removed": lambda net: net.rest.__delitem__(0),
    "attribute": lambda net: setattr(net, "gain", -1.0),
    "attribute of a part": lambda net: setattr(net.drop, "p", 0.1),
    "method of the instance": lambda net: setattr(net, "mix", lambda v: v + 1),
    "method of the class": swap_method,
    "double": lambda net: net.double(),
    "apply": lambda net: net.apply(lambda m: setattr(m, "training", False)),
    "gradients dropped": lambda net: net.zero_grad(),
}


def run(stage: Stage, change: Callable[[Any], Any], as_module: bool) -> None:
    kept = Net.mix
    try:
        net = Net()
        f = stage.compile(net if as_module else lambda v: net(v))
        for step in range(8):
            if step == 4:
                change(net)
            dtype = net.offset.dtype
            v = tj.full((2, 3), 0.5, dtype=dtype)
            stage.call(f, v.requires_grad_(), wrt=list(net.parameters()))
            stage.note("state", dict(net.state_dict()))
    finally:
        Net.mix = kept  # type: ignore[method-assign]


@pytest.mark.sampled(48)
@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_module_changed(name: str, as_module: bool) -> None:
    agree(lambda stage: run(stage, CHANGES[name], as_module))


def test_hook_added_removed_and_added() -> None:
    def scenario(stage):
        net = Net().eval()
        f = stage.compile(net)
        v = tj.ones(2, 3)
        handle = None
        for step in range(12):
            if step % 4 == 2:
                handle = net.first.register_forward_hook(halve)
            if step % 4 == 0 and handle is not None:
                handle.remove()
            stage.call(f, v)

    check(scenario, compiled=6)


def test_hook_that_keeps_what_it_sees() -> None:
    def scenario(stage):
        net, seen = Net().eval(), []
        net.first.register_forward_hook(lambda m, i, o: seen.append(o.detach()))
        f = stage.compile(lambda v: net(v))
        for _ in range(4):
            stage.call(f, tj.ones(2, 3))
            stage.note("seen", list(seen))

    agree(scenario)


def test_two_instances_of_one_module_class() -> None:
    def scenario(stage):
        nets = [Net().eval(), Net().eval()]
        nets[1].gain = 5.0
        f = stage.compile(lambda net, v: net(v))
        for step in range(10):
            stage.call(f, nets[step % 2], tj.ones(2, 3))
            if step == 6:
                nets[0].gain = 3.0

    check(scenario, compiled=6)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_statistics(momentum: float | None) -> None:
    def scenario(stage):
        net = nn.BatchNorm1d(3, momentum=momentum)
        f = stage.compile(lambda v: net(v))
        for step in range(10):
            if step == 4:
                net.eval()
            if step == 6:
                net.train()
            if step == 7:
                net.reset_running_stats()
            if step == 8:
                net.momentum = 0.5
            v = (tj.arange(12.0).reshape(4, 3) * (step + 1)).requires_grad_()
            stage.call(f, v, wrt=[net.weight, net.bias])
            stage.note("statistics", dict(net.state_dict()))

    agree(scenario)


def test_counter_of_a_module() -> None:
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.register_buffer("seen", tj.zeros(()))

        def forward(self, v):
            self.calls += 1
            self.seen += 1
            return v * self.calls + self.seen

    def scenario(stage):
        net = Counting()
        f = stage.compile(net)
        for _ in range(4):
            stage.call(f, tj.ones(2))
            stage.note("counts", (net.calls, net.seen.item()))

    agree(scenario)


def test_state_dict_taken_and_put_back() -> None:
    def scenario(stage):
        net = Net().eval()
        optimizer = tj.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def train(v):
            optimizer.zero_grad()
            loss = net(v).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        f = stage.compile(train)
        saved: Any = None
        for step in range(9):
            if step == 3:
                saved = {k: v.clone() for k, v in net.state_dict().items()}
            if step == 6:
                net.load_state_dict(saved)
            stage.note("loss", f(tj.ones(2, 3)).detach())
            stage.note("state", dict(net.state_dict()))

    check(scenario, compiled=6)
