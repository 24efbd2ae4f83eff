"""Helpers of the tests of guards on Python state."""

from __future__ import annotations

import types

from tracejit.trace.state.state import StateGuard


def module(name: str, source: str) -> types.ModuleType:
    """A module of the user's, made from source."""
    made = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), vars(made))
    return made


def expect_change(guard: StateGuard, *words: str) -> None:
    """The guard has noticed, and says where."""
    assert not guard.holds()
    text = guard.difference()
    assert text is not None
    assert all(word in text for word in words), text


def expect_same(guard: StateGuard) -> None:
    assert guard.difference() is None
    assert guard.holds()
