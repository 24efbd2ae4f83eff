"""Operations that a recorded run puts off, in a process with a GPU: those of the host alone."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit import deferral
from tracejit.deferred import Deferred

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_only_operations_of_the_host_wait(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferral, "LEAST_BYTES", 0)
    seen: list[bool] = []

    def f(x: tj.Tensor, number: tj.Tensor) -> tj.Tensor:
        y = number * 2
        z = x * y
        seen.append(type(z._block) is Deferred)
        return z.exp()

    x = tj.ones(3, device=device)
    found = tj.compile(f)(x, tj.tensor(0.5))
    assert found.device.type == device
    assert found.tolist() == f(tj.ones(3), tj.tensor(0.5)).tolist()
    assert seen[0] == (device == "cpu")
