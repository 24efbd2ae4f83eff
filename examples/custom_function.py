"""A function with a gradient of its own: `autograd.Function`, eager and inside compiled code.

The straight-through estimator rounds in the forward pass and pretends, in the backward pass, that it did not
(Bengio, Leonard and Courville, 2013).

    python examples/custom_function.py
"""

from __future__ import annotations

from typing import Any

import tracejit as tj


class RoundStraightThrough(tj.autograd.Function):
    """round(x) whose gradient is that of x where |x| <= limit, and zero elsewhere."""

    @staticmethod
    def forward(ctx: Any, x: tj.Tensor, limit: float) -> tj.Tensor:
        """Round, and remember which gradients may pass."""
        ctx.save_for_backward(x.abs() <= limit)
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: tj.Tensor) -> tuple[tj.Tensor, None]:
        """One gradient per argument of forward; None for the number."""
        (passes,) = ctx.saved_tensors
        return grad * passes, None


def quantised(x: tj.Tensor, weight: tj.Tensor) -> tj.Tensor:
    """A sum over rounded weights."""
    return (x * RoundStraightThrough.apply(weight, 2.0)).sum()


class Cube(tj.autograd.Function):
    """x ** 3, to show that a hand-written gradient can be checked."""

    @staticmethod
    def forward(ctx: Any, x: tj.Tensor) -> tj.Tensor:
        """The cube."""
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: tj.Tensor) -> tj.Tensor:
        """3 x^2."""
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def main() -> None:
    """The same values and gradients eagerly and compiled, and a check against finite differences."""
    x = tj.tensor([1.0, 2.0, 3.0])
    for name, function in {"eager": quantised, "compiled": tj.compile(quantised)}.items():
        for _ in range(3):
            weight = tj.tensor([0.4, 1.6, 2.7], requires_grad=True)
            value = function(x, weight)
            value.backward()
            assert value.item() == 13.0
            assert weight.grad.tolist() == [1.0, 2.0, 0.0]
        print(f"{name}: value {value.item()}, gradient {weight.grad.tolist()}")

    point = tj.tensor([-1.5, 0.5, 2.0], dtype=tj.float64, requires_grad=True)
    assert tj.autograd.gradcheck(Cube.apply, (point,))
    assert tj.autograd.gradgradcheck(Cube.apply, (point,))
    print("Cube: first and second derivatives agree with finite differences")


if __name__ == "__main__":
    main()
