"""Traps: what a function does besides computing counts wherever it is called from."""

from __future__ import annotations

import contextlib

import pytest

import tracejit as tj
from trap_tools import user_module


class Closing:
    """Calls something when it is let go."""

    def __init__(self, call):
        self.call = call

    def __del__(self):
        self.call()


def from_a_generator(call):
    def calls():
        yield call()
        yield call()

    return list(calls())


def from_a_context(call):
    @contextlib.contextmanager
    def around():
        yield
        call()

    with around():
        pass
    with around():
        pass


def from_a_finalizer(call):
    closing = Closing(call)
    del closing
    call()


@pytest.mark.parametrize("around", [from_a_generator, from_a_context, from_a_finalizer])
@pytest.mark.parametrize("effect", ["tj.manual_seed(4)", "print('here')", "time.time()"])
def test_effects_count_wherever_the_call_comes_from(around, effect, capsys):
    module = user_module(
        f"import time\nimport tracejit as tj\ndef f(x):\n    {effect}\n    return x * 2\n"
    )
    f = tj.compile(module.f)
    for _ in range(3):
        tj.manual_seed(1)
        around(lambda: f(tj.ones(3)))
        assert f.stats.compiled_calls == 0
        assert effect != "tj.manual_seed(4)" or tj.initial_seed() == 4
    assert any(effect.partition("(")[0].rpartition(".")[2] in reason for reason in f.reasons)
    assert effect != "print('here')" or capsys.readouterr().out.count("here") >= 6
