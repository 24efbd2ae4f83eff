"""A branch on data stays ordinary Python: both sides get recorded and compiled, forward and backward.

python examples/branching.py
"""

from __future__ import annotations

import tracejit as tj


@tj.compile
def shrink(x: tj.Tensor) -> tj.Tensor:
    """Double what sums to more than zero; otherwise step until the largest entry is positive."""
    if x.sum() > 0:
        return x * 2
    while x.max() <= 0:
        x = x + 1.5
    return x * x


def run(values: list[float]) -> tuple[list[float], list[float]]:
    """The result and the gradient of its sum."""
    x = tj.tensor(values, requires_grad=True)
    y = shrink(x)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


CASES = {
    "positive sum": ([1.0, -1.0, 2.0], [2.0, -2.0, 4.0], [2.0, 2.0, 2.0]),
    "one step": ([-1.0, -2.0, -1.0], [0.25, 0.25, 0.25], [1.0, -1.0, 1.0]),
    "two steps": ([-2.5, -3.0, -2.0], [0.25, 0.0, 1.0], [1.0, 0.0, 2.0]),
}


def main() -> None:
    """Every path three times: recorded, compiled, replayed."""
    for name, (values, result, gradient) in CASES.items():
        for _ in range(3):
            assert run(values) == (result, gradient), name
        print(f"{name}: f({values}) = {result}, gradient {gradient}")

    recordings = shrink.stats.recordings
    for values, result, gradient in reversed(CASES.values()):
        assert run(values) == (result, gradient)
    assert shrink.stats.recordings == recordings  # every path is known: nothing was recorded again
    assert shrink.stats.compiled_calls > 0

    print("\nthe guards between the segments:\n")
    guards = [
        line for graph in shrink.graphs for line in str(graph).splitlines() if "guard" in line
    ]
    print("\n".join(dict.fromkeys(line.strip() for line in guards)))
    assert guards


if __name__ == "__main__":
    main()
