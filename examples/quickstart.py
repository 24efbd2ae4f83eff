"""The first five minutes: compile a function, take gradients, see what happened.

python examples/quickstart.py
"""

from __future__ import annotations

import tracejit as tj


@tj.compile
def loss(x: tj.Tensor, weight: tj.Tensor, target: tj.Tensor) -> tj.Tensor:
    """Mean squared error of a layer with a tanh."""
    prediction = (x @ weight).tanh()
    return ((prediction - target) ** 2).mean()


def main() -> None:
    """Fit a layer to the output of a known one."""
    tj.manual_seed(0)
    truth = tj.randn(8, 4) * 0.3
    weight = tj.zeros(8, 4, requires_grad=True)

    # The first call runs eagerly and is recorded, the second compiles, all others replay.
    losses = []
    for _ in range(200):
        x = tj.randn(64, 8)
        value = loss(x, weight, (x @ truth).tanh())
        value.backward()
        with tj.no_grad():
            weight -= 0.5 * weight.grad
        weight.grad = None
        losses.append(value.item())

    print(f"loss: {losses[0]:.4f} at the start, {losses[-1]:.2e} after {len(losses)} steps")
    print(f"calls: {loss.stats.calls}, of them compiled: {loss.stats.compiled_calls}")
    print(f"kernels: {', '.join(k.name for k in loss.kernels)}")
    assert losses[-1] < 1e-3 * losses[0]
    assert tj.allclose(weight, truth, atol=0.05)
    assert loss.stats.compiled_calls >= 190

    # Compiled and eager code give the same values: `.function` is the function as it was written.
    x, target = tj.randn(64, 8), tj.randn(64, 4)
    assert tj.allclose(loss(x, weight, target), loss.function(x, weight, target))


if __name__ == "__main__":
    main()
