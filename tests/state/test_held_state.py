"""Python state that a compiled function fills with tensors: models that keep what they computed."""

from __future__ import annotations

import pytest

import tracejit as tj
from held_helpers import Model, pair, same


class Last(Model):
    names = ("last", "loss")

    def __init__(self) -> None:
        super().__init__()
        self.last = None

    def forward(self, x):
        y = self.fc(x).softmax(-1)
        self.last = y
        self.loss = (y * y).mean()
        return y @ y.mT


class Detached(Model):
    names = ("hidden",)

    def __init__(self) -> None:
        super().__init__()
        self.hidden = None

    def forward(self, x):
        if self.hidden is None:
            self.hidden = tj.zeros(4)
        y = (self.fc(x) + self.hidden).tanh()
        self.hidden = y.detach().mean(0)
        return y


class Pair(Model):
    names = ("hidden",)

    def __init__(self) -> None:
        super().__init__()
        self.hidden = (tj.zeros(4), tj.zeros(4))

    def forward(self, x):
        h, c = self.hidden
        c = c * 0.5 + self.fc(x).mean(0)
        h = c.tanh() + h
        self.hidden = (h.detach(), c.detach())
        return h * c


class Average(Model):
    names = ("mean", "count")

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", tj.zeros(4))
        self.count = 0

    def forward(self, x):
        self.count += 1
        y = self.fc(x)
        self.mean = self.mean * 0.9 + 0.1 * y.detach().mean(0)
        return y - self.mean


class Collected(Model):
    names = ("outs",)

    def __init__(self) -> None:
        super().__init__()
        self.outs = []

    def forward(self, x):
        self.outs = []
        for _ in range(3):
            x = self.fc(x).relu()
            self.outs.append(x)
        return x


class Cleared(Collected):
    def forward(self, x):
        self.outs.clear()
        for _ in range(3):
            x = self.fc(x).relu()
            self.outs.append(x)
        return x


class Table(Model):
    names = ("maps",)

    def __init__(self) -> None:
        super().__init__()
        self.maps = {"in": None, "out": None}

    def forward(self, x):
        self.maps["in"] = x
        y = self.fc(x)
        self.maps["out"] = y.T
        return y


class Same(Model):
    names = ("a", "b", "c")

    def forward(self, x):
        y = self.fc(x)
        self.a, self.b, self.c = y, y[1:], x
        return y


class Rotating(Model):
    names = ("now", "before")

    def __init__(self) -> None:
        super().__init__()
        self.now, self.before = tj.zeros(4), tj.ones(4)

    def forward(self, x):
        self.now, self.before = self.fc(x).mean(0).detach(), self.now
        return self.now + self.before


class Dropped(Model):
    names = ("x",)

    def forward(self, x):
        if hasattr(self, "x"):
            y = self.fc(self.x)
            del self.x
            return y
        self.x = x * 2
        return self.x


MODELS = [
    Last,
    Detached,
    Pair,
    Average,
    Collected,
    Cleared,
    Table,
    Same,
    Rotating,
    Dropped,
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("verify", [False, True])
def test_calls_leave_the_state_of_eager_ones(kind: type[Model], verify: bool) -> None:
    eager, other = pair(kind)
    compiled = tj.compile(other, verify=verify)
    for step in range(9):
        x = tj.randn(3, 4)
        a, b = eager(x), compiled(x)
        assert same(a, b), step
        assert same(eager.state(), other.state()), step
    assert compiled.stats.compiled_calls >= 3


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", MODELS)
def test_training_steps(kind: type[Model]) -> None:
    eager, other = pair(kind)
    compiled = tj.compile(other)
    optimizers = [tj.optim.SGD(m.parameters(), lr=0.05) for m in (eager, other)]
    for step in range(8):
        x = tj.randn(3, 4)
        for model, call, optimizer in zip(
            (eager, other), (eager, compiled), optimizers, strict=True
        ):
            optimizer.zero_grad()
            loss = call(x).square().mean()
            if kind is Last:
                loss = loss + model.loss + model.last.sum()
            if loss.requires_grad:
                loss.backward()
                optimizer.step()
        assert same(dict(eager.named_parameters()), dict(other.named_parameters())), step
        assert same(eager.state(), other.state()), step
    assert compiled.stats.compiled_calls >= 2


def test_a_hidden_state_that_keeps_its_history() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = tj.zeros(4)

        def forward(self, x):
            self.hidden = (self.fc(x).mean(0) + self.hidden).tanh()
            return self.hidden * 2

    def run(model, call):
        gradients = []
        for length in (1, 2, 3, 3, 3):
            model.hidden = tj.zeros(4)
            total = sum(call(tj.full((2, 4), 0.1 * (i + 1))).sum() for i in range(length))
            model.zero_grad()
            total.backward()
            gradients.append(model.fc.weight.grad.clone())
        with pytest.raises(RuntimeError, match="second time"):
            call(tj.ones(2, 4)).sum().backward()  # through what is freed
        return gradients

    eager, other = pair(Net)
    compiled = tj.compile(other)
    assert same(run(eager, eager), run(other, compiled))
    assert compiled.stats.compiled_calls > 4


def test_what_is_stored_is_the_tensor_that_is_returned() -> None:
    class Net(Model):
        def forward(self, x):
            self.out = self.fc(x)
            self.view = self.out[0]
            self.given = x
            return self.out

    net = Net()
    f = tj.compile(net)
    for _ in range(6):
        x = tj.randn(2, 4)
        y = f(x)
        assert net.out is y
        assert net.given is x
        assert net.view._base is y
        y.detach().zero_()
        assert net.view.abs().sum().item() == 0
    assert f.stats.compiled_calls >= 3


def test_branches_store_different_things() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.good, self.bad = None, None

        def forward(self, x):
            if x.sum() > 0:
                self.good = x * 2
            else:
                self.bad, self.good = self.good, None
            return x + 1

    eager, other = pair(Net)
    f = tj.compile(other)
    for sign in (1, 1, 1, -1, -1, 1, -1, 1, 1, -1, -1, 1, 1, -1, 1, -1, -1, 1):
        x = tj.rand(3) * sign
        assert same(eager(x), f(x))
        assert same((eager.good, eager.bad), (other.good, other.bad))
    assert f.stats.compiled_calls >= 6
