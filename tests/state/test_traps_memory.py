"""Traps: memory that is shared, written, kept and given out again. Each scenario must observe the same both ways."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F
from trap_names import x
from trap_tools import agree, check


def test_frozen_branch() -> None:
    def scenario(stage):
        f = stage.compile(lambda v: v * 2 if v.sum() > 0 else v - 2)
        for values in (
            (1.0, -1.0, 2.0),
            (-3.0, -2.0, -1.0),
            (0.0, 0.0, 0.0),
            (np.nan, 1.0, 1.0),
        ) * 3:
            stage.call(f, x(*values))

    check(scenario, compiled=9, recorded=2)


def test_output_buffer_reused() -> None:
    """Results of earlier calls stay as they were, also when later ones are as large and temporaries die."""

    def scenario(stage):
        f = stage.compile(lambda v: (v.exp(), (v * 2).sum(0), v.T.contiguous()))
        kept = [f(tj.full((5, 7), float(k))) for k in range(6)]
        for k in range(4):
            f(tj.full((5, 7), 10.0 + k))
        stage.note("kept", kept)
        kept[0][0].add_(1)
        kept[1] = None
        stage.note("others", [f(tj.full((5, 7), 3.0)), kept])

    check(scenario, compiled=10)


def test_result_written_after_it_was_kept_for_backward() -> None:
    def scenario(stage):
        f = stage.compile(lambda v: v.exp())
        for write in (False, True, False):
            v = x(1.0, 2.0)
            y = f(v)
            if write:
                y.detach().mul_(2)
            stage.backward([y], [v])

    check(scenario, compiled=2)


def test_argument_written_between_forward_and_backward() -> None:
    def scenario(stage):
        w = x(1.0, 2.0, 3.0)
        f = stage.compile(lambda v: (v * v * w).sum())
        for write in (False, False, True, False):
            v = x(1.0, 2.0, 3.0)
            y = f(v)
            if write:
                v.detach().add_(1)
            # A pass that is refused stores nothing when compiled, and what it came by before when eager.
            stage.backward([y], [v] if write else [v, w])

    check(scenario, compiled=3)


def test_several_calls_in_flight() -> None:
    def scenario(stage):
        w = x(1.0, 2.0)
        f = stage.compile(lambda v: ((v * w).tanh() * v).sum())
        inputs = [x(float(k), 1.0) for k in range(5)]
        results = [f(v) for v in inputs]
        for y in reversed(results):
            y.backward(retain_graph=True)
        tj.stack(results).sum().backward()
        stage.note("gradients", [v.grad for v in (*inputs, w)])

    check(scenario, compiled=4)


@pytest.mark.parametrize("way", ["base first", "view first", "view only"])
def test_aliased_mutation_of_what_was_captured(way: str) -> None:
    def scenario(stage):
        base = tj.zeros(2, 3)
        view = base[0]

        def f(v):
            if way == "base first":
                base.add_(v)
                return view * 2
            if way == "view first":
                view.add_(v)
                return base.sum(0)
            view.mul_(0.5).add_(v)
            return v + 1

        f = stage.compile(f)
        for _ in range(4):
            stage.call(f, x(grad=False), wrt=[base, view])

    agree(scenario)


def test_arguments_that_share_memory_now_and_then() -> None:
    def scenario(stage):
        def f(a, b):
            a.mul_(2)
            return a + b

        f = stage.compile(f)
        for overlapping in (False, False, True, True, False, True):
            memory = tj.arange(8.0)
            a, b = (memory[:4], memory[2:6]) if overlapping else (memory[:4], memory[4:])
            stage.call(f, a, b)
            same = tj.arange(4.0)
            stage.call(f, same, same)

    agree(scenario)


def test_argument_that_is_also_captured() -> None:
    def scenario(stage):
        bank = tj.ones(3)

        def f(v):
            v.add_(1)
            return v * bank

        f = stage.compile(f)
        for v in (tj.zeros(3), tj.zeros(3), bank, bank.detach(), bank[...], tj.zeros(3)):
            stage.call(f, v, wrt=[bank])

    agree(scenario)


def test_data_is_written_and_replaced() -> None:
    def scenario(stage):
        w = x(1.0, 2.0, 3.0)

        def f(v):
            w.data.mul_(0.5)
            return (v * w).sum()

        f = stage.compile(f)
        for change in (None, None, "replace", None, "dtype", None, "layout", None):
            if change == "replace":
                w.data = tj.full((3,), 4.0)
            elif change == "dtype":
                w.data = w.data.double()
            elif change == "layout":
                w.data = tj.ones(3, 2)[:, 0]
            stage.call(f, x(1.0, 1.0, 1.0), wrt=[w])
            stage.note("version", w._version)

    agree(scenario)


def test_cache_of_keys_and_values() -> None:
    """A position that moves on, in Python and in a tensor; the cache is replaced and cut back."""

    def scenario(stage):
        class Cache:
            def __init__(self):
                self.keys, self.values = tj.zeros(8, 4), tj.zeros(8, 4)
                self.length = 0

        cache = Cache()

        def decode(q):
            cache.keys[cache.length] = q
            cache.values[cache.length].copy_(q * 2)
            seen = cache.length + 1
            scores = cache.keys[:seen] @ q
            return F.softmax(scores, 0) @ cache.values[:seen]

        f = stage.compile(decode)
        for step in range(7):
            stage.call(f, tj.full((4,), 0.1 * step), wrt=[cache.keys, cache.values])
            cache.length += 1
            if step == 3:
                cache.length = 1
            if step == 5:
                cache.keys = cache.keys.clone()
                cache.length = 1

    agree(scenario)


def test_index_out_of_range() -> None:
    def scenario(stage):
        table = tj.arange(12.0).reshape(4, 3)
        log = tj.zeros(1)

        def f(i):
            log.add_(1)
            return table[i].sum()

        f = stage.compile(f)
        for i in (0, 3, -4, 4, 1, -5, 2):
            stage.call(f, tj.tensor([i]), wrt=[log])

    check(scenario, compiled=4)


def test_dropout_stream() -> None:
    """Compiled and eager draws take turns on one stream, which is seeded, saved and put back."""

    def scenario(stage):
        f = stage.compile(lambda v: F.dropout(v, 0.5) + tj.rand(3))
        tj.manual_seed(3)
        for step in range(8):
            stage.call(f, x(1.0, 2.0, 3.0))
            stage.note("eager draw", tj.rand(2))
            stage.note("state", tj.get_rng_state())
            if step == 2:
                saved = tj.get_rng_state()
            if step == 5:
                tj.set_rng_state(saved)
            if step == 6:
                tj.manual_seed(3)

    check(scenario, compiled=7)
