"""Python state that a compiled function fills with tensors: errors, places of all kinds, threads, shapes, aliasing."""

from __future__ import annotations

import copy
import threading
from typing import Any

import tracejit as tj
from held_helpers import Model, pair, same
from tracejit import nn


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


def test_errors_midway_leave_what_eager_ones_leave() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.last = tj.zeros(1)
            self.after = tj.zeros(1)

        def forward(self, x, i):
            self.last = self.last + x.sum()
            if x.sum() > 10:
                raise ValueError("too much")
            y = x.gather(0, i)
            self.after = y
            return y

    eager, other = pair(Net)
    f = tj.compile(other)
    for step in range(16):
        x = tj.ones(3) * (20.0 if step % 5 == 4 else 1.0)
        i = tj.tensor([0, 7 if step % 7 == 6 else 1])
        errors = []
        for call in (eager, f):
            try:
                call(x, i)
                errors.append(None)
            except (ValueError, IndexError, RuntimeError) as error:
                errors.append((type(error), str(error)))
        assert errors[0] == errors[1], step
        assert same((eager.last, eager.after), (other.last, other.after)), step
    assert f.stats.compiled_calls >= 4


def test_variables_globals_slots_and_lists() -> None:
    class Box:
        __slots__ = ("value",)

    box, slots, found = Box(), [None, None], None
    box.value = tj.zeros(2)

    def step(x):
        nonlocal found
        global LAST
        found = x * 2 if found is None else found + x
        LAST = found * 3
        box.value = box.value + found
        slots[1] = LAST - 1
        return box.value.sum()

    f = tj.compile(step)
    total, values = tj.zeros(2), tj.zeros(2)
    for i in range(8):
        x = tj.full((2,), float(i + 1))
        total = x * 2 if i == 0 else total + x
        values = values + total
        assert f(x).item() == values.sum().item()
        assert found.tolist() == total.tolist()
        assert LAST.tolist() == (total * 3).tolist()
        assert slots[1].tolist() == (total * 3 - 1).tolist()
    assert f.stats.compiled_calls >= 4


def test_two_instances_and_copies_have_their_own() -> None:
    class Cell:
        def __init__(self) -> None:
            self.h = tj.zeros(3)

        @tj.compile
        def __call__(self, x):
            self.h = self.h * 0.5 + x
            return self.h.exp()

    cells = [Cell(), Cell()]
    plain = [tj.zeros(3), tj.zeros(3)]
    for i in range(14):
        which = i % 2
        x = tj.full((3,), float(i))
        plain[which] = plain[which] * 0.5 + x
        assert same(cells[which](x), plain[which].exp())
        assert same(cells[which].h, plain[which])
    twin = copy.deepcopy(cells[0])
    for _ in range(5):
        twin(tj.ones(3))
        assert same(cells[0].h, plain[0])
    assert Cell.__call__.stats.compiled_calls >= 6


def test_state_dict_and_loading_between_calls() -> None:
    eager, other = pair(Average)
    f = tj.compile(other)
    for step in range(10):
        x = tj.randn(2, 4)
        assert same(eager(x), f(x))
        assert same(dict(eager.state_dict()), dict(other.state_dict()))
        if step == 6:
            known = {k: v * 0 for k, v in eager.state_dict().items()}
            eager.load_state_dict(known)
            other.load_state_dict(known)
    assert f.stats.compiled_calls >= 5


def test_kept_shapes_do_not_matter_where_nobody_reads_them() -> None:
    net = Last()
    f = tj.compile(net, strict=True)
    f(tj.randn(2, 4))
    f(tj.randn(2, 4))
    for rows in (2, 3, 5, 7):
        f(tj.randn(rows, 4))
    before = f.stats.recordings
    for rows in (7, 2, 5, 3, 2, 7, 3, 5, 2):
        x = tj.randn(rows, 4)
        f(x)
        assert same(net.last, net.fc(x).softmax(-1))
    assert f.stats.recordings == before


