"""Train on a GPU where there is one: the same program, with the model and its data moved there.

python examples/on_a_gpu.py
"""

from __future__ import annotations

import tracejit as tj
from tracejit import nn


def main(steps: int = 100) -> None:
    """Learn whether two numbers have the same sign, the whole step as one compiled function."""
    device = "cuda" if tj.cuda.is_available() else "cpu"
    if device == "cpu":
        print(f"on the CPU: {tj.cuda.why_unavailable()}")

    tj.manual_seed(0)
    x = tj.randn(256, 8)
    same = (x[:, :1] * x[:, 1:2] > 0).float()
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    x, same = x.to(device), same.to(device)
    optimizer = tj.optim.Adam(model.parameters(), lr=2e-2)

    @tj.compile
    def step(x: tj.Tensor, same: tj.Tensor) -> tj.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), same)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step(x, same) for _ in range(steps)]  # nothing waits for the device here
    first, last = losses[0].item(), losses[-1].item()
    right = ((model(x) > 0) == (same > 0)).float().mean().item()
    print(f"{steps} steps on {device}: loss {first:.4f} -> {last:.4f}, {right:.0%} right")
    print(step.explain())
    assert last < first
    assert step.stats.compiled_calls >= steps - 2
    assert losses[-1].device.type == device


if __name__ == "__main__":
    main()
