"""Steps of every optimizer on gradients that are NaN, infinite or zero: compiled as eager, element by element."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tracejit as tj

OPTIMIZERS = sorted(
    name
    for name, kind in vars(tj.optim).items()
    if inspect.isclass(kind) and issubclass(kind, tj.optim.Optimizer) and name != "Optimizer"
)
GRADIENTS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 2.0, -3.0]


def stepped(name: str, compiled: bool) -> np.ndarray:
    """A parameter after three steps; every second gradient changes its sign in between."""
    weight = tj.nn.Parameter(tj.linspace(-1.0, 1.0, len(GRADIENTS)))
    given = tj.tensor(GRADIENTS)
    optimizer = getattr(tj.optim, name)([weight], lr=0.1)

    def step(slope: tj.Tensor) -> tj.Tensor:
        optimizer.zero_grad()
        loss = (weight * slope).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = tj.compile(step) if compiled else step
    for sign in (1.0, -1.0, 1.0, 1.0):
        run(given * sign)
    return np.array(weight.detach())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n not in ("LBFGS", "Muon")])
def test_special_gradients(name: str) -> None:
    with np.errstate(all="ignore"):
        found, expected = stepped(name, compiled=True), stepped(name, compiled=False)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_a_sign_of_nothing_moves_nothing() -> None:
    """As in PyTorch, whose sign of NaN is zero."""
    assert stepped("Rprop", compiled=False)[0] == -1.0