def test_a_place_that_is_set_to_what_lies_there() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.base = tj.ones(3)
            self.current = self.base

        def forward(self, x, reset):
            if reset:
                self.current = self.base
            else:
                self.current = self.current * x
            return self.current.sum()

    eager, other = pair(Net)
    f = tj.compile(other)
    for step in range(24):
        reset = step % 4 == 3 or step % 6 in (1, 2)
        x = tj.full((3,), 1.0 + step)
        assert same(eager(x, reset), f(x, reset)), step
        assert (eager.current is eager.base) == (other.current is other.base), step
        assert same(eager.current, other.current), step


def test_the_argument_may_be_what_was_kept() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.kept = tj.zeros(3)

        def forward(self, x):
            if self.kept is x:
                return x * 100
            y = self.kept + x
            self.kept = x
            return y

    eager, other = pair(Net)
    f = tj.compile(other)
    x = tj.ones(3)
    for step in range(20):
        if step % 3:
            x = tj.full((3,), float(step))
        assert same(eager(x), f(x)), step


def test_writes_into_what_is_kept() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.cache = tj.zeros(4)

        def forward(self, x):
            self.cache.mul_(0.5)
            self.cache[1:3] += x
            self.cache = self.cache.flip(0)
            return self.cache.sum()

    eager, other = pair(Net)
    f = tj.compile(other)
    for step in range(8):
        shared = eager.cache, other.cache
        x = tj.full((2,), float(step))
        assert same(eager(x), f(x)), step
        assert same(shared[0], shared[1])
        assert shared[0]._version == shared[1]._version
        assert same(eager.cache, other.cache)
    assert f.stats.compiled_calls >= 4


def test_threads_share_what_is_kept() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.last = tj.zeros(1)

        def forward(self, x):
            self.last = x.sum().reshape(1)
            return x * 2 + 0 * self.last

    net = Net()
    f = tj.compile(net)
    wrong: list[Any] = []

    def work(number: int) -> None:
        for i in range(60):
            rows = (number + i) % 3 + 1
            x = tj.full((rows,), float(number))
            if not same(f(x), x * 2):
                wrong.append((number, i))
            if net.last.shape != (1,):
                wrong.append("shape")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert f.stats.compiled_calls > 60


def test_growing_lists_run_eagerly() -> None:
    outs: list[Any] = []

    def f(x):
        outs.append(x * 2)
        return x + len(outs)

    g = tj.compile(f)
    for i in range(6):
        assert g(tj.ones(1)).item() == i + 2
        assert len(outs) == i + 1
    assert any("changes Python state" in reason for reason in g.reasons)


def test_parameters_that_are_replaced_stay_parameters() -> None:
    class Net(Model):
        def forward(self, x):
            y = self.fc(x)
            self.fc.bias = nn.Parameter(y.detach().mean(0))
            return y

    eager, other = pair(Net)
    f = tj.compile(other)
    for _ in range(5):
        x = tj.randn(2, 4)
        assert same(eager(x), f(x))
        assert isinstance(other.fc.bias, nn.Parameter)
        assert same(eager.fc.bias, other.fc.bias)


def test_places_in_objects_that_are_gone_are_forgotten() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.table = {"k": tj.zeros(2)}

        def forward(self, x):
            self.table["k"] = self.table["k"] + x
            return self.table["k"] * 2

    eager, other = pair(Net)
    f = tj.compile(other.forward)
    for step in range(500):
        if step % 5 == 0:
            eager.table, other.table = {"k": tj.zeros(2)}, {"k": tj.zeros(2)}
        x = tj.full((2,), float(step))
        assert same(eager(x), f(x)), step
        assert same(eager.table, other.table), step
    assert max(map(len, f.uses.held.known.values())) < 80


def test_threads_meet_numbers_of_a_recording() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.rate, self.pair = 1.0, (tj.zeros(1), [1.0])

        @tj.compile
        def __call__(self, x):
            self.rate = self.rate * 0.5 + 1
            self.pair = (x * self.rate, [self.rate])
            return x * 2

    nets, wrong = [Net() for _ in range(3)], []

    def work(number: int) -> None:
        for i in range(80):
            x = tj.ones(number % 2 + i % 7 + 1)
            try:
                if not same(nets[i % 3](x), x * 2):
                    wrong.append(i)
            except Exception as error:  # noqa: BLE001
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert all(type(net.rate) is float and type(net.pair[1][0]) is float for net in nets)
