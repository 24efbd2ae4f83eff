"""Traps: names a function reads and writes. Each scenario runs eagerly and compiled and must observe the same."""

from __future__ import annotations

import tracejit as tj


def x(*values: float, grad: bool = True):
    return tj.tensor(list(values) or [1.0, -2.0, 3.0], requires_grad=grad)


def check_values(scenario):
    """Observations agree, whether or not anything ran compiled."""
    from trap_tools import play, same

    eager, found = play(scenario, False), play(scenario, True)
    for (label, a), (_, b) in zip(eager.seen, found.seen, strict=True):
        assert same(a, b), f"{label}: eager {a}, compiled {b}"
    return found.functions[0]
