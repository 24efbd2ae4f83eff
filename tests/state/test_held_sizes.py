"""Numbers in Python state that index or bound slices: positions in caches, counts, windows."""

from __future__ import annotations

import copy
import threading
from contextlib import nullcontext
from typing import Any

import pytest

import tracejit as tj
from held_helpers import Model, pair, same

LENGTH = 12


class Cache(Model):
    """Keys are written at a position and read up to there."""

    names = ("keys", "pos")

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", tj.zeros(LENGTH, 4))
        self.pos = 0

    def forward(self, x):
        n = x.shape[0]
        self.keys[self.pos : self.pos + n] = self.fc(x).detach()
        self.pos += n
        return (x @ self.keys[: self.pos].T).softmax(-1) @ self.keys[: self.pos]


class Ring(Cache):
    """The position comes around."""

    def forward(self, x):
        self.keys[self.pos] = x[0].detach()
        self.pos = (self.pos + 1) % LENGTH
        return self.keys.sum(0) + self.fc(x)


class Window(Cache):
    """What is returned hangs on the position in several ways."""

    def forward(self, x):
        if self.pos >= LENGTH - 2:
            self.pos = 0
        y = self.keys.narrow(0, self.pos, 2) + self.fc(x)[:2] / (self.pos + 1)
        self.pos += 1
        return y, self.pos * 2


class Replaced(Cache):
    """A cache that is replaced by one with another row."""

    def forward(self, x):
        self.keys = tj.cat([self.keys[: self.pos], x[:1].detach(), self.keys[self.pos + 1 :]])
        self.pos = min(self.pos + 1, LENGTH - 1)
        return self.fc(self.keys[: self.pos])


def run(eager: Model, other: Model, call: Any, steps: int, rows: int = 1) -> None:
    for step in range(steps):
        x = tj.randn(rows, 4)
        assert same(eager(x), call(x)), step
        assert same(eager.state(), other.state()), step


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [Cache, Ring, Window, Replaced])
@pytest.mark.parametrize("verify", [False, True])
def test_positions(kind: type[Cache], verify: bool) -> None:
    eager = kind()
    other = copy.deepcopy(eager)
    f = tj.compile(other, verify=verify)
    rows = 2 if kind is Window else 1
    for _ in range(3):
        eager.pos = other.pos = 0
        run(eager, other, f, LENGTH - 2, rows)
    assert f.stats.recordings <= 9
    assert f.stats.compiled_calls >= 15


def test_prompts_and_single_tokens() -> None:
    eager = Cache()
    other = copy.deepcopy(eager)
    f = tj.compile(other)
    for _ in range(4):
        eager.pos = other.pos = 0
        run(eager, other, f, 1, rows=5)
        run(eager, other, f, 6, rows=1)
    before = f.stats.recordings
    eager.pos = other.pos = 2
    run(eager, other, f, 8)
    assert f.stats.recordings == before


def test_the_end_of_the_cache_is_the_error_of_eager_code() -> None:
    eager = Cache()
    other = copy.deepcopy(eager)
    f = tj.compile(other)
    for _ in range(2):
        eager.pos = other.pos = 0
        run(eager, other, f, LENGTH)
        errors = []
        for call in (eager, f, f, f):
            with pytest.raises((RuntimeError, IndexError, ValueError)) as error:
                call(tj.ones(2, 4))
            errors.append((type(error.value), str(error.value)))
        assert len(set(errors)) == 1
        assert eager.pos == other.pos == LENGTH


@pytest.mark.parametrize("odd", [-1, None, 2.0, True, 1 << 50])
def test_positions_that_are_no_sizes(odd: Any) -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.pos = 0

        def forward(self, x):
            if self.pos is None:
                self.pos = 0
            y = x[int(self.pos) % 4 : 4].sum() + x[-1]
            self.pos = self.pos + 1
            return y

    eager, other = Net(), Net()
    f = tj.compile(other)
    x = tj.arange(6.0)
    for step in range(16):
        if step in (6, 11):
            eager.pos = other.pos = odd
        assert same(eager(x), f(x)), step
        assert type(eager.pos) is type(other.pos), step
        assert eager.pos == other.pos, step


def test_counts_of_rounds_stay_constants() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.rounds = 0

        def forward(self, x):
            self.rounds = self.rounds % 5 + 1
            y = x[: self.rounds].sum()
            for _ in range(self.rounds):
                y = y * 2
            return y

    eager, other = Net(), Net()
    f = tj.compile(other)
    x = tj.arange(6.0)
    for step in range(60):
        assert same(eager(x), f(x)), step
        assert eager.rounds == other.rounds


