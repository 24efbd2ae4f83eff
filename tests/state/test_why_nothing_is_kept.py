"""Every call changes Python state and is new in another way, too: the report says why none is compiled."""

from __future__ import annotations

import numpy as np

import tracejit as tj


def test_the_reason_is_told() -> None:
    def f(x: tj.Tensor, name: str) -> tj.Tensor:
        return x * float(np.random.dirichlet([1.0, 2.0])[0]) * len(name)

    compiled = tj.compile(f)
    for i in range(8):
        compiled(tj.ones(2), f"name {i}")
    assert "it changes Python state: the state of module numpy.random" in str(compiled.explain())
