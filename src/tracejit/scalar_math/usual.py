"""Choices that nearly always come out one way: where they do for all lanes, the other way is not computed.

In vector code the lanes of a loop are computed for the usual case, and before anything is stored it is looked whether
that held for all of them. Where it did not, the rest of the loop is computed both ways, lane by lane. So a lane's
result does not depend on its neighbours. Everywhere else both ways are computed.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import b1, f32, f64, select, u64


def usually_f32(condition: b1, often: f32, rarely: f32) -> f32:
    """`often` where `condition` holds, else `rarely`."""
    return select(condition, often, rarely)


def usually_f64(condition: b1, often: f64, rarely: f64) -> f64:
    """`often` where `condition` holds, else `rarely`."""
    return select(condition, often, rarely)


def usually_u64(condition: b1, often: u64, rarely: u64) -> u64:
    """`often` where `condition` holds, else `rarely`."""
    return select(condition, often, rarely)