def test_instances_and_variables() -> None:
    class Reader:
        def __init__(self, step: int) -> None:
            self.at, self.step = 0, step

        @tj.compile
        def __call__(self, x):
            y = x[self.at : self.at + self.step]
            self.at += self.step
            return y * 2

    readers = [Reader(1), Reader(2)]
    places = [0, 0]
    x = tj.arange(60.0)
    for i in range(40):
        which = i % 2
        a, n = places[which], readers[which].step
        assert readers[which](x).tolist() == (x[a : a + n] * 2).tolist()
        places[which] += n
        assert readers[which].at == places[which]
    assert Reader.__call__.stats.compiled_calls >= 20

    at = 0

    @tj.compile
    def following(x):
        nonlocal at
        at = at + 1
        return x[at]

    assert [following(x).item() for _ in range(30)] == [*map(float, range(1, 31))]
    assert type(at) is int
    assert following.stats.compiled_calls >= 25


def test_gradients_reach_what_a_position_selects() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.pos = 0

        def forward(self, x):
            y = self.fc(x)[:, self.pos : self.pos + 2].sum() * (self.pos + 1)
            self.pos = (self.pos + 1) % 3
            return y

    eager = Net()
    other = copy.deepcopy(eager)
    f = tj.compile(other)
    for step in range(14):
        x = tj.randn(3, 4)
        a, b = eager(x), f(x)
        a.backward()
        b.backward()
        assert same(a, b), step
        assert same(eager.fc.weight.grad, other.fc.weight.grad), step
    assert f.stats.compiled_calls >= 8


def test_errors_leave_plain_numbers() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.pos, self.seen = 0, 0

        def forward(self, x):
            self.seen = self.pos
            self.pos += 1
            y = x[: self.pos].sum()
            if y > 100:
                raise ValueError(f"at {self.pos}")
            return y

    eager, other = Net(), Net()
    f = tj.compile(other)
    for step in range(20):
        x = tj.arange(20.0) * (50.0 if step % 6 == 5 else 0.1)
        errors = []
        for call in (eager, f):
            try:
                call(x)
                errors.append("")
            except ValueError as error:
                errors.append(str(error))
        assert errors[0] == errors[1]
        assert (type(other.pos), type(other.seen)) == (int, int), step
        assert (eager.pos, eager.seen) == (other.pos, other.seen), step
    assert f.stats.compiled_calls >= 10


def test_threads_with_positions_of_their_own() -> None:
    class Net(Model):
        def __init__(self) -> None:
            super().__init__()
            self.pos = 0

        @tj.compile
        def __call__(self, x):
            y = x[self.pos : self.pos + 3] * 2
            self.pos = (self.pos + 1) % 7
            return y

    x, wrong = tj.arange(12.0), []

    def work() -> None:
        net, pos = Net(), 0
        for _ in range(60):
            if net(x).tolist() != [2.0 * (pos + i) for i in range(3)]:
                wrong.append(pos)
            pos = (pos + 1) % 7

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_position_is_a_number_after_an_error() -> None:
    cache, state = tj.zeros(4, 3), {"pos": 0}

    @tj.compile
    def step(x):
        state["pos"] += 1
        cache[state["pos"] % 4] = x
        if state["pos"] > 2:
            raise ValueError("a number")
        return cache[state["pos"] % 4].sum().item()

    for expected in range(1, 9):
        with pytest.raises(ValueError, match="a number") if expected > 2 else nullcontext():
            assert step(tj.ones(3)) == 3.0
        assert type(state["pos"]) is int
        assert state["pos"] == expected


class Described(Model):
    """What it saw last, for others to see: shapes, text, what it was given."""

    names = ("seen", "size", "word", "both")

    def forward(self, x, word):
        self.seen, self.size = x.shape, tuple(x.shape)
        if x.sum() > 0:
            self.word, self.both = word, (word, x.shape[0])
        return self.fc(x)


@pytest.mark.parametrize("words", [("sum", "total"), ("s", "")])
def test_shapes_and_text_that_are_only_set_do_not_matter(words: tuple[str, str]) -> None:
    eager, other = pair(Described)
    f = tj.compile(other)
    for step in range(40):
        x = tj.randn(2 + step * 5 % 13, 4)
        assert same(eager(x, words[step % 2]), f(x, words[step % 2])), step
        assert same(eager.state(), other.state()), step
        if step == 25:  # by others
            eager.seen = other.seen = eager.word = other.word = "nothing so far"
    assert f.stats.compiled_calls >= (20 if len(words[0]) > 1 else 10)  # short text has no twin
